"""The poll loop's state and the gates, beyond the case files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.relay import cadence
from agentconnect.core.relay.cadence import Backoff, LoopState, PollKind, after_poll


def _rejections(times: list[float], *, has_file: bool = False) -> list[str]:
    state, seen = LoopState(), []
    for now in times:
        state, verdict = after_poll(state, PollKind.REJECTED, mono_now=now, has_file=has_file)
        seen.append(verdict.state)
    return seen


def test_one_rejection_by_an_edge_does_not_end_the_worker() -> None:
    """Fatal only on the third rejection, and only when a minute has passed (★4d)."""
    assert _rejections([5.0, 35.0, 65.0]) == ["auth-wait", "auth-wait", "fatal"]
    assert _rejections([0.0, 1.0, 2.0, 61.0]) == ["auth-wait"] * 3 + ["fatal"]


def test_with_a_token_file_a_rejection_is_never_fatal() -> None:
    """It resumes live when the file is mended."""
    assert set(_rejections([float(n) for n in range(0, 600, 30)], has_file=True)) == {"auth-wait"}


def test_a_success_forgets_the_rejections() -> None:
    """Only rejections in a row count; a network error between them does not clear them."""
    state = LoopState()
    for kind in (PollKind.REJECTED, PollKind.REJECTED, PollKind.OK, PollKind.REJECTED):
        state, verdict = after_poll(state, kind, mono_now=100.0, has_file=False)
    assert (state.rejections, verdict.state) == (1, "auth-wait")
    state, _ = after_poll(state, PollKind.FAILED, mono_now=110.0, has_file=False)
    assert state.rejections == 1


def test_a_rotation_polls_again_at_once() -> None:
    """And leaves the ladder where it was."""
    state, _ = after_poll(LoopState(), PollKind.FAILED, mono_now=0.0, has_file=True)
    state, verdict = after_poll(state, PollKind.ROTATED, mono_now=1.0, has_file=True)
    assert (verdict.state, verdict.delay_s, state.ladder_s) == ("reconnecting", 0.0, 1.0)


def test_a_poll_without_a_list_backs_off() -> None:
    """It was a hot loop shown as connected (★8)."""
    kind = cadence.poll_kind(204, listed=False)
    _, verdict = after_poll(LoopState(), kind, mono_now=0.0, has_file=False)
    assert (kind, verdict.state, verdict.delay_s) == (PollKind.ANOMALY, "reconnecting", 1.0)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (None, PollKind.FAILED),
        (200, PollKind.OK),
        (302, PollKind.FAILED),
        (401, PollKind.REJECTED),
        (403, PollKind.REJECTED),
        (429, PollKind.FAILED),
    ],
)
def test_each_status_has_its_class(status: int | None, kind: PollKind) -> None:
    """Only 401 and 403 speak of the bearer."""
    assert cadence.poll_kind(status, listed=status == 200) is kind


def test_what_the_relay_asks_for_is_waited_but_not_for_ever() -> None:
    """``Retry-After`` counts where it is longer than the ladder, at most a minute."""
    for asked, waited in ((0.0, 1.0), (7.0, 7.0), (900.0, 60.0)):
        _, verdict = after_poll(
            LoopState(), PollKind.FAILED, mono_now=0.0, has_file=False, retry_after_s=asked
        )
        assert verdict.delay_s == waited


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("3", 3.0),
        (" 9999999999 ", 60.0),
        ("Thu, 01 Jan 1970 00:01:50 GMT", 10.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("soon", None),
        ("", None),
        (None, None),
        ("-4", None),
        ("Mon, 99 Foo 99999999999999999 99:99:99 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, expected: float | None) -> None:
    """Anything else says nothing."""
    assert cadence.retry_after_s(header, wall_now=100.0) == expected


@given(st.text())
def test_any_retry_after_is_read(header: str) -> None:
    """It never raises and never asks for more than a minute."""
    asked = cadence.retry_after_s(header, wall_now=0.0)
    assert asked is None or 0.0 <= asked <= 60.0


@given(st.floats(0, 60), st.floats(0, 1, exclude_max=True))
def test_jitter_is_a_fifth_at_most_and_only_from_four_seconds(nominal: float, unit: float) -> None:
    """Short waits stay exact."""
    wait = cadence.jittered(nominal, unit)
    assert wait == nominal if nominal < 4 else 0.79 * nominal <= wait <= 1.21 * nominal


@given(st.floats(0, 60), st.floats(0, 1, exclude_max=True))
def test_jitter_never_makes_a_wait_longer_than_the_longest(nominal: float, unit: float) -> None:
    """A minute at most: a lease's window, and what an owed answer may wait after an outage."""
    assert cadence.jittered(nominal, unit) <= cadence.BACKOFF_CAP_S


def test_the_longest_wait_has_chance_in_it_too() -> None:
    """Workers that have all waited a minute do not come back in one second."""
    assert cadence.jittered(60.0, 0.0) == pytest.approx(48.0)
    assert cadence.jittered(60.0, 0.5) == pytest.approx(54.0)


def test_an_instant_empty_answer_is_not_asked_again_at_once() -> None:
    """A relay that ignores ``wait`` is not hammered (★8)."""
    assert cadence.anti_spin_s(0.2, empty=True) == pytest.approx(0.8)
    assert cadence.anti_spin_s(25.0, empty=True) == 0.0
    assert cadence.anti_spin_s(0.0, empty=False) == 0.0


def test_never_is_not_zero() -> None:
    """A monotonic clock may start near 0."""
    assert cadence.remaining_s(None, mono_now=0.0) == 0.0
    assert cadence.remaining_s(3.0, mono_now=1.0) == 2.0


def test_a_backoff_starts_over_after_a_success() -> None:
    """One success clears it."""
    backoff = Backoff(60.0, 1800.0)
    assert [backoff.next() for _ in range(6)] == [60.0, 120.0, 240.0, 480.0, 960.0, 1800.0]
    backoff.reset()
    assert backoff.next() == 60.0
