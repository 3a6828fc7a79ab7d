"""The daemon in the worker's tree: what runs, and the order in which it stops (§16).

Under work: the channel workers, the agents of its sessions, the attempts, the server. Under intake:
:meth:`Daemon.listen`, whose cancellation closes the listening socket first.
"""

import logging
import socket
import time
from collections.abc import Callable, Mapping
from typing import cast

import msgspec
import trio
from hypercorn.typing import ASGIFramework

from agentconnect.core.daemon.authorizations import Authorizations
from agentconnect.core.daemon.cron import Zone
from agentconnect.core.daemon.guard import Bound, token_digest
from agentconnect.core.daemon.workspaces import Life, Registry
from agentconnect.daemon.edge import Edge, Rules
from agentconnect.daemon.handlers import Handlers
from agentconnect.daemon.hooks import Hooks
from agentconnect.daemon.openapi import document
from agentconnect.daemon.ports import Bridge, Channels
from agentconnect.daemon.routes import table
from agentconnect.daemon.routing import application
from agentconnect.daemon.scheduler import Scheduler
from agentconnect.daemon.server import listening, serve
from agentconnect.daemon.session import Pace
from agentconnect.daemon.sessions import Sessions
from agentconnect.daemon.setup import DaemonParts
from agentconnect.store.layout import Layout
from agentconnect.store.schedules import ScheduleFile

log = logging.getLogger("agentconnect.daemon")

SETTLE_S = 15.0
"""The scheduler waits so long at most for the channel workers."""


def _unheard(_text: str, _about: str = "") -> None:
    """Nobody keeps a status file."""


class Telling(msgspec.Struct, frozen=True, kw_only=True):
    """Where the daemon's news go: the bound address; sentences for the owner, and what about.

    ``""`` of a problem: it is no more.
    """

    listens: Callable[[str], None] = _unheard
    problem: Callable[[str, str], None] = _unheard


class Daemon:
    """One run of the API. Start :meth:`run`, then :meth:`listen`; end with :meth:`stop`."""

    def __init__(
        self,
        parts: DaemonParts,
        channels: Channels,
        bridges: Mapping[str, Bridge],
        where: Layout,
        *,
        zone: Zone,
        pace: Pace,
        telling: Telling,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._parts = parts
        self._channels = channels
        self._telling = telling
        self._life = Life.BOOTSTRAPPING
        self._bound = Bound(host="", port=0, loopback=True)
        self._closing = trio.Event()
        self._served = trio.Event()
        self._stopped = trio.Event()
        trusted = [each for each in parts.workspaces if each.trusted]
        files = {each.id: ScheduleFile(where.schedules(each.id)) for each in trusted}
        self.authorizations = Authorizations()
        self.sessions = Sessions(bridges, self.authorizations, channels, pace)
        self.scheduler = Scheduler(
            files,
            [each for each in trusted if each.id in bridges],
            self.sessions,
            zone=zone,
            now=now,
            problem=telling.problem,
        )
        registry = Registry(parts.workspaces)
        hooks = Hooks(tuple(trusted), parts.channels, channels, self.sessions)
        handlers = Handlers(registry, channels, self.sessions, self.scheduler, self._alive)
        self._digest = token_digest(parts.token)
        self._hooks = hooks
        edge = Edge(application(table(handlers, hooks, document())), self._rules)
        self._app = cast("ASGIFramework", edge)  # the server's types name each message

    def _alive(self) -> Life:
        return self._life

    def _rules(self) -> Rules:
        return Rules(
            bound=self._bound,
            digest=self._digest,
            origins=self._parts.origins,
            hook=self._hooks.check,
        )

    @property
    def address(self) -> str:
        """Where it listens, as the status file says it."""
        host = f"[{self._bound.host}]" if ":" in self._bound.host else self._bound.host
        return f"{host}:{self._bound.port}"

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Everything of the daemon until it was stopped; started when it listens.

        Raises: SettingsError where nothing can listen. Cancellation: cuts turns and attempts.
        """
        listener, self._bound = listening(self._parts.listen)
        with listener:
            async with trio.open_nursery() as tree:
                # first: a list of tasks that is broken is worse
                for problem in self._parts.problems:
                    log.warning("%s", problem)
                    self._telling.problem(problem, "")
                await tree.start(self._channels.run)
                await tree.start(self.sessions.run)
                await self.scheduler.register()
                tree.start_soon(self.scheduler.keep)
                self._life = Life.RUNNING
                await tree.start(self._serve, listener)
                self._telling.listens(self.address)
                log.info("the API listens at %s", self.address)
                task_status.started()
                await self._stopped.wait()
                tree.cancel_scope.cancel(reason="the daemon has stopped")

    async def _serve(
        self,
        listener: socket.socket,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        try:
            await serve(self._app, listener, self._closing.wait, task_status=task_status)
        finally:
            self._served.set()

    async def listen(self) -> None:
        """Take requests and fire tasks until cancelled, which closes the listening socket."""
        try:
            with trio.move_on_after(SETTLE_S):  # may end: a worker that hangs delays nothing more
                await self._channels.settled()
            await self.scheduler.run()
        finally:
            self._life = Life.DRAINING
            self.sessions.closing = True
            self._closing.set()

    async def stop(self, grace_s: float) -> None:
        """End turns and attempts, each within its grace, then everything."""
        async with trio.open_nursery() as ending:
            ending.start_soon(self.sessions.stop, grace_s)
            ending.start_soon(self._channels.stop)
            ending.start_soon(self._served.wait)  # each request under way gets its answer
        await self.scheduler.kept()
        self._life = Life.STOPPED
        self._stopped.set()
