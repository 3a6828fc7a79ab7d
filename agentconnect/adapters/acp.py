"""Any agent that speaks the Agent Client Protocol: started, or dialled (worker.md §8, §20.1).

Joins the pool of processes, the conversations by room and the record of them. Guests are not
served: nothing here confines an agent, and a limit that only looks like one is not offered.
"""

import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import trio

from agentconnect.acp import Preset
from agentconnect.adapters.acp_conversation import Reach
from agentconnect.adapters.acp_direct import Bridge
from agentconnect.adapters.acp_later import Later
from agentconnect.adapters.acp_launch import Door, Launch, Token
from agentconnect.adapters.acp_listener import AcpListener
from agentconnect.adapters.acp_pool import AgentPool, Limits
from agentconnect.adapters.acp_session import AcpSession
from agentconnect.adapters.acp_shared import SessionSettings, Shared
from agentconnect.adapters.childenv import child_environment
from agentconnect.adapters.trouble import Problem, Trouble, unheard
from agentconnect.core.acp.endpoint import Endpoint, remote_cwd
from agentconnect.core.acp.jsonrpc import detail_of
from agentconnect.core.acp.restarts import FIRST_S
from agentconnect.core.delivery.ports import DeliveryService, Destinations
from agentconnect.core.errors import (
    AgentConnectError,
    AgentError,
    AgentExitedError,
    PreflightError,
)
from agentconnect.core.task import SessionKey
from agentconnect.core.turns import wording_acp as wording
from agentconnect.core.turns.session import SessionLimits
from agentconnect.store.children import ChildrenFile
from agentconnect.store.sessions import SessionStore

log = logging.getLogger("agentconnect.adapters")


class AcpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of worker.md §3 that this adapter reads; ``command`` wins over ``preset``."""

    cwd: str
    command: tuple[str, ...] | None = None
    preset: str = ""
    dial: Endpoint | None = None
    """Dialled for each turn; then nothing is started, and there is no falling back to it."""
    remote_cwd: str = ""
    """What a dialled agent is told to work in; "" is ``cwd``."""
    mode: str = ""
    keepalive_s: float = 300.0
    max_idle: int = 8
    spare: int = 1
    execute: str = "refuse"
    skip_auth_check: bool = False
    session_turns: int = 20
    session_idle_s: float = 3600.0
    session_memory: bool = True
    attachment_max_bytes: int = 10 * 1024 * 1024
    start_limit_s: float = 120.0
    """``npx`` may have to download the agent first (worker.md §8.3)."""
    listener_pause_s: float = FIRST_S
    """Before the listener is started again for the first time."""
    umask: int = -1
    """What the agent's own files are made with: the umask of whoever started us, not ours."""
    secret_env: tuple[str, ...] = ()
    """Further variables the agent must not see: those that channels name with ``*_env``."""


class AcpAdapter:
    """The adapter ``acp``. Start :meth:`run` before anything else is used."""

    name = "acp"
    serves_guests = False

    def __init__(
        self,
        settings: AcpSettings,
        *,
        environment: Mapping[str, str],
        store: SessionStore,
        wall_clock: Callable[[], float],
        children: ChildrenFile | None = None,
        inline_dir: Path | None = None,
        token: Token | None = None,
        problem: Problem = unheard,
    ) -> None:
        """``token`` reads the bearer of a dialled agent; ``problem`` hears why a turn failed.

        Raises: SettingsError when dialling is configured and cannot be done.
        """
        self._settings = settings
        self._store = store
        self._launch = Launch(
            cwd=os.path.realpath(settings.cwd),
            environment=child_environment(environment, settings.secret_env)
            | (children.environment if children is not None else {}),
            command=settings.command,
            preset=settings.preset,
            umask=settings.umask,
        )
        dial = settings.dial
        self._door = Door(dial, token or _no_token) if dial else None
        limits = Limits(
            keepalive_s=0.0 if dial else settings.keepalive_s,  # dialled per turn
            max_idle=settings.max_idle,
            spare=settings.spare,
            start_s=settings.start_limit_s,
        )
        self._later = Later(local=_reach(dial) is not Reach.ELSEWHERE)
        self._limits, self._children, self._children_lock = limits, children, trio.Lock()
        self._pool = AgentPool(
            self._door or self._launch,
            limits,
            children,
            offers=self._later.in_turns,
            heard=self._later.heard,
            children_lock=self._children_lock,
        )
        preset = self._preset
        self._session_settings = SessionSettings(
            cwd=remote_cwd(settings.remote_cwd, self._launch.cwd) if dial else self._launch.cwd,
            reach=_reach(dial),
            mode=settings.mode,
            asking_mode=preset.asking_mode if preset else "",
            login=preset.login if preset else "",
            execute_allowed=settings.execute == "allow",
            attachment_max_bytes=settings.attachment_max_bytes,
            limits=SessionLimits(turns=settings.session_turns, idle_s=settings.session_idle_s),
            inline_dir=inline_dir,
        )
        self._shared = Shared(wall_clock=wall_clock, trouble=Trouble(problem), later=self._later)
        self._sessions: dict[SessionKey, AcpSession] = {}

    def deliver_by(self, service: DeliveryService, destinations: Destinations) -> None:
        """Offer deferred delivery; before any agent is started."""
        self._later.join(service, destinations)

    async def listener(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """The agent's standing connection, until cancelled; :meth:`run` must outlive it.

        Returns at once where there is none: no service, or an agent on another machine.
        """
        service = self._later.service
        if service is None or not self.shares_files:
            task_status.started()
            return
        standing = AcpListener(
            self._pool,
            self._later,
            service,
            start_limit_s=self._settings.start_limit_s,
            first_pause_s=self._settings.listener_pause_s,
        )
        await standing.run(task_status=task_status)

    def bridge(self, cwd: str) -> Bridge:
        """The daemon's conversations in ``cwd``, which is canonical; deliveries are not offered."""
        launch = msgspec.structs.replace(self._launch, cwd=cwd)
        pool = AgentPool(
            self._door or launch,
            msgspec.structs.replace(self._limits, spare=0),
            self._children,
            children_lock=self._children_lock,
        )
        told = remote_cwd(self._settings.remote_cwd, cwd) if self._door else cwd
        return Bridge(
            pool,
            msgspec.structs.replace(self._session_settings, cwd=told),
            self._store if self._settings.session_memory else None,
            msgspec.structs.replace(self._shared, later=Later(local=False)),
        )

    @property
    def remote(self) -> bool:
        """Dropping the connection is all that can be done to it."""
        return self._door is not None

    @property
    def shares_files(self) -> bool:
        """It runs on this machine."""
        return self._session_settings.reach is not Reach.ELSEWHERE

    @property
    def _preset(self) -> Preset | None:
        """The known agent that really runs."""
        return None if self._door else self._launch.known

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold every agent process until cancelled; then all of them end within seconds."""
        await self._pool.run(task_status=task_status)

    async def preflight(self) -> str:
        """Start one agent as a turn would, ask it who it is, and keep it as the first spare.

        Raises: PreflightError with what is wrong and how to mend it.
        """
        shown = self._door.where.shown if self._door else " ".join(self._launch.words())
        try:
            with trio.fail_after(self._settings.start_limit_s):
                agent = await self._pool.start()
        except trio.TooSlowError as error:
            raise PreflightError(
                wording.start_timeout(shown, self._settings.start_limit_s)
            ) from error
        except PreflightError:
            raise
        except AgentExitedError as error:
            told, path = error.stderr_tail, self._launch.path
            raise PreflightError(
                wording.would_not_start(shown, cause=str(error), stderr=told, path=path)
            ) from error
        except AgentConnectError as error:
            cause = detail_of(error) if isinstance(error, AgentError) else str(error)
            raise PreflightError(wording.would_not_start(shown, cause=cause, stderr="")) from error
        offered = [method.name or method.id for method in agent.info.auth_methods]
        preset = self._preset
        list_counts = preset is None or preset.auth_list_counts
        if offered and list_counts and not self._settings.skip_auth_check:
            agent.stop(quick=True)
            raise PreflightError(wording.login_needed(preset.login if preset else "", offered))
        if offered:
            log.info(
                "the agent offers logins (%s), which need not mean anything", ", ".join(offered)
            )
        self._pool.keep_as_spare(agent)
        return wording.described(agent.info.name, agent.info.version)

    @property
    def waiting(self) -> tuple[int, int]:
        """How many spare and how many idle agent processes are kept warm."""
        return self._pool.waiting

    @asynccontextmanager
    async def session(self, key: SessionKey) -> AsyncIterator[AcpSession]:
        """The conversation of ``key``; on leaving, its process stays warm or ends."""
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = AcpSession(
                key,
                settings=self._session_settings,
                pool=self._pool,
                store=self._store if self._settings.session_memory else None,
                shared=self._shared,
            )
        session.users += 1
        try:
            yield session
        finally:
            session.users -= 1
            await self._tidy(session)

    async def _tidy(self, session: AcpSession) -> None:
        if not session.users and session.key.room.startswith("task:"):
            with trio.CancelScope(shield=True):
                await session.retire()
        elif self._store.due:
            self._pool.later(self._store.settle)  # nobody waits for it
        idle = [k for k, s in self._sessions.items() if not s.users and not s.warm]
        for key in idle:
            del self._sessions[key]


def _reach(dial: Endpoint | None) -> Reach:
    if dial is None:
        return Reach.CHILD
    return Reach.LOOPBACK if dial.loopback else Reach.ELSEWHERE


async def _no_token() -> str:
    return ""
