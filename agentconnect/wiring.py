"""Settings to parts: what ``app`` puts into its tree (worker.md §4, the start-up order).

Every wrong setting is a sentence here, before anything is leased. Knows every folder of the worker
and is known by ``app`` only.
"""

import contextlib
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path

import msgspec
import trio

from agentconnect.adapters import registry
from agentconnect.adapters.acp import AcpAdapter, AcpSettings
from agentconnect.adapters.cline import Cline
from agentconnect.adapters.codex import Codex
from agentconnect.adapters.contract import Adapter
from agentconnect.adapters.kilo import Kilo
from agentconnect.adapters.ollama import OllamaAdapter, OllamaSettings
from agentconnect.adapters.omnigent import Omnigent
from agentconnect.adapters.oneshot import OneShotAdapter, OneShotSettings, Program
from agentconnect.adapters.trouble import Problem, unheard
from agentconnect.checks import bearer, dialled, refusals, refuse_wrong
from agentconnect.config import settings as config
from agentconnect.config import workdir
from agentconnect.config.envfile import expand_home
from agentconnect.core.errors import SettingsError, StoreUnreadableError
from agentconnect.core.redaction import shapes_in
from agentconnect.core.relay import credential
from agentconnect.core.turns.access import Admit, admission
from agentconnect.core.turns.guard import Scan
from agentconnect.daemon.setup import DaemonParts, prepare
from agentconnect.delivery.destinations import usable
from agentconnect.delivery.folders import ExportFolders
from agentconnect.delivery.standing import DeliverySettings
from agentconnect.relay import RelayConfig
from agentconnect.status import logs
from agentconnect.status.notify import Notifier
from agentconnect.status.writer import StatusWriter
from agentconnect.stopping import Stop
from agentconnect.store.access import AccessFile
from agentconnect.store.children import ChildrenFile
from agentconnect.store.journal import Journal, open_journal
from agentconnect.store.layout import CLAIMS, Layout
from agentconnect.store.lock import WorkspaceLock
from agentconnect.store.sessions import SessionStore
from agentconnect.turns.turn import TurnSettings

log = logging.getLogger("agentconnect")

JOURNAL_RETRY_S = 15.0


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What the tree is made of, checked."""

    adapter: Adapter
    relay: RelayConfig
    turns: TurnSettings
    admit: Admit
    scan: Scan
    detail: str
    where: Layout
    delivery: DeliverySettings | None
    """None where the agent is of a kind that delivers nothing later."""
    daemon: DaemonParts | None
    """None while the API is off."""
    environment: Mapping[str, str]


def start_logging(loaded: config.LoadedSettings) -> set[str]:
    """The log on stderr; the secrets that are cut out of every line, for more to be added."""
    env = loaded.environment
    texts = [env[name].strip() for name in config.secret_names() if env.get(name, "").strip()]
    secrets = {part for text in texts for part in (text, credential.parse_token(text)[1]) if part}
    logs.configure(loaded.settings.log, lambda: tuple(secrets))
    return secrets


def layout(settings: config.Settings) -> Layout:
    """The places in the state folder."""
    return Layout(state_dir=settings.workspace, instance=settings.instance)


def claim(loaded: config.LoadedSettings, where: Layout) -> WorkspaceLock:
    """The state folder, made, ours alone to read, and held.

    Raises: SettingsError when it cannot be used, with what else is wrong: nothing but this sentence
    will ever be written about that start. WorkspaceHeldError when another worker has it.
    """
    try:
        where.prepare()
        return WorkspaceLock.acquire(where.lock)
    except OSError as error:
        sentences = (_unusable(where.state_dir, error), *refusals(loaded))
        raise SettingsError("\n".join(sentences)) from error


def _unusable(folder: Path, error: OSError) -> str:
    why = error.strerror or type(error).__name__
    if isinstance(error, PermissionError):
        with contextlib.suppress(OSError):
            if (owner := folder.stat().st_uid) != os.geteuid():
                why = f"it belongs to another user (uid {owner})"
    return (
        f"AGENT_CONNECT_WORKSPACE is {folder}, which cannot be used as a folder: {why}. Name a "
        "folder that you may write to."
    )


def status_writer(settings: config.Settings, where: Layout) -> StatusWriter:
    """The status file's owner."""
    return StatusWriter(
        settings.status_file or where.status,
        settings.status_heartbeat_s,
        instance=settings.instance,
        workspace=str(settings.workspace),
        clean=logs.clean,
    )


def notifier(environment: Mapping[str, str]) -> Notifier:
    """systemd's notify socket, if this is a service."""
    ours = environment.get("WATCHDOG_PID", "").strip() in {"", str(os.getpid())}
    watchdog = environment.get("WATCHDOG_USEC", "") if ours else ""
    return Notifier(
        environment.get("NOTIFY_SOCKET", ""),
        watchdog_usec=int(watchdog) if watchdog.isdecimal() else 0,
    )


async def parts(  # the start-up order is the point of this function
    loaded: config.LoadedSettings,
    where: Layout,
    status: StatusWriter,
    say: Callable[[str], None],
    secrets: set[str],
) -> Parts:
    """Steps 4 to 7 of worker.md §4.

    Raises: SettingsError for all settings that no default can mend, a sentence a line.
    """
    children = await trio.to_thread.run_sync(_children, where)
    settings, name = loaded.settings, loaded.settings.adapter
    if name in registry.NAMES:
        status.facts(adapter=name)
    await trio.to_thread.run_sync(refuse_wrong, loaded)
    place = await trio.to_thread.run_sync(workdir.prepare, settings.repo, loaded.environment)
    if place.announcement:
        say(f"agent-connect: {place.announcement}")
    if place.warning:
        log.warning("%s", place.warning)
    cwd = str(place.path)
    daemon = await trio.to_thread.run_sync(_daemon, loaded, where, place.path)
    hidden = daemon.secret_variables if daemon else frozenset()
    secrets.update(daemon.secrets if daemon else ())
    problem = partial(status.error, about="agent")
    made = makers(loaded, cwd, where, children, problem, hidden)
    adapter = registry.build(name, made)
    status.facts(repo=cwd)
    relay = _relay_config(loaded, where, cwd, secrets.add)
    return Parts(
        adapter=adapter,
        relay=relay,
        turns=_turn_settings(settings, cwd),
        admit=_admission(settings, name, where, status),
        scan=lambda text: shapes_in(text, tuple(secrets)),
        detail=f"adapter={name} repo={cwd} ws={settings.workspace}",
        where=where,
        delivery=await _delivery_settings(settings, name, where),
        daemon=daemon,
        environment=loaded.environment,
    )


def _daemon(loaded: config.LoadedSettings, where: Layout, repo: Path) -> DaemonParts | None:
    settings = loaded.settings
    if not settings.daemon_listen:
        return None
    return prepare(
        listen=settings.daemon_listen,
        token=settings.daemon_token,
        origins=settings.daemon_allow_origin,
        where=where,
        repo=repo,
        channels=settings.channels_file,
        environment=loaded.environment,
        own_token=settings.credential[0],
    )


async def _delivery_settings(
    settings: config.Settings, adapter: str, where: Layout
) -> DeliverySettings | None:
    """The export folder is made here, before there is a relay client to seal it in."""
    if adapter != "acp":
        return None
    return DeliverySettings(
        collaborators=frozenset(settings.acp_collaborators),
        unchecked=settings.unchecked_collaborators,
        folder=await trio.to_thread.run_sync(usable, ExportFolders(where.export)),
    )


def _relay_config(
    loaded: config.LoadedSettings, where: Layout, cwd: str, on_rotated: Callable[[str], None]
) -> RelayConfig:
    settings = loaded.settings
    ours = bearer(settings)
    log.info("the token is %s of %s", ours.source, loaded.credential_layer)
    for warning in ours.warnings:
        log.warning("%s", warning)
    return RelayConfig(
        credential=ours,
        token_file=loaded.token_file,
        on_rotated=on_rotated,
        instance=settings.instance,
        status_path=where.connection_status,
        guard_path=where.guard,
        claims_dir=Path(expand_home(CLAIMS, loaded.environment)),
        media_dir=where.media,
        media_origins=settings.media_origins,
        pictures_dir=where.inline,
        egress_roots=(cwd, *settings.egress_roots),
        delivery_root=str(where.export),
        private_folders=(str(settings.workspace),),
        private_files=(str(loaded.config_file),) if loaded.config_file else (),
        package_version=version("agentconnect"),
    )


def makers(
    loaded: config.LoadedSettings,
    cwd: str,
    where: Layout,
    children: ChildrenFile | None,
    problem: Problem = unheard,
    hidden: frozenset[str] = frozenset(),
) -> dict[str, registry.Maker]:
    """How each adapter is made; without ``children`` nothing is written down of its processes.

    ``problem`` hears of what the owner has to mend; ``hidden``: further secrets' variables.
    """
    settings, secret_env = loaded.settings, tuple(config.secret_names() | hidden)

    def program(made: Program) -> Adapter:
        return OneShotAdapter(
            made,
            OneShotSettings(
                cwd=cwd,
                umask=loaded.child_umask,
                secret_env=secret_env,
            ),
            environment=loaded.environment,
            children=children,
            problem=problem,
        )

    def path(text: str) -> str:
        return expand_home(text, loaded.environment)

    def ollama() -> Adapter:
        return OllamaAdapter(
            OllamaSettings(cwd=cwd, host=settings.ollama_host, model=settings.ollama_model),
            problem=problem,
        )

    return {
        "acp": lambda: _acp_adapter(loaded, cwd, where, children, problem, secret_env),
        "cline": lambda: program(
            Cline(
                binary=path(settings.cline_bin),
                provider=settings.cline_provider,
                model=settings.cline_model,
            )
        ),
        "codex": lambda: program(Codex(network=settings.codex_network)),
        "kilo": lambda: program(Kilo(binary=path(settings.kilo_bin))),
        "ollama": ollama,
        "omnigent": lambda: program(
            Omnigent(
                binary=path(settings.omnigent_bin),
                harness=settings.omnigent_harness,
                model=settings.omnigent_model,
            )
        ),
    }


def _children(where: Layout) -> ChildrenFile:
    """The record of our processes; what an earlier run left behind is ended."""
    children = ChildrenFile(where.children)
    if reaped := children.reap():
        log.warning("%d agents that an earlier run left behind were ended", reaped)
    return children


def _acp_adapter(
    loaded: config.LoadedSettings,
    cwd: str,
    where: Layout,
    children: ChildrenFile | None,
    problem: Callable[[str], None],
    secret_env: tuple[str, ...],
) -> AcpAdapter:
    settings = loaded.settings
    store = SessionStore(settings.session_store or where.sessions)
    store.load(wall_now=time.time(), prune=settings.session_idle_s > 0)

    async def token() -> str:
        return await trio.to_thread.run_sync(config.current, loaded, "AGENT_CONNECT_ACP_TOKEN")

    return AcpAdapter(
        AcpSettings(
            cwd=cwd,
            command=settings.acp_command or None,
            dial=dialled(settings),
            remote_cwd=settings.acp_remote_cwd,
            preset=settings.acp_agent,
            mode=settings.acp_mode,
            keepalive_s=settings.acp_keepalive_s,
            max_idle=settings.acp_max_idle,
            spare=settings.acp_spare,
            execute=settings.acp_execute,
            skip_auth_check=settings.acp_skip_auth_check,
            session_turns=settings.session_turns,
            session_idle_s=settings.session_idle_s,
            session_memory=settings.session_memory,
            attachment_max_bytes=settings.attachment_max_bytes,
            umask=loaded.child_umask,
            secret_env=secret_env,
        ),
        environment=loaded.environment,
        store=store,
        wall_clock=time.time,
        children=children,
        inline_dir=where.inline,
        token=token,
        problem=problem,
    )


def _turn_settings(settings: config.Settings, cwd: str) -> TurnSettings:
    return TurnSettings(
        cwd=cwd,
        live_progress=settings.live_progress,
        throttle_s=settings.progress_throttle_s,
        edit_ceiling=settings.edit_ceiling,
        turn_timeout_s=settings.turn_timeout_s,
        unchecked_collaborators=settings.unchecked_collaborators,
    )


def _admission(
    settings: config.Settings, adapter: str, where: Layout, status: StatusWriter
) -> Admit:
    """Who is served: what the relay attests, under the owner's cap and list of collaborators."""
    access = AccessFile(where.access, status.remark)
    access.look()
    listed = settings.acp_collaborators if adapter == "acp" else ()
    collaborators = frozenset(listed)
    if listed:
        log.info("%d collaborators, read at start: a change takes a restart", len(listed))
    return lambda task: admission(task, access.cap(task.user_id), collaborators)


@asynccontextmanager
async def journal(where: Layout, status: StatusWriter, stop: Stop) -> AsyncIterator[Journal | None]:
    """The journal, waited for while it cannot be used; None where the stop came first.

    Nothing is leased meanwhile (relay-wire.md §14), and the status says why.
    """
    async with AsyncExitStack() as opened:
        found: Journal | None = None
        while found is None and not stop.asked:
            context = open_journal(where.journal, legacy=where.legacy_journal)
            try:
                found = await opened.enter_async_context(context)
            except StoreUnreadableError as error:
                log.warning("%s; again in %g s", error, JOURNAL_RETRY_S)
                status.state("error", str(error))
                with trio.move_on_after(JOURNAL_RETRY_S):
                    await stop.wait()
            else:
                status.state("starting")
        yield found
