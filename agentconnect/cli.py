"""The command line: arguments → settings → exit code; the only module that prints.

Trio, httpx and the servers are imported inside the functions that need them: ``--version`` and
``--export-config`` must start in a few milliseconds (design.md §6). Every refusal is one sentence
on stderr with ``agent-connect: `` in front, never a traceback (worker.md §1).
"""

from __future__ import annotations

import getpass
import logging
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agentconnect.core.errors import (
    AgentConnectError,
    SettingsError,
    WorkspaceHeldError,
    first_cause,
)

if TYPE_CHECKING:
    from agentconnect.config.settings import LoadedSettings
    from agentconnect.embedded.server import EmbeddedRelay, LocalSetup
    from agentconnect.stopping import Stop

USAGE = """\
usage: agent-connect [--config PATH] [COMMAND]

Joins the coding agent on this machine to the rooms where people ask for things.

  (no command)       run the worker
  local              relay, room page, worker and agent on this machine; prints one URL
      --say TEXT         without a browser: post TEXT, print the answer, end
      --listen HOST:PORT where the relay listens (default: 127.0.0.1 and a free port)
      --dir PATH         where rooms are kept (default: ~/.agent-connect/local)
  relay              the relay and its room page alone, for workers elsewhere
      --listen HOST:PORT where it listens (default: 127.0.0.1:8460)
      --public-url URL   how workers and browsers reach it, if not by that address
      --dir PATH         where rooms are kept (default: ~/.agent-connect/relay)
      --add-agent NAME   make an agent identity, print its token and command once

  --config PATH      the config file (else AGENT_CONNECT_CONFIG, else
                     ~/.agent-connect/config.env if it exists)
  --export-config    print the config file as shell export lines
  --version          print the version
  -h, --help         print this text

Settings are environment variables; the config file holds the same names, and the
environment wins. All of them: docs/settings.md
"""

_FLAGS = {
    "": {},
    "local": {"--say": "say", "--listen": "listen", "--dir": "directory"},
    "relay": {
        "--listen": "listen",
        "--dir": "directory",
        "--add-agent": "add_agent",
        "--public-url": "public_url",
    },
}
_SAY_LIMIT_S = 60.0


class UsageError(AgentConnectError):
    """The arguments are off; exit 2 with the usage."""

    exit_code = 2


class Options(msgspec.Struct, kw_only=True):
    """The arguments, parsed."""

    command: str = ""
    config: str | None = None
    export: bool = False
    say: str | None = None
    listen: str | None = None
    directory: str | None = None
    add_agent: str | None = None
    public_url: str | None = None
    umask: int = -1


def parse(argv: Sequence[str]) -> Options:
    """Arguments to options. Raises: UsageError naming the argument."""
    options = Options()
    words = list(argv)
    while words:
        word = words.pop(0)
        flag, equals, value = word.partition("=")
        if flag == "--config" or flag in _FLAGS[options.command]:
            if not equals and not words:
                what = "a path" if flag in {"--config", "--dir"} else "a value"
                raise UsageError(f"{flag} needs {what}")
            field = "config" if flag == "--config" else _FLAGS[options.command][flag]
            setattr(options, field, value if equals else words.pop(0))
        elif word == "--export-config":
            options.export = True
        elif word in {"local", "relay"} and not options.command:
            options.command = word
        else:
            raise UsageError(f'unknown argument "{_printable(word)}"')
    return options


def main(argv: Sequence[str]) -> int:
    """Run one command; its exit code (design.md §3)."""
    if {"-h", "--help"} & set(argv):
        print(USAGE, end="")
        return 0
    if "--version" in argv:
        print(f"agent-connect {version('agentconnect')}")
        return 0
    umask = os.umask(0o077)
    try:
        options = parse(argv)
        options.umask = umask
        if options.export:
            return _export(options)
        return {"": _run, "local": _local, "relay": _relay}[options.command](options)
    except UsageError as error:
        _complain(str(error))
        print(USAGE, end="", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:  # before the signal watcher is up
        return 130
    except Exception as error:  # noqa: BLE001 - the boundary of the program
        return _ended_by(first_cause(error))


def _ended_by(error: BaseException) -> int:
    """The sentence and the exit code of an error that ended the program."""
    if isinstance(error, AgentConnectError):
        _complain(str(error))
        return error.exit_code
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename else ""
        _complain(f"{error.strerror or error}{where}")
        return 1
    logging.getLogger("agentconnect").error("unexpected end", exc_info=error)
    _complain(f"unexpected error, {type(error).__name__}: {error}")
    return 1


def _export(options: Options) -> int:
    from agentconnect.config.export import export_config

    lines, warnings = export_config(options.config, os.environ)
    _warn(warnings)
    for line in lines:
        print(line)
    return 0


def _load(
    options: Options,
    fixed: Mapping[str, str] | None = None,
    defaults: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda _chosen: {},
) -> LoadedSettings:
    """The config file and the environment, with what there is to say about them.

    ``fixed`` outranks both; ``defaults`` yield to both and are told what both chose.
    """
    from agentconnect.config import envfile, settings

    path = envfile.locate(options.config, os.environ)
    values: dict[str, str] = {}
    if path is not None:
        file = envfile.read(path)
        values = file.parsed.values
        applied = envfile.applied_line(path, envfile.apply(values, os.environ))
        print(applied, file=sys.stderr if options.say is not None else sys.stdout, flush=True)
        _warn(settings.file_warnings(file))
    environment = {**os.environ, **(fixed or {})}
    chosen = envfile.apply(values, environment).environment
    loaded = settings.load(environment, {**defaults(chosen), **values}, child_umask=options.umask)
    _warn(loaded.warnings)
    return loaded


def _run(options: Options) -> int:
    """The worker."""
    loaded = _load(options)
    import trio

    from agentconnect.app import run_worker
    from agentconnect.stopping import Stop

    async def worker() -> int:
        return await run_worker(loaded, Stop(), say=_say_line)

    return trio.run(worker)


def _local(options: Options) -> int:
    """Relay, page, worker and agent in one process."""
    import trio

    from agentconnect.store.lock import WorkspaceLock

    home = _folder(options.directory, "local")
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with WorkspaceLock.acquire(home / "lock"):
        return trio.run(_local_session, options, home)


async def _local_session(options: Options, home: Path) -> int:
    import trio

    from agentconnect.app import run_worker
    from agentconnect.embedded.server import open_embedded
    from agentconnect.stopping import Stop

    host, port = _listen(options.listen, default=("127.0.0.1", _last_port(home)))
    async with open_embedded(home / "relay", host=host, port=port) as relay:
        _keep_port(home, relay.origin)
        setup = await relay.ensure_local(agent_name="helper", owner_name=_user())
        loaded = _load(options, _local_fixed(setup.agent_token, home), _local_defaults)
        stop = Stop()
        answered: list[bool] = []
        async with trio.open_nursery() as nursery:

            async def ready() -> None:
                if options.say is None:
                    print(f"\nOpen the room in a browser:\n\n  {setup.page_url}\n")
                    print(_other_agent(loaded.settings.acp_agent), end="")
                    print("Ctrl-C stops everything.", flush=True)
                else:
                    nursery.start_soon(_say, relay, setup, options.say, stop, answered)

            say = _say_line if options.say is None else _hush
            code = await run_worker(loaded, stop, say=say, ready=ready)
            nursery.cancel_scope.cancel(reason="the worker ended")
    return code if options.say is None or answered or code else 1


async def _say(
    relay: EmbeddedRelay, setup: LocalSetup, text: str, stop: Stop, answered: list[bool]
) -> None:
    """``--say``: one message, its final answer on stdout."""
    if not text.strip():
        _complain("--say needs a message")
    else:
        answer = await relay.ask(setup.room_id, setup.owner_id, text, timeout_s=_SAY_LIMIT_S)
        if answer is None:
            _complain(f"no answer came within {_SAY_LIMIT_S:.0f} s")
        else:
            print(answer, flush=True)
            answered.append(True)
    stop.ask("said")


def _relay(options: Options) -> int:
    """The embedded relay alone."""
    import trio

    from agentconnect.store.lock import WorkspaceLock

    home = _folder(options.directory, "relay")
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        lock = WorkspaceLock.acquire(home / "lock")
    except WorkspaceHeldError:
        if options.add_agent is None:
            raise
        return trio.run(_add_to_running, options.add_agent, home)
    with lock:
        return trio.run(_relay_session, options, home)


async def _relay_session(options: Options, home: Path) -> int:
    import trio

    from agentconnect.embedded.server import open_embedded
    from agentconnect.stopping import Stop, watch_signals

    host, port = _listen(options.listen, default=("127.0.0.1", 8460))
    public = (options.public_url or "").rstrip("/")
    stop = Stop()
    async with (
        trio.open_nursery() as root,
        open_embedded(home, host=host, port=port, public_url=public) as relay,
    ):
        await root.start(watch_signals, stop, root.cancel_scope)
        _owner, link = await relay.ensure_owner(_user())
        (home / "address").write_text(relay.base + "\n")
        print(f"relay: {relay.base}\nroom page: {relay.page_url(link)}", flush=True)
        if options.add_agent is not None:
            _show_agent(*await relay.add_agent(options.add_agent.strip() or "agent"))
        await stop.wait()
        root.cancel_scope.cancel(reason="asked to stop")
    return 128 + stop.second_signal if stop.second_signal else 0


async def _add_to_running(name: str, home: Path) -> int:
    """The relay runs in another process: make the identity in its database."""
    from agentconnect.embedded.local import add_agent_beside

    base = (home / "address").read_text().strip()
    _show_agent(*await add_agent_beside(home, base, name.strip() or "agent"))
    return 0


def _show_agent(user_id: str, token: str, command: str) -> None:
    print(f"\n{user_id} is made. Its token and command are shown this once:\n")
    print(f"  {token}\n\n  {command}\n", flush=True)


def _local_fixed(token: str, home: Path) -> dict[str, str]:
    """What ``local`` decides: its own token, and a state folder that no other worker uses."""
    fixed = {"AGENT_CONNECT_TOKEN": token}
    if not os.environ.get("AGENT_CONNECT_WORKSPACE", "").strip():
        fixed["AGENT_CONNECT_WORKSPACE"] = str(home / "workspace")
    return fixed


def _local_defaults(chosen: Mapping[str, str]) -> dict[str, str]:
    """What ``local`` uses where nobody chose an agent: the bundled one, over ACP."""
    defaults = {"AGENT_CONNECT_ADAPTER": "acp"}
    named = ("AGENT_CONNECT_ACP_AGENT", "AGENT_CONNECT_ACP_COMMAND")
    if not any(chosen.get(name, "").strip() for name in named):
        command = shlex.join([sys.executable, "-m", "agentconnect.demo"])
        defaults["AGENT_CONNECT_ACP_COMMAND"] = command
    return defaults


def _other_agent(chosen: str) -> str:
    """A hint at a real agent that is installed; it is never started unasked: it costs money."""
    from agentconnect.acp import PRESETS

    if chosen:
        return ""
    found = [name for name, preset in PRESETS.items() if shutil.which(preset.binary)]
    if not found:
        return ""
    return f"A real agent is installed: AGENT_CONNECT_ACP_AGENT={found[0]} answers with it.\n"


def _folder(named: str | None, name: str) -> Path:
    folder = Path(named).expanduser() if named else Path.home() / ".agent-connect" / name
    return folder.absolute()


def _last_port(home: Path) -> int:
    """The port of the last run if it is free, so that open pages find the room again; 0 = any."""
    import socket

    try:
        port = int((home / "port").read_text().strip())
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
    except (OSError, ValueError, OverflowError):
        return 0
    return port


def _keep_port(home: Path, origin: str) -> None:
    (home / "port").write_text(origin.rpartition(":")[2] + "\n")


def _listen(text: str | None, default: tuple[str, int]) -> tuple[str, int]:
    if text is None:
        return default
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:]+)\]|([A-Za-z0-9.-]+)):([0-9]{1,5})", text.strip())
    if found is None or int(found[3]) > 65535:
        raise SettingsError(f'--listen is "{_printable(text)}", not HOST:PORT')
    return found[1] or found[2], int(found[3])


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "owner"


def _say_line(line: str) -> None:
    print(line, flush=True)


def _hush(line: str) -> None:
    """``--say`` keeps stdout for the answer."""


def _warn(sentences: Sequence[str]) -> None:
    for sentence in sentences:
        print(f"agent-connect: WARNING: {sentence}", file=sys.stderr)


def _complain(sentence: str) -> None:
    print(f"agent-connect: {sentence}", file=sys.stderr, flush=True)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:80])
