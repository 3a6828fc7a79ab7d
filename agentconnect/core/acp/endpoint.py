"""The address of a running agent: may it be dialled, and is it this machine (worker.md §20.1).

Owns the refusals; opens nothing. An agent elsewhere has another file system: its paths are judged
as text only, by :func:`lexical`, and never looked up here.
"""

import posixpath
import re
from collections.abc import Iterable
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from agentconnect.core.errors import SettingsError

LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
_URL = "AGENT_CONNECT_ACP_URL"
_REMOTE = "AGENT_CONNECT_ACP_ALLOW_REMOTE"
_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]|\\\\")


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where to dial. ``resource`` is the path with the query, as the request line has it."""

    host: str
    port: int
    resource: str
    secure: bool

    @property
    def loopback(self) -> bool:
        """The agent is on this machine, so its paths are ours."""
        return self.host in LOOPBACK

    @property
    def authority(self) -> str:
        """Host and port as a ``Host`` header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """For sentences and logs: no query, which may hold a secret."""
        scheme = "wss" if self.secure else "ws"
        return f"{scheme}://{self.authority}{self.resource.partition('?')[0]}"


def endpoint(url: str, *, allow_remote: bool, command: bool = False) -> Endpoint:
    """Read ``AGENT_CONNECT_ACP_URL``; ``command`` tells that an own command is set as well.

    Raises: SettingsError for everything that must not be dialled; it never repeats the URL.
    """
    if command:
        raise SettingsError(
            f"{_URL} and AGENT_CONNECT_ACP_COMMAND are both set: an agent is either dialled or "
            "started, so remove one of them"
        )
    parts, port = _parts(url)
    secure = parts.scheme.lower() == "wss"
    found = Endpoint(
        host=(parts.hostname or "").lower(),
        port=port or (443 if secure else 80),
        resource=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        secure=secure,
    )
    if found.loopback:
        return found
    if not allow_remote:
        raise SettingsError(
            f"{_URL} names another machine ({found.host}); only localhost, 127.0.0.1 and ::1 are "
            f"dialled unless {_REMOTE}=1 is set"
        )
    if not secure:
        raise SettingsError(f"{_URL} names another machine, so it must begin with wss://")
    return found


def _parts(url: str) -> tuple[SplitResult, int | None]:
    text = url.strip()
    if not text.isascii() or not text.isprintable() or " " in text:
        raise SettingsError(f"{_URL} has characters that no URL has")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise SettingsError(f"{_URL} is no usable URL: {error}") from None
    if parts.scheme.lower() not in ("ws", "wss"):
        raise SettingsError(f"{_URL} must begin with ws:// or wss://")
    if "@" in parts.netloc:
        raise SettingsError(
            f"{_URL} has a user name or password in it; the agent's bearer belongs in "
            "AGENT_CONNECT_ACP_TOKEN"
        )
    if not parts.hostname:
        raise SettingsError(f"{_URL} names no host")
    if port == 0:
        raise SettingsError(f"{_URL} names port 0")
    return parts, port


def remote_cwd(given: str, ours: str) -> str:
    """The working directory that a dialled agent is sent.

    Raises: SettingsError when it is not absolute, which the protocol demands.
    """
    if not given:
        return ours
    if not _ABSOLUTE.match(given):
        raise SettingsError(
            f"AGENT_CONNECT_ACP_REMOTE_CWD is “{given[:200]}”; it must be an absolute path on the "
            "agent's machine"
        )
    return given.rstrip("/") or "/"


def usable_token(token: str) -> bool:
    """It can stand in a header."""
    return token.isascii() and token.isprintable() and " " not in token


def lexical(target: str, cwd: str) -> str | None:
    """``target`` as read from ``cwd`` on a machine we cannot look at; None: it cannot be told."""
    path = target
    if target[:5].lower() == "file:":
        try:
            parts = urlsplit(target)
            if parts.netloc.lower() not in ("", "localhost"):
                return None
            path = unquote(parts.path, errors="strict")
        except ValueError:
            return None
    if not path or "\0" in path or path.startswith("~"):
        return None
    return posixpath.normpath(posixpath.join(cwd, path))


def lexical_all(targets: Iterable[str], cwd: str) -> dict[str, str | None]:
    """Each target with its path."""
    return {target: lexical(target, cwd) for target in targets}
