"""A session's events: numbered, kept in a bounded ring, replayed after a known id (§12).

One :class:`EventRing` lives as long as its session, one :class:`Reader` as long as its stream. Both
are fed and asked by one loop; waiting, heartbeats and the socket are the caller's.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

RING_EVENTS = 8_000
MAX_BEHIND = 256
HEARTBEAT = b": heartbeat\n\n"
HEARTBEAT_S = 15.0

TURN_COMPLETE = "turn_complete"
TURN_ERROR = "turn_error"
DELIVERY_RESULT = "channel_delivery_result"

_MAX_ID_DIGITS = 18


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event as it goes out, ``id`` 0 for one outside the numbering."""

    id: int
    type: str
    json: bytes

    def frame(self) -> bytes:
        """The lines of the stream."""
        head = f"id: {self.id}\n" if self.id else ""
        return f"{head}event: {self.type}\ndata: ".encode() + self.json + b"\n\n"


class EventRing:
    """The last events of one session. Ids start at 1 and rise by 1."""

    def __init__(self, capacity: int = RING_EVENTS) -> None:
        self._events: deque[Event] = deque(maxlen=capacity)
        self._last_id = 0

    @property
    def last_id(self) -> int:
        """The highest id given so far; 0: none."""
        return self._last_id

    @property
    def first_id(self) -> int:
        """The lowest id that is still here; the next one to be given where none is."""
        return self._last_id - len(self._events) + 1

    def add(self, kind: str, data: Mapping[str, Any], prompt_id: str = "") -> Event:
        """Number and keep one event; ``prompt_id`` stands on the envelope where there is one."""
        self._last_id += 1
        value: dict[str, Any] = {"id": self._last_id, "v": 1, "type": kind}
        if prompt_id:
            value["promptId"] = prompt_id
        value["data"] = data
        event = Event(id=self._last_id, type=kind, json=msgspec.json.encode(value))
        self._events.append(event)
        return event

    def get(self, event_id: int) -> Event | None:
        """The event of that id, if it is still here."""
        at = event_id - self.first_id
        return self._events[at] if 0 <= at < len(self._events) else None


class Reader:
    """One stream. ``last_event_id`` as the client stated it; None: only what comes from now on."""

    def __init__(self, ring: EventRing, last_event_id: int | None = None) -> None:
        self._ring = ring
        self._head = ring.last_id  # replaying what was there is no falling behind
        known = self._head if last_event_id is None else last_event_id
        self._cursor = min(known, self._head)
        self.evicted = False
        """The last frame has been given: the stream ends."""

    def next(self) -> bytes | None:
        """The next frame to write; None: nothing new, or the end."""
        if self.evicted:
            return None
        if self._ring.last_id - max(self._cursor, self._head) >= MAX_BEHIND:
            self.evicted = True
            return _outside("client_evicted", {"reason": "too_slow"})
        first = self._ring.first_id
        if self._cursor + 1 < first:
            lost = {
                "reason": "ring_evicted",
                "lastDeliveredId": self._cursor,
                "earliestAvailableId": first,
            }
            self._cursor = first - 1
            return _outside("state_resync_required", lost)
        event = self._ring.get(self._cursor + 1)
        if event is None:
            return None
        self._cursor = event.id
        return event.frame()


def read_last_event_id(value: str | None) -> int | None:
    """The header as a number; None where it is missing or no whole number."""
    text = (value or "").strip()
    if not text.isascii() or not text.isdigit() or len(text) > _MAX_ID_DIGITS:
        return None
    return int(text)


def turn_complete(session_id: str, stop_reason: str, of: Mapping[str, Any]) -> dict[str, Any]:
    """``data`` of the event; ``of`` is ``promptId``, or ``taskId`` and ``firedAt``."""
    return {"sessionId": session_id, "stopReason": stop_reason, **of}


def turn_error(session_id: str, message: str, code: str, of: Mapping[str, Any]) -> dict[str, Any]:
    """``data`` of the event; ``message`` is a sentence without secrets."""
    return {"sessionId": session_id, "message": message, "code": code, **of}


def _outside(kind: str, data: dict[str, Any]) -> bytes:
    value = {"v": 1, "type": kind, "data": data}
    return Event(id=0, type=kind, json=msgspec.json.encode(value)).frame()
