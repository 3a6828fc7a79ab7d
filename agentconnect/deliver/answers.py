"""What a client's answer to ``_ag2/deliver`` means (section 7). Pure; never raises.

Only what says so in full is an end. A success that does not name every part, an error without
``data.outcome``, any other shape: nothing is known, and the same delivery is sent again, which is
safe, since a worker posts each part at most once.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from agentconnect.deliver.wire import METHOD_NOT_FOUND, moment

MAX_RETRY_S = 3600.0
MIN_RETRY_S = 1.0
MAX_DETAIL = 2000
MAX_REASON = 64


@dataclass(frozen=True, slots=True)
class Part:
    """One post in the room."""

    part: int
    event_id: str
    status: str


@dataclass(frozen=True, slots=True)
class Delivered:
    """Every part is in the room."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Retry:
    """Send it again, ``after_s`` seconds from now (None: our own pause), until ``expires``."""

    reason: str = ""
    after_s: float | None = None
    expires: float | None = None


@dataclass(frozen=True, slots=True)
class Final:
    """It ends here: not delivered, or only in part."""

    reason: str
    detail: str = ""
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class NotTaken:
    """This client takes no deliveries: keep it, send nothing more on this connection."""


Answer = Delivered | Retry | Final | NotTaken


def read_result(result: object, parts: int) -> Answer:
    """The meaning of a JSON-RPC success for a delivery of so many parts."""
    if not isinstance(result, Mapping) or result.get("outcome") != "delivered":
        return Retry("the client answered something else than an outcome")
    named = _parts(result.get("delivered"))
    if not set(range(parts)) <= {part.part for part in named}:
        return Retry("the client did not name every part", expires=_expires(result))
    return Delivered(named)


def read_error(code: object, data: object) -> Answer:
    """The meaning of a JSON-RPC error."""
    told: Mapping[object, object] = data if isinstance(data, Mapping) else {}
    outcome, reason = told.get("outcome"), _text(told.get("reason"), MAX_REASON)
    if outcome == "final":
        # which end it is was not said: "may have been posted" promises the least
        return Final(
            reason or "unknown",
            _text(told.get("detail"), MAX_DETAIL),
            _parts(told.get("delivered")),
        )
    if outcome == "retry":
        return Retry(reason, _seconds(told.get("retry_after_s")), _expires(told))
    if code == METHOD_NOT_FOUND:
        return NotTaken()
    return Retry(f"error {code}" if type(code) is int and abs(code) < 10**9 else "an error")


def _parts(raw: object) -> tuple[Part, ...]:
    found = []
    for item in raw[:1000] if isinstance(raw, list) else ():
        if not isinstance(item, Mapping):
            continue
        part, event = item.get("part"), _text(item.get("event_id"), 512)
        if type(part) is int and 0 <= part < 1000 and event:
            found.append(Part(part, event, _text(item.get("status"), MAX_REASON)))
    return tuple(found)


def _expires(told: Mapping[object, object]) -> float | None:
    at = moment(told.get("expires_at"))
    return at.timestamp() if at is not None else None


def _seconds(value: object) -> float | None:
    if type(value) not in {int, float}:
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
    except OverflowError:
        return MAX_RETRY_S
    return None if math.isnan(number) else min(MAX_RETRY_S, max(MIN_RETRY_S, number))


def _text(value: object, limit: int) -> str:
    """Text of a peer, bounded and in a form that can be stored; ``""`` for anything else."""
    if not isinstance(value, str):
        return ""
    return value[:limit].encode("utf-8", "replace").decode()
