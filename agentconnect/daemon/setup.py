"""From settings to what the daemon is made of: address, token, workspaces, channels (§2.3, §5).

Blocking, before anything runs. Nothing of a web server is imported here.
"""

import ipaddress
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agentconnect.channels import file as channels_file
from agentconnect.channels.file import Channels
from agentconnect.core.daemon.guard import TOKEN_BYTES, read_origins
from agentconnect.core.daemon.workspaces import PRIMARY_ID, Workspace
from agentconnect.core.errors import SettingsError
from agentconnect.store.atomic import write_file
from agentconnect.store.layout import Layout
from agentconnect.store.owners import read_owners
from agentconnect.store.workspaces import read_workspaces

_LISTEN = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+)):([0-9]{1,5})")
_TOKEN = re.compile(r"[\x21-\x7e]+")
_MOST_TOKEN_BYTES = 16 * 1024


class Listen(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen; ``host`` without brackets."""

    text: str
    host: str
    port: int
    loopback: bool


class DaemonParts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the settings decide. ``problems`` are sentences for the log and the owner."""

    listen: Listen
    token: str
    origins: frozenset[str]
    workspaces: tuple[Workspace, ...]
    channels: Mapping[str, Channels]
    """By workspace; of trusted ones only."""
    problems: tuple[str, ...]

    def __repr__(self) -> str:
        return f"DaemonParts({self.listen.text!r}, {len(self.workspaces)} workspaces)"

    @property
    def secrets(self) -> frozenset[str]:
        """What no line of a log may hold."""
        return frozenset((self.token,)).union(*(one.secrets for one in self.channels.values()))

    @property
    def secret_variables(self) -> frozenset[str]:
        """What no agent's environment may hold."""
        found = (one.secret_variables for one in self.channels.values())
        return frozenset[str]().union(*found)


def refusals(listen: str, token: str, origins: str) -> tuple[str, ...]:
    """A sentence for each setting that no default can mend. None while the API is off."""
    found: list[str] = []
    if listen:
        try:
            read_listen(listen)
        except SettingsError as error:
            found.append(str(error))
        try:
            read_origins(origins)
        except ValueError as error:
            found.append(f"AGENT_CONNECT_DAEMON_ALLOW_ORIGIN: {error}")
        try:
            check_token(token)
        except SettingsError as error:
            found.append(str(error))
    return tuple(found)


def check_token(token: str) -> str:
    """The token, or "" for none. Raises: SettingsError where it cannot stand in a header."""
    if token and not _TOKEN.fullmatch(token):
        raise SettingsError(
            "AGENT_CONNECT_DAEMON_TOKEN holds a character that no token has. Use letters, "
            "digits and signs of ASCII, without blanks."
        )
    return token


def prepare(
    *,
    listen: str,
    token: str,
    origins: str,
    where: Layout,
    repo: Path,
    channels: Path | None,
    environment: Mapping[str, str],
    own_token: str,
) -> DaemonParts:
    """Read it all, and make the token where there is none. Raises: SettingsError."""
    if wrong := refusals(listen, token, origins):
        raise SettingsError("\n".join(wrong))
    at = read_listen(listen)
    found = read_workspaces(where.workspaces, repo)
    problems = list(found.problems)
    if channels is not None and not os.path.lexists(channels):
        problems.append(f"AGENT_CONNECT_CHANNELS_FILE names {channels}, which is not there.")
    by_workspace: dict[str, Channels] = {}
    for workspace in found.workspaces:
        own = channels if workspace.id == PRIMARY_ID and channels else where.channels(workspace.id)
        if workspace.trusted:
            by_workspace[workspace.id] = channels_file.load(own, environment, own_token)
            problems += by_workspace[workspace.id].refusals
    return DaemonParts(
        listen=at,
        token=token or _stored(where.daemon_token, make=at.loopback, listen=at),
        origins=read_origins(origins),
        workspaces=found.workspaces,
        channels=by_workspace,
        problems=tuple(problems),
    )


def read_listen(text: str) -> Listen:
    """``HOST:PORT`` or ``[HOST]:PORT``. Raises: SettingsError."""
    found = _LISTEN.fullmatch(text)
    if found is None or int(found[3]) > 65535:
        raise SettingsError(
            "AGENT_CONNECT_DAEMON_LISTEN must be HOST:PORT, for example 127.0.0.1:4170."
        )
    host = (found[1] or found[2]).lower()
    if host == "localhost":
        host = "127.0.0.1"
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        raise SettingsError(
            "AGENT_CONNECT_DAEMON_LISTEN must name an address or localhost, not another name."
        ) from None
    return Listen(text=text, host=host, port=int(found[3]), loopback=loopback)


def read_token(path: Path) -> str:
    """The token of the file, "" where there is none. Raises: SettingsError."""
    try:
        data = read_owners(path, private=True) or b""
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise SettingsError(f"{path} is no file for a token: {error}.") from None
    text = data.decode("latin-1").strip()
    if len(data) > _MOST_TOKEN_BYTES or (text and not _TOKEN.fullmatch(text)):
        raise SettingsError(f"{path} holds no token. Move it away, and a new one is made.")
    return text


def _stored(path: Path, *, make: bool, listen: Listen) -> str:
    found = read_token(path)
    if found:
        return found
    if not make:
        raise SettingsError(
            f"AGENT_CONNECT_DAEMON_LISTEN is {listen.text}, which others can reach: set "
            f"AGENT_CONNECT_DAEMON_TOKEN, or put a token of your own into {path} (mode 600)."
        )
    made = secrets.token_urlsafe(TOKEN_BYTES)
    try:
        write_file(path, made.encode() + b"\n")
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}.") from None
    return made
