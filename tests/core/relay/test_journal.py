"""Stranded ids and what counts as in flight."""

from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.relay import journal
from agentconnect.core.relay.journal import State, reconcile

_IDS = st.sampled_from("abcd")
_STATES = st.sampled_from([state.value for state in State])


def test_parked_and_done_are_not_in_flight() -> None:
    """A refused result must not make an agent look busy for ever (★7)."""
    assert journal.in_flight(["accepted", "pending", "done", "parked"]) == 2


@given(st.dictionaries(_IDS, _STATES), st.lists(st.frozensets(_IDS), max_size=6))
def test_nothing_live_or_answered_is_ever_dropped(
    entries: dict[str, str], passes: list[frozenset[str]]
) -> None:
    """A drop needs: accepted, and stranded in this pass and the one before."""
    seen: frozenset[str] = frozenset()
    before: frozenset[str] | None = None
    for live in passes:
        sweep = reconcile(entries.items(), live=live, seen=seen)
        for task_id in sweep.dropped:
            assert entries.pop(task_id) == State.ACCEPTED
            assert before is not None
            assert task_id not in live | before
        seen, before = sweep.seen, live
