"""The daemon's API, where it is switched on: its address, its token, its workspaces. Blocking.

Settings that are wrong are said with the others. No socket listens here, no token is made.
"""

import errno
import shlex
import socket
from pathlib import Path

import msgspec

from agentconnect.config.settings import LoadedSettings
from agentconnect.core.doctor import Finding, failure, ok, warning
from agentconnect.core.errors import SettingsError, StoreUnreadableError
from agentconnect.daemon.setup import Listen, read_listen, read_token, refusals
from agentconnect.doctor.folders import working_directory
from agentconnect.store.layout import Layout
from agentconnect.store.lock import Holder, holder_of
from agentconnect.store.peek import peek
from agentconnect.store.workspaces import read_workspaces

_RESTART = "restart the worker: settings are read at its start"


def look(loaded: LoadedSettings, where: Layout) -> list[Finding]:
    """The lines about the API; none where it is off."""
    settings = loaded.settings
    given = settings.daemon_listen, settings.daemon_token, settings.daemon_allow_origin
    if not settings.daemon_listen or refusals(*given):
        return []
    listen = read_listen(settings.daemon_listen)
    holder = holder_of(where.lock)
    bound = _bound(settings.status_file or where.status) if holder.held else ""
    findings = [_address(listen, holder, bound)]
    if settings.daemon_token:
        findings.append(ok("daemon.token", "AGENT_CONNECT_DAEMON_TOKEN gives the API's token"))
    else:
        findings.append(_token(where.daemon_token, listen, bound))
    mend = f"correct {where.workspaces} (mode 600), then restart the worker"
    problems = read_workspaces(where.workspaces, working_directory(loaded)).problems
    return [*findings, *(failure("daemon.workspaces", text, mend) for text in problems)]


class _Daemon(msgspec.Struct):
    listen: str = ""


class _Status(msgspec.Struct):
    daemon: _Daemon | None = None


def _bound(path: Path) -> str:
    """Where the running worker says that its API listens; "" where it says nothing."""
    try:
        found = msgspec.json.decode(peek(path) or b"{}", type=_Status).daemon
    except (StoreUnreadableError, msgspec.DecodeError, RecursionError):
        return ""
    return found.listen if found is not None else ""


def _address(listen: Listen, holder: Holder, bound: str) -> Finding:
    if not holder.held:
        return _free(listen)
    if not bound:
        text = f"a worker runs, pid {holder.pid}, and does not say that its API listens"
        return warning("daemon", text, f"see its log; or {_RESTART}")
    if not _same(listen, bound):
        text = f"the running worker's API listens at {bound}, not at {listen.text}"
        return warning("daemon", text, _RESTART)
    return ok("daemon", f"the API of the running worker, pid {holder.pid}, listens at {bound}")


def _same(listen: Listen, bound: str) -> bool:
    try:
        found = read_listen(bound)
    except SettingsError:
        return False
    return found.host == listen.host and listen.port in (0, found.port)


def _free(listen: Listen) -> Finding:
    """Whether a worker could listen there, asked by a socket that never does."""
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((listen.host, listen.port))
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        why = "another program listens there" if taken else error.strerror
        text = f"the API cannot listen at {listen.text}: {why}"
        mend = (
            f"{'end that program, or ' if taken else ''}name another address or port in "
            "AGENT_CONNECT_DAEMON_LISTEN; port 0 takes any that is free"
        )
        return failure("daemon", text, mend)
    return ok("daemon", f"the API can listen at {listen.text}")


def _token(path: Path, listen: Listen, bound: str) -> Finding:
    """The token of the file; the setting gives none."""
    try:
        found = read_token(path)
    except SettingsError as error:
        command = f"chmod 600 {shlex.quote(str(path))}"
        text = str(error).removesuffix(f"; run {command}.")
        mend = "move it away, or set AGENT_CONNECT_DAEMON_TOKEN; then restart the worker"
        return failure("daemon.token", text, mend if text == str(error) else command)
    if found:
        return ok("daemon.token", f"{path} holds the API's token")
    if bound:
        text = f"{path} is not there: notify and schedule do not find the running API's token"
        mend = "set AGENT_CONNECT_DAEMON_TOKEN as that worker has it, or restart it"
        return warning("daemon.token", text, mend)
    if not listen.loopback:
        text = f"others can reach {listen.text}, and no token of yours is there"
        mend = f"set AGENT_CONNECT_DAEMON_TOKEN, or put a token into {path} (mode 600)"
        return failure("daemon.token", text, mend)
    return ok("daemon.token", f"{path} will be made at the first start with the API")
