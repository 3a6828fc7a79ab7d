"""What the agent is told (deferred-delivery.md §7).

Only Delivered is a JSON-RPC success, so that an agent which looks only at success or error never
takes an undelivered thing for delivered. ``expires_at`` is RFC 3339 on the wire, None here where
the ledger cannot say.
"""

import msgspec

from agentconnect.core.delivery.ledger import BindingId, Entry, Outcome, PartState, Reason
from agentconnect.core.delivery.request import Invalid

RETRY_CODE = -32010
FINAL_CODE = -32011
INVALID_CODE = -32602
_DAY_S = 86_400


class DeliveredPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part that is in the room. ``status``: created, replayed or unechoed."""

    part: int
    event_id: str
    status: str


class Delivered(msgspec.Struct, frozen=True, kw_only=True):
    """Every part is in the room."""

    delivered: tuple[DeliveredPart, ...]
    expires_at: float | None


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """Not yet: the same request again after ``retry_after_s``."""

    retry_after_s: float
    reason: str
    expires_at: float | None = None


class Final(msgspec.Struct, frozen=True, kw_only=True):
    """Never, under this id. ``binding``: the recorded one, where the request named another."""

    reason: Reason
    detail: str
    delivered: tuple[DeliveredPart, ...] = ()
    expires_at: float | None = None
    binding: BindingId | None = None


Answer = Delivered | Retry | Final


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """JSON-RPC: ``code`` 0 is a success with ``body`` as result, else ``body`` is ``data``."""

    code: int
    message: str
    body: dict[str, object]


def wire(answer: Answer | Invalid) -> Wire:
    """An answer in its JSON-RPC form."""
    match answer:
        case Delivered():
            return Wire(
                code=0,
                message="",
                body={
                    "outcome": "delivered",
                    "delivered": _parts(answer.delivered),
                    "expires_at": rfc3339(answer.expires_at),
                },
            )
        case Retry():
            return Wire(
                code=RETRY_CODE,
                message=f"Not delivered yet: {answer.reason}",
                body={
                    "outcome": "retry",
                    "retry_after_s": _whole(answer.retry_after_s),
                    "reason": answer.reason,
                    "expires_at": rfc3339(answer.expires_at),
                },
            )
        case Final():
            data: dict[str, object] = {
                "outcome": "final",
                "reason": answer.reason.value,
                "delivered": _parts(answer.delivered),
                "detail": answer.detail,
                "expires_at": rfc3339(answer.expires_at),
            }
            if answer.binding is not None:
                data["binding"] = answer.binding
            return Wire(code=FINAL_CODE, message=f"Not delivered: {answer.detail}", body=data)
        case Invalid():
            return Wire(
                code=INVALID_CODE,
                message=f"Invalid params: {answer.detail}",
                body={
                    "outcome": "final",
                    "reason": Reason.REJECTED.value,
                    "delivered": [],
                    "field": answer.field,
                    "detail": answer.detail,
                    "expires_at": None,
                },
            )


def posted_parts(entry: Entry) -> tuple[DeliveredPart, ...]:
    """The parts of an entry that are in the room."""
    return tuple(
        DeliveredPart(part=index, event_id=part.event_id, status=part.status)
        for index, part in enumerate(entry.parts)
        if part.state is PartState.POSTED
    )


def stored_answer(entry: Entry) -> Answer:
    """The answer of a finished entry, the same each time it is asked for."""
    posted = posted_parts(entry)
    if entry.outcome is Outcome.DELIVERED:
        return Delivered(delivered=posted, expires_at=entry.expires_at)
    return Final(
        reason=entry.reason or Reason.REJECTED,
        detail=entry.detail,
        delivered=posted,
        expires_at=entry.expires_at,
    )


def rfc3339(wall_s: float | None) -> str | None:
    """Wall seconds as ``2026-01-31T08:05:09Z``, whole seconds, never later than meant."""
    if wall_s is None:
        return None
    days, second = divmod(int(max(0.0, min(wall_s, 253_402_300_799.0))), _DAY_S)
    year, month, day = _civil(days)
    hour, second = divmod(second, 3600)
    minute, second = divmod(second, 60)
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"


def _civil(days: int) -> tuple[int, int, int]:
    """Days since 1970-01-01 as a date: years begin in March, so that the leap day is last."""
    era, of_era = divmod(days + 719_468, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day


def _parts(parts: tuple[DeliveredPart, ...]) -> list[dict[str, object]]:
    return [msgspec.structs.asdict(part) for part in parts]


def _whole(seconds: float) -> int:
    """Whole seconds, rounded up: asking early is what the agent is told not to do."""
    return max(1, int(-(-seconds // 1)))
