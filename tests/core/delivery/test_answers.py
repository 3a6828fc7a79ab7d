"""What the agent is told, and when it expires (§7)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.delivery.answers import (
    Delivered,
    DeliveredPart,
    Final,
    Retry,
    rfc3339,
    stored_answer,
    wire,
)
from agentconnect.core.delivery.ledger import BindingId, PartState, Reason, ended, with_part
from agentconnect.core.delivery.request import Invalid
from tests.core.delivery.entries import entry

PART = DeliveredPart(part=0, event_id="$e", status="created")
AT = 1_700_000_000.0
SHOWN = "2023-11-14T22:13:20Z"


def test_delivered_is_the_only_success() -> None:
    """Its parts and the moment at which the id would have expired."""
    told = wire(Delivered(delivered=(PART,), expires_at=AT))
    assert 0 == told.code
    assert {
        "outcome": "delivered",
        "delivered": [{"part": 0, "event_id": "$e", "status": "created"}],
        "expires_at": SHOWN,
    } == told.body


def test_retry_is_an_error_with_whole_seconds() -> None:
    """Rounded up, at least one; ``expires_at`` is null where the ledger cannot be read."""
    told = wire(Retry(retry_after_s=30.2, reason="busy"))
    assert -32010 == told.code
    assert {
        "outcome": "retry",
        "retry_after_s": 31,
        "reason": "busy",
        "expires_at": None,
    } == told.body
    assert 1 == wire(Retry(retry_after_s=0, reason="")).body["retry_after_s"]


@pytest.mark.parametrize("reason", list(Reason))
def test_final_is_an_error_with_its_reason(reason: Reason) -> None:
    """The recorded binding only where another was named."""
    told = wire(Final(reason=reason, detail="why", delivered=(PART,), expires_at=AT))
    assert -32011 == told.code
    assert (reason.value, "final", "why", SHOWN) == (
        told.body["reason"],
        told.body["outcome"],
        told.body["detail"],
        told.body["expires_at"],
    )
    assert "binding" not in told.body
    other = Final(reason=reason, detail="", binding=BindingId("w.r"))
    assert "w.r" == wire(other).body["binding"]


def test_invalid_params_are_final_too() -> None:
    """With the field, and nothing recorded."""
    told = wire(Invalid(field="id", detail="id is required"))
    assert -32602 == told.code
    assert ("final", "rejected", "id", None) == (
        told.body["outcome"],
        told.body["reason"],
        told.body["field"],
        told.body["expires_at"],
    )


def test_a_finished_entry_has_one_answer() -> None:
    """Delivered with all its parts, or Final with those that were posted."""
    whole = entry(files=1)
    for index in (0, 1):
        whole = with_part(
            whole, index, state=PartState.POSTED, event_id=f"${index}", status="created"
        )
    told = stored_answer(ended(whole, AT))
    assert isinstance(told, Delivered)
    assert [0, 1] == [part.part for part in told.delivered]
    half = with_part(entry(files=1), 0, state=PartState.POSTED, event_id="$0", status="replayed")
    final = stored_answer(ended(half, AT, Reason.EXPIRED, "too late"))
    assert isinstance(final, Final)
    assert (Reason.EXPIRED, ("$0",)) == (final.reason, tuple(p.event_id for p in final.delivered))


@given(st.integers(0, 253_402_300_799))
def test_dates_are_those_of_the_calendar(seconds: int) -> None:
    """From 1970 to 9999, leap years and all."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    assert moment.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0") == rfc3339(float(seconds))


def test_dates_beyond_the_calendar_are_its_ends() -> None:
    """A clock gone wild gives no traceback."""
    assert "9999-12-31T23:59:59Z" == rfc3339(1e300)
    assert "1970-01-01T00:00:00Z" == rfc3339(-5.0)
    assert rfc3339(None) is None
