"""The queue against a plain model (worker.md §13)."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentconnect.core.errors import InvariantError
from agentconnect.core.task import SessionKey, TaskId, Tier
from agentconnect.core.turns.queueing import Queue

pytestmark = pytest.mark.timeout(600)  # the nightly profile takes its time
KEYS = [SessionKey(room=room, tier=tier) for room in ("!a:x", "!b:x") for tier in Tier]


class Item:
    """What waits."""

    def __init__(self, number: int) -> None:
        self.id = TaskId(f"t{number}")


class QueueMachine(RuleBasedStateMachine):
    """Arrive, begin, end, give up; on several keys."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: Queue[Item] = Queue()
        self.waiting: dict[SessionKey, list[Item]] = {}
        self.running: dict[SessionKey, Item] = {}
        self.count = 0

    @rule(key=st.sampled_from(KEYS))
    def arrive(self, key: SessionKey) -> None:
        self.count += 1
        item = Item(self.count)
        ahead = len(self.waiting.get(key, [])) + (key in self.running)
        assert ahead == self.queue.arrive(key, item)
        self.waiting.setdefault(key, []).append(item)

    @rule(key=st.sampled_from(KEYS))
    def begin(self, key: SessionKey) -> None:
        if key in self.running:
            with pytest.raises(InvariantError):
                self.queue.begin(key)
            return
        expected = self.waiting[key].pop(0) if self.waiting.get(key) else None
        assert expected is self.queue.begin(key)
        if expected is not None:
            self.running[key] = expected

    @precondition(lambda self: bool(self.running))
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(list(self.running)))
        self.queue.leave(self.running.pop(key).id)

    @precondition(lambda self: any(self.waiting.values()))
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        """A cancelled waiter leaves no phantom: the next one counts without it."""
        key = data.draw(st.sampled_from([key for key, items in self.waiting.items() if items]))
        item = data.draw(st.sampled_from(self.waiting[key]))
        self.waiting[key].remove(item)
        self.queue.leave(item.id)
        self.queue.leave(item.id)

    @invariant()
    def the_same_tickets(self) -> None:
        assert set(self.queue.running()) == set(self.running.values())
        assert set(self.queue.waiting()) == {i for items in self.waiting.values() for i in items}
        assert len(self.queue) == len(self.queue.running()) + len(self.queue.waiting())

    @invariant()
    def the_front_runs_or_will(self) -> None:
        for key in KEYS:
            tickets = [*filter(None, [self.running.get(key)]), *self.waiting.get(key, [])]
            assert self.queue.front(key) is (tickets[0] if tickets else None)

    @invariant()
    def no_key_without_a_ticket(self) -> None:
        live = {key for key, items in self.waiting.items() if items} | set(self.running)
        assert set(self.queue.keys()) == live


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(stateful_step_count=30)


def test_same_task_twice_is_our_error() -> None:
    """An id waits once."""
    queue: Queue[Item] = Queue()
    queue.arrive(KEYS[0], Item(1))
    assert TaskId("t1") in queue
    with pytest.raises(InvariantError):
        queue.arrive(KEYS[1], Item(1))
