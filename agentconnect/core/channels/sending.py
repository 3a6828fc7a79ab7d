"""One send and what comes of it: the text, the request of an adapter, its answer, the verdict.

Whatever says "why" here holds a status and a provider's machine word, never a provider's sentence:
sentences quote ids and texts (channel-delivery.md §13).
"""

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from agentconnect.core.destination import Target
from agentconnect.core.errors import AgentConnectError

Failure: TypeAlias = Literal["permanent", "transient"]

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


class DeliveryError(AgentConnectError):
    """A send that did not work: for good, or for now (§15)."""

    def __init__(self, disposition: Failure, message: str) -> None:
        super().__init__(message)
        self.disposition = disposition


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery as an adapter gets it."""

    delivery_id: str
    channel: str
    target: Target
    text: str

    def __repr__(self) -> str:
        return f"Outgoing({self.delivery_id}, {self.channel})"


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request; ``content`` is its whole body."""

    method: str = "POST"
    url: str
    headers: Mapping[str, str] = {}
    content: bytes | None = None

    def __repr__(self) -> str:
        return f"Ask({self.method})"  # an address may be a secret


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP answer."""

    status: int
    body: bytes = b""

    @property
    def fields(self) -> Mapping[str, object]:
        """The body as a JSON object; empty where it is none."""
        try:
            found = msgspec.json.decode(self.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", "replace")

    def __repr__(self) -> str:
        return f"Reply({self.status})"


class Verdict(msgspec.Struct, frozen=True):
    """What an answer means; ``why`` is for the log."""

    disposition: Literal["delivered", "permanent", "transient"]
    why: str = ""

    def require(self) -> None:
        """Return where it was delivered. Raises: DeliveryError."""
        if self.disposition != "delivered":
            raise DeliveryError(self.disposition, self.why)


DELIVERED = Verdict("delivered")


def refused(reply: Reply, disposition: Failure, word: object = None) -> Verdict:
    """A verdict that names the status and the provider's machine word for it."""
    told = "" if word == reply.status else worded(word)
    return Verdict(disposition, f"HTTP {reply.status}{told}")


def worded(word: object) -> str:
    """`` word`` where it is one that a machine would use."""
    if isinstance(word, int) and not isinstance(word, bool) and abs(word) < 10**9:
        return f" {word}"
    return f" {word}" if isinstance(word, str) and _WORD.fullmatch(word) else ""


def bad_target(what: str) -> DeliveryError:
    """The target cannot be one of this channel's; nothing was sent."""
    return DeliveryError("permanent", what)


def json_ask(
    url: str, content: object, headers: Mapping[str, str] | None = None, method: str = "POST"
) -> Ask:
    """A request with a JSON body."""
    return Ask(
        method=method,
        url=url,
        headers={"Content-Type": "application/json", **(headers or {})},
        content=msgspec.json.encode(content),
    )


def bearer(token: str) -> dict[str, str]:
    """The header that carries a token."""
    return {"Authorization": f"Bearer {token}"}
