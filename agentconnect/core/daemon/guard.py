"""Who may call: the checks of §2.2 on host, origin and bearer, as rules over headers (§2.3).

Headers are given as all values of one name, so that a repeated one cannot be read two ways.
"""

import hashlib
import hmac
import re
from collections.abc import Sequence

import msgspec

from agentconnect.core.daemon.refusals import BAD_HOST, BAD_ORIGIN, UNAUTHORIZED, Refusal

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
HTTP_PORT = 80
TOKEN_BYTES = 32
"""Random bytes of a token that the daemon makes itself."""

_BEARER = re.compile(r"bearer [ \t]*(?P<token>[^ \t].*)", re.I | re.S)
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:\[[0-9a-f:.]+\]|[^/?#@\s:*\[\]]+)(?::[0-9]{1,5})?")


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """Where the server listens; ``host`` without brackets."""

    host: str
    port: int
    loopback: bool


def check_host(bound: Bound, values: Sequence[str]) -> Refusal | None:
    """On loopback only our own names are answered, against DNS that is turned to us."""
    if not bound.loopback:
        return None
    names = {*LOOPBACK_NAMES, f"[{bound.host}]" if ":" in bound.host else bound.host}
    allowed = {f"{name}:{bound.port}".lower() for name in names}
    if bound.port == HTTP_PORT:
        allowed |= {name.lower() for name in names}
    if len(values) == 1 and values[0].strip(" \t").lower() in allowed:
        return None
    return BAD_HOST


def check_origin(values: Sequence[str], allowed: frozenset[str]) -> Refusal | None:
    """A page in a browser calls only where its origin is listed; ``null`` never is."""
    if not values:
        return None
    if len(values) == 1 and values[0] != "null" and values[0] in allowed:
        return None
    return BAD_ORIGIN


def origin_headers(values: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """What an answer to a listed origin carries."""
    if not values:
        return ()
    return (("Access-Control-Allow-Origin", values[0]), ("Vary", "Origin"))


def read_origins(setting: str) -> frozenset[str]:
    """The list of a setting. Raises: ValueError, a sentence that names the entry."""
    found = setting.split()
    for each in found:
        if not _ORIGIN.fullmatch(each):
            raise ValueError(
                f"{each} is no origin: write it as scheme://host or scheme://host:port."
            )
    return frozenset(found)


def check_bearer(values: Sequence[str], digest: bytes) -> Refusal | None:
    """``Authorization: Bearer <token>`` against :func:`token_digest`, in constant time."""
    match = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
    given = token_digest(match["token"].rstrip(" \t") if match else "")
    same = hmac.compare_digest(given, digest)
    return None if match and same else UNAUTHORIZED


def token_digest(token: str) -> bytes:
    """SHA-256 of a token or secret: of one length whatever was sent."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def check_secret(values: Sequence[str], digest: bytes | None) -> bool:
    """Whether a webhook's secret is right; ``digest`` None: there is no such webhook (§14)."""
    given = token_digest(values[0] if len(values) == 1 else "")
    same = hmac.compare_digest(given, digest or token_digest("\0"))
    return digest is not None and len(values) == 1 and same
