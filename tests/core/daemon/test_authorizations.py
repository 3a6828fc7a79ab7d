"""What may be delivered where, once (§9.1)."""

import pytest

from agentconnect.core.daemon.authorizations import Authorizations
from tests.core.daemon.requests import MAIN, OTHER, ROOM, SIDE, answer, fired


@pytest.fixture
def store() -> Authorizations:
    """A prompt and a recurring task that may go to the room."""
    made = Authorizations()
    made.authorize_prompt(MAIN, "s1", "p1", ROOM)
    made.register(MAIN, "s1", "t1", ROOM, recurring=True, last_fired_at=None)
    return made


def test_an_end_without_submission_keeps_what_recurs(store: Authorizations) -> None:
    """A one-shot's registration goes, the mark of a recurring task stays."""
    store.register(MAIN, "s1", "once", ROOM, recurring=False, last_fired_at=None)
    store.run_ended(MAIN, "s1", "once")
    store.run_ended(MAIN, "s1", "t1")
    store.run_ended(MAIN, "s1", "unknown")
    assert not store.consume(MAIN, fired(5, task="once"))
    assert store.consume(MAIN, fired(5))


def test_a_closed_session_takes_its_own(store: Authorizations) -> None:
    """Not those of the same name in another workspace."""
    store.authorize_prompt(SIDE, "s1", "p1", ROOM)
    store.drop_session(MAIN, "s1")
    assert 1 == len(store)
    assert store.consume(SIDE, answer())


def test_revoking_what_is_not_there_changes_nothing(store: Authorizations) -> None:
    """Each end of a turn may revoke, whatever came before."""
    store.revoke_prompt(SIDE, "s1", "p1")
    store.revoke_task(MAIN, "s2", "t1")
    assert 2 == len(store)


def test_a_patched_task_neither_raises_nor_lowers_its_mark(store: Authorizations) -> None:
    """Its target is the new one, from then on."""
    assert store.consume(MAIN, fired(1000))
    for mark in (None, 5, 9000):
        store.register(MAIN, "s1", "t1", OTHER, recurring=True, last_fired_at=mark)
    assert not store.consume(MAIN, fired(2000))
    assert not store.consume(MAIN, fired(1000, target=OTHER))
    assert store.consume(MAIN, fired(1001, target=OTHER))
