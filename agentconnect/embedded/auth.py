"""Who a request is from: a worker's bearer, a page's cookie, and where a page may be asked from.

Hashes of all secrets are kept in memory beside the database, so no request waits for it to be
known. A wrong bearer has one answer, whatever was wrong with it (relay-wire.md §20).
"""

import ipaddress
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request

from agentconnect.embedded import ids
from agentconnect.embedded.bodies import Refusal
from agentconnect.embedded.store import Tx

UNKNOWN_BEARER = "The bearer is unknown."
UNKNOWN_VISITOR = "Open the page by your own link; this browser is not signed in."


class SecretRow(msgspec.Struct, frozen=True, kw_only=True):
    """One secret's hash."""

    hash: str
    user_id: str
    role: str


class Directory:
    """Every secret that opens something, by its hash."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}
        self._there: frozenset[str] = frozenset()

    def load(self, rows: list[SecretRow]) -> None:
        """Take what the database holds."""
        self._known = {(row.role, row.hash): row.user_id for row in rows}
        self._there = frozenset(self._known.values())

    def who(self, role: str, secret: str) -> str:
        """The user a secret belongs to, ``""`` for nobody."""
        return self._known.get((role, ids.hashed(secret)), "") if secret else ""

    def is_gone(self, user_id: str) -> bool:
        """Whether nothing opens anything for this user any more."""
        return user_id not in self._there


def secrets_of(tx: Tx) -> list[SecretRow]:
    """All hashes, for the directory."""
    return tx.all(SecretRow, "SELECT hash, user_id, role FROM secrets")


def worker(request: Request, directory: Directory) -> str:
    """The agent identity a worker's request is from.

    Raises:
        Refusal: 401, with one sentence for every cause.
    """
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    user_id = directory.who("bearer", secret.strip()) if scheme.lower() == "bearer" else ""
    if not user_id:
        raise Refusal(401, UNKNOWN_BEARER)
    return user_id


def visitor(request: Request, directory: Directory, cookie: str) -> str:
    """The person a page's request is from.

    Raises:
        Refusal: 401.
    """
    user_id = directory.who("session", request.cookies.get(cookie, ""))
    if not user_id:
        raise Refusal(401, UNKNOWN_VISITOR)
    return user_id


class Origins:
    """From which host names the page may be asked for (no rebinding, no foreign forms)."""

    def __init__(self, host: str, port: int, public_url: str) -> None:
        self._loopback_only = is_loopback(host)
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        if host not in ("", "0.0.0.0", "::"):  # noqa: S104 - compared, not bound
            self._hosts.add(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        if public_url:
            self._hosts.add(urlsplit(public_url).netloc.lower())

    def check(self, request: Request, *, changing: bool) -> None:
        """Refuse a request that a foreign page or a rebound name sent.

        Raises:
            Refusal: 403.
        """
        host = request.headers.get("host", "").lower()
        if not self._known(host):
            raise Refusal(403, "This host name is not one of this relay's.")
        origin = request.headers.get("origin")
        if changing and origin is not None:
            parts = urlsplit(origin)
            if parts.scheme not in ("http", "https") or parts.netloc.lower() != host:
                raise Refusal(403, "The request came from another site.")
        if changing and request.headers.get("sec-fetch-site", "same-origin") not in (
            "same-origin",
            "none",
        ):
            raise Refusal(403, "The request came from another site.")

    def _known(self, host: str) -> bool:
        if host in self._hosts:
            return True
        if self._loopback_only:
            return False
        # bound for other machines: they may use any address of ours, but no name we do not know
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what is bound there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
