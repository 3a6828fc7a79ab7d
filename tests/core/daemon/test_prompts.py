"""A session's prompts (§6)."""

from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.daemon.prompts import MAX_PENDING, PromptQueue


class Item:
    def __init__(self, name: str) -> None:
        self.id = name


def test_five_wait_or_run() -> None:
    """The sixth is refused; a scheduled fire is not counted against a client."""
    queue = PromptQueue[Item]()
    assert [True] * MAX_PENDING == [queue.offer(Item(str(n))) for n in range(MAX_PENDING)]
    first = queue.start()
    assert first is not None
    assert (True, False) == (queue.full, queue.offer(Item("5")))
    assert queue.offer(Item("fire"), bounded=False)
    queue.finish(first.id)
    assert (True, 5) == (queue.full, len(queue))


def test_one_runs_at_a_time_in_order() -> None:
    """The next only after the one before ended; a foreign id ends nothing."""
    queue = PromptQueue[Item]()
    for name in "abc":
        queue.offer(Item(name))
    ran = []
    while (item := queue.start()) is not None:
        assert queue.start() is None
        queue.finish("foreign")
        assert queue.running is item
        ran.append(item.id)
        queue.finish(item.id)
    assert ["a", "b", "c"] == ran


def test_a_closed_queue_gives_back_what_waited() -> None:
    """The running one ends by itself; nothing more is taken."""
    queue = PromptQueue[Item]()
    for name in "abc":
        queue.offer(Item(name))
    queue.start()
    assert ["b", "c"] == [item.id for item in queue.close()]
    assert queue.closed
    assert not queue.offer(Item("d"), bounded=False)
    assert ["a"] == [item.id for item in queue.pending()]


@given(st.lists(st.sampled_from(["offer", "start", "finish", "fire"])))
def test_order_of_arrival_always(steps: list[str]) -> None:
    """Whatever happens, what runs is the oldest that has not run."""
    queue, offered, started = PromptQueue[Item](), list[str](), list[str]()
    for number, step in enumerate(steps):
        if step in ("offer", "fire"):
            if queue.offer(Item(str(number)), bounded=step == "offer"):
                offered.append(str(number))
        elif step == "start":
            item = queue.start()
            started += [] if item is None else [item.id]
        elif queue.running is not None:
            queue.finish(queue.running.id)
    assert started == offered[: len(started)]
    assert len(queue.pending()) == len(queue)
