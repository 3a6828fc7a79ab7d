"""The seam between deferred delivery and whoever speaks to the agent (deferred-delivery.md §2-§4).

The listener and the Turns see only this; what stands behind it is ``agentconnect/delivery``.
"""

from enum import StrEnum
from typing import Protocol

import msgspec

from agentconnect.core.delivery.answers import DeliveredPart
from agentconnect.core.errors import AgentConnectError
from agentconnect.core.task import SessionKey


class DeliveryRefused(AgentConnectError):
    """A request's JSON-RPC error: ``-32602``, Retry or Final. ``data`` goes with it as it is."""

    def __init__(self, code: int, message: str, data: dict[str, object]) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class DeliveredResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``_ag2/deliver``; only Delivered is one (§7)."""

    outcome: str
    delivered: tuple[DeliveredPart, ...]
    expires_at: str | None


class NotifyResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``_ag2/notify`` (§13)."""

    posted: bool
    reason: str | None = None


class DeliveryMeta(msgspec.Struct, frozen=True, kw_only=True):
    """``_meta["ag2/delivery"]`` of a Session: ``export_dir`` absolute, ``expires_at`` RFC 3339."""

    binding: str
    export_dir: str
    expires_at: str


class Listening(StrEnum):
    """How the standing listener is, for the status file."""

    UP = "up"
    DOWN = "down"
    RESTARTING = "restarting"


class DeliveryService(Protocol):
    """What a connection of the agent may ask for."""

    @property
    def enabled(self) -> bool:
        """Whether a listener that starts now declares ``ag2/deliver``."""
        ...

    async def changed(self, known: bool) -> bool:
        """Wait until ``enabled`` is not ``known``; what it is then.

        A listener then lets its open requests be answered and restarts, with or without the
        declaration.
        """
        ...

    async def probe(self) -> None:
        """Ask the broker anew; before each start of a listener. Bounded, never raises."""
        ...

    def declared(self, delivers: bool, *, elsewhere: bool = False) -> None:
        """What the agent's ``initialize`` said last; whether it runs on another machine."""
        ...

    def listening(self, state: Listening) -> None:
        """How the listener is now."""
        ...

    async def deliver(self, params: msgspec.Raw) -> msgspec.Struct:
        """Serve ``_ag2/deliver``. Raises: DeliveryRefused.

        Cancellation: the caller is forgotten; the delivery goes on.
        """
        ...

    async def notify(self, params: msgspec.Raw) -> msgspec.Struct:
        """Serve ``_ag2/notify``, as a request or a notification. Raises: DeliveryRefused."""
        ...


class Destinations(Protocol):
    """Where what a Session finishes later may go."""

    async def delivery(self, key: SessionKey) -> DeliveryMeta | None:
        """Mint or renew the binding of a Session that is opened or prompted.

        None while deliveries are disabled, or where this key may not have one. Never raises.
        """
        ...

    async def destination(self, key: SessionKey) -> str | None:
        """Mint or renew ``_meta["ag2/destination"]``; None for all but the owner's."""
        ...

    def folder_of(self, key: SessionKey) -> str | None:
        """The export folder last told to this Session, if any: a root of its permissions."""
        ...

    async def unattested(self, room: str, sender: str) -> None:
        """A Turn of this sender came in that is not attested: its bindings in the room go."""
        ...
