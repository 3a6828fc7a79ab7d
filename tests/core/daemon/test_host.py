"""From a submission to its one result; what may be said of it (§9, §9.2, §12, §13)."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.daemon.authorizations import Authorizations
from agentconnect.core.daemon.host import (
    Result,
    Status,
    WorkerRequest,
    attempted,
    decide,
    log_line,
)
from agentconnect.core.daemon.refusals import delivery_refusal
from agentconnect.core.daemon.reverse import Submission, read_submission
from agentconnect.core.destination import PUBLIC_TEXT, Code
from tests.core.daemon.requests import MAIN, ROOM, answer, fired


def authorized() -> Authorizations:
    store = Authorizations()
    store.authorize_prompt(MAIN, "s1", "p1", ROOM)
    store.register(MAIN, "s1", "t1", ROOM, recurring=True, last_fired_at=None)
    return store


@pytest.mark.parametrize("submission", [answer("planted"), fired(7, "planted")])
def test_the_channel_leaves_the_target_at_the_boundary(submission: Submission) -> None:
    """What the worker is asked, and that neither text nor target shows in a repr."""
    request = decide(authorized(), MAIN, submission)
    assert isinstance(request, WorkerRequest)
    expected = {
        "deliveryId": submission.delivery_id,
        "channelName": "ops",
        "target": {"type": "chat", "id": "!planted-target:h"},
        "text": "planted",
    }
    assert expected == request.as_object()
    assert "planted" not in repr((request, submission))


def test_consumed_before_it_is_skipped() -> None:
    """A blank final answer uses its authorization up."""
    store = authorized()
    first = decide(store, MAIN, answer(" \n"))
    again = decide(store, MAIN, answer())
    assert isinstance(first, Result)
    assert isinstance(again, Result)
    assert (Status.SKIPPED, None) == (first.status, first.code)
    assert (Status.FAILED, "channel_delivery_invalid") == (again.status, again.code)


@pytest.mark.parametrize("code", [*Code, None, "", "surprise", "delivered"])
def test_an_event_has_its_members_and_no_other(code: str | None) -> None:
    """``code`` and ``error`` only where it failed; the set of codes is closed."""
    data = attempted(answer("planted"), code).event_data()
    expected: dict[str, Any] = {
        "sessionId": "s1",
        "deliveryId": "p1",
        "source": "prompt",
        "status": "delivered" if code is None else "failed",
        "promptId": "p1",
    }
    if code is not None:
        known = Code(code) if code in list(Code) else Code.FAILED
        expected |= {"code": known.value, "error": PUBLIC_TEXT[known]}
    assert expected == data


def test_a_scheduled_event_names_its_fire() -> None:
    """``firedAt`` is a whole number there and in the delivery id."""
    data = Result(submission=fired(1750000000000), status=Status.SKIPPED).event_data()
    expected = {
        "sessionId": "s1",
        "deliveryId": "t1:1750000000000",
        "source": "scheduled",
        "status": "skipped",
        "taskId": "t1",
        "firedAt": 1750000000000,
    }
    assert expected == data


def test_events_and_log_lines_hold_no_text_and_no_target() -> None:
    """Planted ones are looked for."""
    for result in (attempted(answer("planted"), None), attempted(fired(5, "planted"), "x")):
        shown = f"{result.event_data()} {result.log_line(12)} {result!r}"
        assert "planted" not in shown
    line = attempted(answer(), None).log_line(12)
    assert (
        "channel delivery delivered deliveryId=p1 source=prompt channelName='ops' code=- ms=12"
        == line
    )


def test_a_channel_name_cannot_forge_a_log_line() -> None:
    """It is a client's to choose."""
    line = log_line(
        Status.FAILED,
        delivery_id="d",
        source="notify",
        channel_name="a\nb\x1b[0m",
        code="c",
        duration_ms=1,
    )
    assert line.isprintable()


def test_notify_answers_by_the_table() -> None:
    """An unknown code is a failed delivery; no retry is suggested."""
    assert [400, 503, 503, 504, 502, 502] == [delivery_refusal(c).status for c in Code]
    unknown = delivery_refusal(None)
    assert (502, "channel_delivery_failed", ()) == (unknown.status, unknown.code, unknown.headers)


@pytest.mark.parametrize("submission", [answer(), fired(1750000000000, "")])
def test_what_we_submit_passes_the_check_of_foreign_data(submission: Submission) -> None:
    """And comes out as it went in."""
    assert submission == read_submission(submission.params(), {"s1"}.__contains__)


@pytest.mark.parametrize("fired_at", [True, 1.0, 1.5, float("inf"), -1, None, "1"])
def test_a_fire_is_a_whole_number(fired_at: object) -> None:
    """A float would not be found again."""
    params = fired(1).params() | {"firedAt": fired_at, "deliveryId": f"t1:{fired_at}"}
    assert read_submission(params, bool) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=5,
)


@given(
    st.sampled_from([answer().params(), fired(5).params()]),
    st.sampled_from(
        [
            "sessionId",
            "deliveryId",
            "source",
            "target",
            "text",
            "promptId",
            "taskId",
            "firedAt",
            "x",
        ]
    ),
    JSON,
)
def test_any_change_of_one_member_is_refused_or_harmless(
    params: dict[str, Any], key: str, value: object
) -> None:
    """Only the text may differ, and its type may not; nothing raises."""
    found = read_submission(params | {key: value}, {"s1"}.__contains__)
    if found is not None:
        assert msgspec.json.encode(params | {key: value}) == msgspec.json.encode(
            {name: found.params()[name] for name in params | {key: value}}
        )
        assert key == "text" or params.get(key) == value


@given(st.none() | st.integers() | st.lists(st.integers()) | st.dictionaries(st.text(), JSON))
def test_any_params_are_read_or_refused(params: object) -> None:
    """Nothing raises."""
    assert read_submission(params, bool) is None
