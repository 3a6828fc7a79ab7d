"""What a task costs the journal does not grow with the tasks that came before it."""

import time
from pathlib import Path

from agentconnect.core.task import Task, TaskId
from agentconnect.store.journal import DONE_WINDOW, Journal, open_journal

TASKS = 1000
PART = 200


async def _through(journal: Journal, first: int, count: int) -> float:
    """Accept, answer and retire tasks one after another; the processor time of it."""
    began = time.process_time()
    for number in range(first, first + count):
        task = Task(id=TaskId(f"t{number}"), room_id="!r:h", body="hello")
        await journal.accept([task])
        await journal.record_result(task.id, '{"id":"x","body":"y"}')
        journal.retire(task.id)
    return time.process_time() - began


async def test_the_thousandth_task_costs_what_the_first_did(tmp_path: Path) -> None:
    """The last two hundred of a thousand, on a full memory, against the first two hundred."""
    async with open_journal(tmp_path / "journal.db") as journal:
        first = min([await _through(journal, 0, PART), await _through(journal, PART, PART)])
        batch = [Task(id=TaskId(f"o{n}"), room_id="!r:h", body="x") for n in range(DONE_WINDOW)]
        await journal.accept(batch)
        for task in batch:
            journal.retire(task.id)
        await _through(journal, 2 * PART, TASKS - 4 * PART)
        last = min(
            [
                await _through(journal, TASKS - 2 * PART, PART),
                await _through(journal, TASKS - PART, PART),
            ]
        )
        assert journal.counts().done == DONE_WINDOW
        assert last < 3 * first


async def test_many_open_tasks_make_the_next_one_no_dearer(tmp_path: Path) -> None:
    """A thousand accepted and unanswered: the next two hundred cost what the first did."""
    async with open_journal(tmp_path / "journal.db") as journal:
        first = min([await _through(journal, 0, PART), await _through(journal, PART, PART)])
        waiting = [Task(id=TaskId(f"w{n}"), room_id="!r:h", body="x") for n in range(TASKS)]
        await journal.accept(waiting)
        last = min([await _through(journal, n * PART, PART) for n in (2, 3)])
        assert last < 3 * first
