"""What a task costs the journal does not grow with the tasks that came before it."""

from pathlib import Path

from agentconnect.core.task import Task, TaskId
from agentconnect.store.journal import DONE_WINDOW, Journal, open_journal
from tests.support.growth import Growth

PART = 200


async def _through(journal: Journal, name: str) -> None:
    """Accept, answer and retire two hundred tasks one after another."""
    for number in range(PART):
        task = Task(id=TaskId(f"{name}{number}"), room_id="!r:h", body="hello")
        await journal.accept([task])
        await journal.record_result(task.id, '{"id":"x","body":"y"}')
        journal.retire(task.id)


async def _assert_no_dearer(fresh: Path, used: Journal) -> None:
    """Tasks in a used journal cost what they do in one that was just made."""
    growth, attempt = Growth(factor=3), 0
    while growth.undecided():
        attempt += 1
        async with open_journal(fresh / f"fresh{attempt}.db") as journal:
            with growth.small():
                await _through(journal, "t")
        with growth.large():
            await _through(used, f"t{attempt}-")


async def test_the_thousandth_task_costs_what_the_first_did(tmp_path: Path) -> None:
    """On a full memory of those that are done, against an empty one."""
    async with open_journal(tmp_path / "journal.db") as journal:
        batch = [Task(id=TaskId(f"o{n}"), room_id="!r:h", body="x") for n in range(DONE_WINDOW)]
        await journal.accept(batch)
        for task in batch:
            journal.retire(task.id)
        await _assert_no_dearer(tmp_path, journal)
        assert journal.counts().done == DONE_WINDOW


async def test_many_open_tasks_make_the_next_one_no_dearer(tmp_path: Path) -> None:
    """A thousand accepted and unanswered: the next two hundred cost what the first did."""
    async with open_journal(tmp_path / "journal.db") as journal:
        waiting = [Task(id=TaskId(f"w{n}"), room_id="!r:h", body="x") for n in range(1000)]
        await journal.accept(waiting)
        await _assert_no_dearer(tmp_path, journal)
