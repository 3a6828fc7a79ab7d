"""The daemon's API as the commands call it: where it listens, its token, one request at a time."""

import http.client
import os
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from agentconnect.channels.file import files, names
from agentconnect.cli.options import SENTENCE_CHARS, Options, UsageError, printable
from agentconnect.config import envfile, settings
from agentconnect.core.daemon.workspaces import PRIMARY_ID
from agentconnect.core.destination import Code
from agentconnect.core.errors import AgentConnectError, SettingsError, StoreUnreadableError
from agentconnect.store.layout import Layout
from agentconnect.store.peek import peek

WITHIN_S = 180.0
"""A session may have to start an agent first; a delivery has 30 s."""
MOST_BYTES = 64 * 1024 * 1024


class ApiError(AgentConnectError):
    """The daemon refused, or is not there; exit code 1."""

    exit_code = 1


class Api:
    """The API of the worker of these settings. Raises: SettingsError where there is none."""

    def __init__(self, options: Options) -> None:
        path = envfile.locate(options.config, os.environ)
        values = envfile.read(path).parsed.values if path is not None else {}
        chosen = settings.load(os.environ, values, config_file=path).settings
        where = Layout(state_dir=chosen.workspace)
        self._said = _said(chosen.status_file or where.status)
        self._files = partial(files, where, chosen.channels_file)
        self._host, self._port = _address(self._said, chosen.daemon_listen)
        self._token = _token(chosen.daemon_token, where)
        self._named = options.workspace or PRIMARY_ID
        self._prefix = f"/workspaces/{segment(options.workspace)}" if options.workspace else ""

    def tasks(self, rest: str = "") -> str:
        """The path of the scheduled tasks, or of what is below them."""
        return f"{self._prefix}/scheduled-tasks{rest}"

    @property
    def notify(self) -> str:
        """The path of Notify."""
        return f"{self._prefix or '/workspace'}/notify"

    def has_channel(self, name: str) -> bool:
        """Whether the workspace has that channel now: by the running worker, else by its file.

        True also where that cannot be told: who asks wants to warn. Raises: nothing.
        """
        workspace = self._workspace()
        running = self._said.channels.workspaces.get(workspace)
        if running is not None and running.channels:  # none while it starts
            return name in running.channels
        path = self._files().get(workspace)
        return not workspace or (path is not None and name in names(path))

    def _workspace(self) -> str:
        """The workspace's id; "" where it cannot be told."""
        if not self._named.startswith("/"):
            return self._named
        try:
            found = msgspec.convert(self.call("GET", "/capabilities"), _Capabilities)
        except (ApiError, msgspec.ValidationError):
            return ""
        real = os.path.realpath(self._named)
        return next((each.id for each in found.workspaces if each.cwd == real), "")

    def call(self, method: str, path: str, body: object = None) -> Any:
        """The answer's JSON. Raises: ApiError with what went wrong, UsageError."""
        where = f"{self._host}:{self._port}"
        connection = http.client.HTTPConnection(self._host, self._port, timeout=WITHIN_S)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        try:
            data = None if body is None else msgspec.json.encode(body)
        except UnicodeEncodeError as error:
            raise UsageError("an argument has bytes that are no text (UTF-8)") from error
        asked = False
        try:
            connection.connect()
            asked = True
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            text = answer.read(MOST_BYTES)
            if answer.length:  # a bounded read does not say that it was cut short
                raise http.client.IncompleteRead(text, answer.length)
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            told = f"the worker's API does not answer at {where} ({why}): is the worker running?"
            if asked:
                told = (
                    f"the worker's API at {where} gave no whole answer ({why}): it may have done "
                    "what was asked, or not."
                )
            raise ApiError(f"{told} See: agent-connect status") from error
        finally:
            connection.close()
        found = _json(text)
        if answer.status >= 300:
            raise ApiError(_refusal(answer.status, found))
        if not isinstance(found, dict):
            raise ApiError(f"what answers at {where} is not the worker's API: is the port right?")
        return found


def destination(options: Options) -> dict[str, Any] | None:
    """``delivery`` of the arguments; None where they name none. Raises: UsageError."""
    if options.channel is None and options.to is None:
        return None
    kind, colon, name = (options.to or "").partition(":")
    if not options.channel or not colon or kind not in ("user", "chat") or not name:
        raise UsageError("a destination needs --channel NAME and --to user:ID or --to chat:ID")
    target = {"channelName": options.channel, "type": kind, "id": name}
    return {"kind": "channel", "target": target}


def segment(text: str) -> str:
    """A segment of a path; what is no text is in no path of the API, and so is not found."""
    return quote(text, safe="", errors="replace")


def _address(said: "_Status", told: str) -> tuple[str, int]:
    """Where the running worker says that it listens, else where it is told to."""
    text = said.daemon.get("listen", "") or told
    if not text:
        raise SettingsError(
            "the worker's API is off: set AGENT_CONNECT_DAEMON_LISTEN, for example to "
            "127.0.0.1:4170, and start the worker (docs/channel-delivery.md)"
        )
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise SettingsError("the worker does not run, or does not say where its API listens")
    host = host.strip("[]")
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), int(port)  # noqa: S104


class _Worker(msgspec.Struct):
    channels: dict[str, str] = {}


class _Workers(msgspec.Struct):
    workspaces: dict[str, _Worker] = {}


class _Status(msgspec.Struct):
    daemon: dict[str, str] = {}
    channels: _Workers = msgspec.field(default_factory=_Workers)


class _Workspace(msgspec.Struct):
    id: str
    cwd: str


class _Capabilities(msgspec.Struct):
    workspaces: list[_Workspace]


def _said(path: Path) -> _Status:
    """What the worker's status file says; nothing where it cannot be read."""
    try:
        return msgspec.json.decode(peek(path) or b"{}", type=_Status)
    except (StoreUnreadableError, msgspec.MsgspecError, RecursionError):
        return _Status()


def _token(named: str, where: Layout) -> str:
    from agentconnect.daemon.setup import check_token, read_token

    found = check_token(named) or read_token(where.daemon_token)
    if not found:
        raise SettingsError(
            f"{where.daemon_token} is not there: the worker writes its token there when it starts "
            "with its API. Is AGENT_CONNECT_WORKSPACE that worker's?"
        )
    return found


def _json(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text) if text else {}
    except (msgspec.MsgspecError, RecursionError):
        return None


def _refusal(status: int, found: Any) -> str:
    said = found.get("error") if isinstance(found, dict) else None
    code = found.get("code") if isinstance(found, dict) else None
    sentence = printable(str(said or "the worker's API refused"), SENTENCE_CHARS)
    if status == 401:
        return "the worker's API does not take this token: is it another worker's?"
    told = f"{sentence.rstrip('.')} ({printable(str(code or status))})"
    if code == Code.UNAVAILABLE:
        told += ". See: agent-connect status, agent-connect channels check"
    return told
