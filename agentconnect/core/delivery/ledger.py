"""What the Worker knows of a delivery: the entry, its parts, and the ages that rule them.

deferred-delivery.md §8, §10. Times are wall seconds, since they must outlive the process. A clock
stepped back makes nothing younger: ``aged_s`` is the least age an entry surely has.
"""

from enum import StrEnum
from typing import NewType

import msgspec

DeliveryId = NewType("DeliveryId", str)
"""The agent's own name of a delivery, the same in every resend."""
BindingId = NewType("BindingId", str)
"""``<worker id>.<random>``."""
WorkerId = NewType("WorkerId", str)
"""32 hex digits; part of every key, so it is never replaced while a record of it exists."""

HOUR_S = 3600.0
STOP_AFTER_S = 23 * HOUR_S
"""No post of a part begins later: inside the broker's key life of 24 h."""
NOTICE_UNTIL_S = 24 * HOUR_S
KEEP_S = 30 * 24 * HOUR_S
"""An entry's life from first-seen, whatever becomes of its binding."""
EVICTABLE_AFTER_S = 24 * HOUR_S
"""A finished entry younger than this is never dropped: its keys may still live at the broker."""
MAX_ENTRIES = 10_000


class PartKind(StrEnum):
    """Files come first, in the order given; the text is last."""

    FILE = "file"
    TEXT = "text"


class PartState(StrEnum):
    """``trying``: a post of it may have left, and nobody has said what became of it."""

    WAITING = "waiting"
    TRYING = "trying"
    POSTED = "posted"


class Outcome(StrEnum):
    """How a delivery ended."""

    DELIVERED = "delivered"
    FINAL = "final"


class Reason(StrEnum):
    """Why a delivery is Final (§7)."""

    UNKNOWN = "unknown"
    CONFLICT = "conflict"
    REJECTED = "rejected"
    EXPIRED = "expired"
    NOT_MINE = "not_mine"


class Notice(StrEnum):
    """The one line in the room about what was not sent."""

    NONE = ""
    OWED = "owed"
    POSTED = "posted"
    GIVEN_UP = "given_up"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One room event. ``status``: how the broker answered; ``size`` in bytes, once judged."""

    kind: PartKind
    name: str = ""
    mime: str = ""
    uri: str = ""
    size: int = 0
    sha256: str = ""
    state: PartState = PartState.WAITING
    event_id: str = ""
    status: str = ""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery of the ledger. ``outcome`` is None while it is in progress.

    ``folder`` is the export folder's name, ``attempts`` the runs that ended in Retry. ``text`` is
    on disk only while in progress, and here only until it is there (§8).
    """

    id: DeliveryId
    worker_id: WorkerId
    binding: BindingId
    room: str
    sender: str = ""
    tier: str = "owner"
    folder: str = ""
    first_seen: float
    aged_s: float = 0.0
    fingerprint: str
    parts: tuple[Part, ...]
    text: str | None = None
    attempts: int = 0
    outcome: Outcome | None = None
    reason: Reason | None = None
    detail: str = ""
    finished_at: float | None = None
    notice: Notice = Notice.NONE

    @property
    def in_progress(self) -> bool:
        return self.outcome is None

    @property
    def expires_at(self) -> float:
        """When its parts stop being tried, in wall seconds."""
        return self.first_seen + STOP_AFTER_S

    @property
    def unsure(self) -> bool:
        """A part may have been posted without our knowing."""
        return any(part.state is PartState.TRYING for part in self.parts)

    @property
    def some_posted(self) -> bool:
        return any(part.state is PartState.POSTED for part in self.parts)

    def next_part(self) -> int | None:
        """The index of the first part that is not posted yet."""
        for index, part in enumerate(self.parts):
            if part.state is not PartState.POSTED:
                return index
        return None


def with_part(entry: Entry, index: int, **changes: object) -> Entry:
    """The entry with one part changed."""
    parts = list(entry.parts)
    parts[index] = msgspec.structs.replace(parts[index], **changes)
    return msgspec.structs.replace(entry, parts=tuple(parts))


def rebased(entry: Entry, wall_now: float) -> Entry:
    """A first-seen in the future counts as now, less the age it surely has (§10, clocks).

    An end that was told stays as it was told.
    """
    if not entry.in_progress:
        return entry
    latest = wall_now - entry.aged_s
    return msgspec.structs.replace(entry, first_seen=min(entry.first_seen, latest))


def ended(entry: Entry, wall_now: float, reason: Reason | None = None, detail: str = "") -> Entry:
    """The entry at its end: Delivered without a reason, else Final. The text goes.

    A notice is owed where the room saw a part already, or may miss one (§10).
    """
    owed = reason in (Reason.UNKNOWN, Reason.EXPIRED) or (
        reason is not None and (entry.some_posted or entry.unsure)
    )
    return msgspec.structs.replace(
        entry,
        outcome=Outcome.DELIVERED if reason is None else Outcome.FINAL,
        reason=reason,
        detail=detail,
        finished_at=wall_now,
        text=None,
        notice=Notice.OWED if owed else Notice.NONE,
    )


def evictable_before(wall_now: float) -> float:
    """At the cap, a finished entry that ended before this moment may be dropped."""
    return wall_now - EVICTABLE_AFTER_S


def lapsed_before(wall_now: float) -> float:
    """A finished entry first seen before this moment has had its 30 days."""
    return wall_now - KEEP_S
