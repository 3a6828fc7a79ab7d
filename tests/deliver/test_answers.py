"""Answers, honest and hostile: only what says so in full ends a delivery."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.deliver.answers import (
    MAX_RETRY_S,
    Delivered,
    Final,
    NotTaken,
    Part,
    Retry,
    read_error,
    read_result,
)
from tests.deliver.support import delivered, final, retry


def test_a_delivered_names_its_parts() -> None:
    """A success that covers every part is the end."""
    answer = read_result(delivered(2), 2)
    assert Delivered((Part(0, "$e0", "created"), Part(1, "$e1", "created"))) == answer


NOT_DELIVERED: dict[str, Any] = {
    "null, as clients without deliveries answer": None,
    "an empty object": {},
    "true": True,
    "a part is missing": delivered(1),
    "no list": {"outcome": "delivered"},
    "parts that are no objects": {"outcome": "delivered", "delivered": [0, 1]},
    "true is no number": {
        "outcome": "delivered",
        "delivered": [{"part": False, "event_id": "$a"}, {"part": True, "event_id": "$b"}],
    },
    "no event": {"outcome": "delivered", "delivered": [{"part": 0}, {"part": 1}]},
    "an empty event": {
        "outcome": "delivered",
        "delivered": [{"part": 0, "event_id": ""}, {"part": 1, "event_id": ""}],
    },
    "one part twice": {
        "outcome": "delivered",
        "delivered": [{"part": 0, "event_id": "$a"}, {"part": 0, "event_id": "$b"}],
    },
    "another outcome": {**delivered(2), "outcome": "retry"},
}


@pytest.mark.parametrize("result", NOT_DELIVERED.values(), ids=NOT_DELIVERED)
def test_another_success_is_sent_again(result: object) -> None:
    """A success that does not name both parts is not believed."""
    assert isinstance(read_result(result, 2), Retry)


def test_retry_and_final() -> None:
    """An outcome in an error's data is read whatever the code says."""
    assert Retry("busy", 30.0, 1_798_761_600.0) == read_error(
        -32010, retry(30, "2027-01-01T00:00:00Z")
    )
    assert Final("rejected", "too large", (Part(0, "$a", "created"),)) == read_error(
        -32602,
        final(
            "rejected",
            detail="too large",
            delivered=[{"part": 0, "event_id": "$a", "status": "created"}],
        ),
    )
    assert Final("unknown") == read_error(-32011, {"outcome": "final", "reason": 5})
    assert NotTaken() == read_error(-32601, None)
    assert isinstance(read_error(-32601, retry()), Retry)


@pytest.mark.parametrize("data", [None, [], "final", {}, {"outcome": True}, {"outcome": "Final"}])
@pytest.mark.parametrize("code", [-32602, -32603, -32000, -32011, None, "x", 2**80])
def test_an_error_without_an_outcome_is_sent_again(code: object, data: object) -> None:
    """Nothing but a Final ends with an error."""
    assert isinstance(read_error(code, data), Retry)


@pytest.mark.parametrize(
    ("told", "read"),
    [
        (5, 5.0), (0.5, 1.0), (0, 1.0), (-3, 1.0), (1e12, MAX_RETRY_S), (math.inf, MAX_RETRY_S),
        (10**400, MAX_RETRY_S), (math.nan, None), (True, None), ("5", None), (None, None),
    ],
)  # fmt: skip
def test_pauses_are_bounded(told: object, read: float | None) -> None:
    """A pause is neither nothing nor for ever; nonsense is our own pause."""
    answer = read_error(-32010, retry(told))
    assert isinstance(answer, Retry)
    assert read == answer.after_s


@pytest.mark.parametrize(
    "told", ["soon", 5, "2027-01-01T00:00:00", "9" * 99, None, [], "0001-01-01T00:00:00+23:00"]
)
def test_a_moment_that_is_none(told: object) -> None:
    """What is no time with an offset counts as not told."""
    answer = read_error(-32010, retry(1, told))
    assert isinstance(answer, Retry)
    assert answer.expires is None


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "outcome",
                    "delivered",
                    "reason",
                    "detail",
                    "part",
                    "event_id",
                    "status",
                    "expires_at",
                    "retry_after_s",
                    "x",
                ]
            ),
            inner | st.sampled_from(["delivered", "retry", "final", "not_mine"]),
            max_size=6,
        )
    ),
    max_leaves=20,
)


@given(answer=_JSON, code=_JSON, parts=st.integers(1, 11))
def test_no_answer_is_too_odd(answer: object, code: object, parts: int) -> None:
    """Whatever comes, it is read without an error, and Delivered always covers every part."""
    read = read_result(answer, parts)
    if isinstance(read, Delivered):
        assert set(range(parts)) <= {part.part for part in read.parts}
    assert isinstance(read, Delivered | Retry)
    assert isinstance(read_error(code, answer), Retry | Final | NotTaken)
