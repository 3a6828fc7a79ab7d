"""The guard record beyond the case files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.relay import guard
from agentconnect.core.relay.guard import Guard, GuardRecord, judge, read_record

_NOW = 1000.0


def _record(stamp: float, *, owner: str = "other", flock: bool = False) -> GuardRecord:
    return GuardRecord(owner=owner, heartbeat_ts=stamp, flock=flock)


@given(st.text())
def test_any_text_on_disk_is_judged(text: str) -> None:
    """A broken record is taken over, not raised about."""
    verdict = judge(read_record(text), me="me", wall_now=_NOW, held=False)
    assert verdict.state in (Guard.HELD, Guard.LOST)


@pytest.mark.parametrize(
    "stamp", ["NaN", "-Infinity", "1e999", "9" * 400, '"950"', "null", "[" * 2000]
)
def test_a_stamp_that_is_no_sign_of_life_is_taken_over(stamp: str) -> None:
    """A record stamped a year ahead once silenced a bearer for ever."""
    record = read_record(f'{{"owner":"other","heartbeat_ts":{stamp}}}')
    assert judge(record, me="me", wall_now=_NOW, held=False).state is Guard.HELD


def test_the_record_of_a_killed_process_is_taken_at_once() -> None:
    """Whoever holds the workspace lock knows that its writer is dead."""
    fresh = _record(_NOW - 1, flock=True)
    assert judge(fresh, me="me", wall_now=_NOW, held=False).state is Guard.LOST
    taken = judge(fresh, me="me", wall_now=_NOW, held=False, owns_workspace=True)
    assert (taken.state, taken.write) == (Guard.HELD, True)
    foreign = judge(_record(_NOW - 1), me="me", wall_now=_NOW, held=False, owns_workspace=True)
    assert foreign.state is Guard.LOST


def test_a_holder_whose_record_was_taken_stops_for_good() -> None:
    """Displaced even if the other's stamp is stale, and even with the workspace lock (★13)."""
    verdict = judge(_record(0.0), me="me", wall_now=_NOW, held=True, owns_workspace=True)
    assert (verdict.state, verdict.displaced, verdict.write) == (Guard.LOST, True, False)


def test_a_clock_set_back_is_stamped_again() -> None:
    """A stamp from the future is not kept until the clock catches up."""
    assert judge(_record(_NOW + 60, owner="me"), me="me", wall_now=_NOW, held=True).write


def test_taking_and_renewing_keep_the_time_of_taking() -> None:
    """``acquired_ts`` changes only with the owner."""
    first = guard.stamped(_record(1.0), me="me", pid=7, host="h", wall_now=_NOW, flock=True)
    again = guard.stamped(first, me="me", pid=7, host="h", wall_now=_NOW + 20, flock=True)
    assert (first.acquired_ts, again.acquired_ts, again.heartbeat_ts) == (_NOW, _NOW, _NOW + 20)
    assert (again.pid, again.host, again.flock) == (7, "h", True)
