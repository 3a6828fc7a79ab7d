"""Words that the daemon's rules and the channels' rules share (channel-delivery.md §1, §4, §11).

A destination, the length of a text in UTF-16 code units, what counts as blank, and the closed set
of codes with the one public sentence of each.
"""

from enum import StrEnum
from typing import Literal

import msgspec

MAX_TEXT_UNITS = 100_000
MAX_NAME_UNITS = 2048
"""Of a channel's name, a target's id and a delivery id."""

WHITE = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""What JavaScript's ``trim`` removes; Python's ``strip`` differs in both directions."""


class Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whom a text goes to inside one channel."""

    type: Literal["user", "chat"]
    id: str

    def __repr__(self) -> str:
        return f"Target({self.type})"  # an id is in no log


class Code(StrEnum):
    """Why a delivery did not arrive; nothing else exists."""

    INVALID = "channel_delivery_invalid"
    UNAVAILABLE = "channel_worker_unavailable"
    QUEUE_FULL = "channel_delivery_queue_full"
    TIMEOUT = "channel_delivery_timeout"
    REJECTED = "channel_delivery_rejected"
    FAILED = "channel_delivery_failed"


PUBLIC_TEXT = {
    Code.INVALID: "Channel delivery is invalid.",
    Code.UNAVAILABLE: "No running channel worker owns this delivery.",
    Code.QUEUE_FULL: "Too many channel deliveries are in flight.",
    Code.TIMEOUT: "Channel delivery timed out; its outcome is unknown.",
    Code.REJECTED: "The channel refused this delivery.",
    Code.FAILED: "Channel delivery failed.",
}


def units(text: str) -> int:
    """The length of ``text`` in UTF-16 code units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def blank(text: str) -> bool:
    """Whether every character is white; the empty text is blank."""
    return not text.strip(WHITE)
