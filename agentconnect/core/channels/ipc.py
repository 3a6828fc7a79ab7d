"""What the daemon and a channel worker say to each other: one JSON object a line (§10).

Both ends check: a request that breaks a rule is answered as invalid, an answer that breaks one is
no answer, a type that nobody knows is passed over.
"""

from collections.abc import Mapping
from typing import Protocol, TypeAlias

import msgspec

from agentconnect.core.channels.forms import Plain
from agentconnect.core.destination import (
    MAX_NAME_UNITS,
    MAX_TEXT_UNITS,
    Code,
    Target,
    blank,
    units,
)
from agentconnect.core.surrogates import has_surrogate

MAX_LINE_BYTES = 1024 * 1024


class Channel(msgspec.Struct, frozen=True, kw_only=True):
    """One channel with its secrets. Travels by the worker's stdin alone."""

    type: str
    markdown: bool = False
    options: Mapping[str, Plain] = {}
    secrets: Mapping[str, str] = {}
    targets: Mapping[str, Mapping[str, str]] = {}

    def __repr__(self) -> str:
        return f"Channel({self.type})"

    @property
    def all_secrets(self) -> tuple[str, ...]:
        """What no line of a log may hold."""
        fixed = (value for target in self.targets.values() for value in target.values())
        return tuple(dict.fromkeys(one for one in (*self.secrets.values(), *fixed) if one))


class Configure(msgspec.Struct, frozen=True, kw_only=True, tag="configure"):
    """The first line to a worker."""

    workspace: str
    channels: Mapping[str, Channel]


class Wanted(Protocol):
    """The daemon's own form of a request."""

    @property
    def delivery_id(self) -> str: ...

    @property
    def channel_name(self) -> str: ...

    @property
    def target_type(self) -> str: ...

    @property
    def target_id(self) -> str: ...

    @property
    def text(self) -> str: ...


class Request(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is to be sent, at the worker's side of the trust boundary."""

    delivery_id: str
    channel_name: str
    target: Target
    text: str

    def __repr__(self) -> str:
        return f"Request({self.delivery_id})"

    @classmethod
    def of(cls, wanted: "Wanted") -> "Request":
        """What the daemon wants, as it travels."""
        target = Target(
            type="user" if wanted.target_type == "user" else "chat", id=wanted.target_id
        )
        return cls(
            delivery_id=wanted.delivery_id,
            channel_name=wanted.channel_name,
            target=target,
            text=wanted.text,
        )

    @property
    def valid(self) -> bool:
        """The bounds of §4 and §10, and no half of a character."""
        names = (self.delivery_id, self.channel_name, self.target.id)
        if any(has_surrogate(text) for text in (*names, self.text)):
            return False
        if any(blank(name) or units(name) > MAX_NAME_UNITS for name in names):
            return False
        return not blank(self.text) and units(self.text) <= MAX_TEXT_UNITS


class ToWorker(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag="channel_delivery"):
    """One attempt; ``expires_at`` in ms since 1970."""

    id: str
    expires_at: int
    request: msgspec.Raw


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """A worker is up; ``failed`` has a sanitized reason for each channel that is not."""

    pid: int
    channels: tuple[str, ...]
    failed: Mapping[str, str] = {}


class Result(
    msgspec.Struct, frozen=True, kw_only=True, tag="channel_delivery_result", omit_defaults=True
):
    """How an attempt ended."""

    id: str
    ok: bool
    code: str = ""
    error: str = ""
    diagnostic: str = ""

    @property
    def outcome(self) -> Code | None:
        """None where it was delivered; a code that nobody knows is a failure."""
        if self.ok:
            return None
        return Code(self.code) if self.code in _CODES else Code.FAILED


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True, tag="heartbeat"):
    """A worker lives; ``at`` in ms since 1970."""

    pid: int
    at: int


_CODES = frozenset(code.value for code in Code)

ToDaemon: TypeAlias = Ready | Result | Heartbeat
_to_daemon = msgspec.json.Decoder(ToDaemon)
_to_worker = msgspec.json.Decoder(ToWorker)
_configure = msgspec.json.Decoder(Configure)
_request = msgspec.json.Decoder(Request)


def line(message: msgspec.Struct) -> bytes:
    """A message as it travels. Raises: UnicodeEncodeError for half a character."""
    return msgspec.json.encode(message) + b"\n"


def from_worker(data: bytes) -> ToDaemon | None:
    """A worker's message; None for what is none."""
    try:
        return _to_daemon.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def from_daemon(data: bytes) -> ToWorker | None:
    """An attempt to make; None for what is none."""
    try:
        return _to_worker.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def request_in(attempt: ToWorker) -> Request | None:
    """The request of an attempt; None for one that breaks a rule."""
    try:
        found = _request.decode(attempt.request)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found if found.valid else None


def configuration(data: bytes) -> Configure | None:
    """The first line; None for what is none."""
    try:
        return _configure.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
