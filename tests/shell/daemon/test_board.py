"""What the owner's page is told of scheduled tasks, by a daemon with sessions and workers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec.structs import replace

from agentconnect.core.daemon.outcomes import (
    BEFORE_START,
    LEFT_OUT,
    ON_ITS_WAY,
    OPEN,
    OVERDUE,
    STOPPED,
    UNHEARD,
    Shown,
)
from agentconnect.core.daemon.tasks import Last, decode_tasks, encode_tasks
from agentconnect.daemon.board import Board
from tests.shell.daemon.test_tasks import DAY, MINUTE, NINE, Clock, Held, added, at, listed, stored
from tests.support.daemon import Api, FakeTalk, running, said, until

Tell = Callable[[dict[str, Any]], None]


async def told(api: Api) -> list[Shown]:
    """What the page gets."""
    board = Board()
    board.show(api.daemon.scheduler.overview)
    found = (await board()).get("scheduled", [])
    assert isinstance(found, list)
    return found


async def settled(api: Api, delivery: str) -> Shown:
    """The one task, when that has come of its delivery.

    A one-shot is nowhere for a moment: in the file no more, and not fired yet.
    """
    with trio.fail_after(60):
        while not (found := await told(api)) or found[0].delivery != delivery:
            await trio.sleep(0.01)
    return found[0]


async def test_without_a_daemon_there_is_nothing() -> None:
    """A board that nobody fills is empty, and no error."""
    assert {} == await Board()()


async def test_a_run_from_waiting_to_delivered(tmp_path: Path) -> None:
    """When it runs next, that it runs, that it was answered and arrived."""
    clock, held = Clock(NINE - MINUTE), Held()
    async with running(tmp_path, now=clock) as api:
        assert [] == await told(api)
        api.agent.script = held
        await added(api, name="Morning digest")
        (waiting,) = await told(api)
        await at(api, clock, NINE)
        await until(lambda: held.began == 1)
        (runs,) = await told(api)
        held.may.set()
        done = await settled(api, "Delivered.")
    expected = Shown(
        title="Morning digest", workspace="main", cron="0 9 * * *", to="ops-matrix", next_at=NINE
    )
    assert expected == waiting
    assert (OPEN, "", NINE) == (runs.result, runs.delivery, runs.last_at)
    assert ("It ran and was answered.", False) == (done.result, done.failed)
    assert (NINE, NINE + DAY) == (done.last_at, done.next_at)


@pytest.mark.parametrize(
    ("worker", "why"),
    [
        ("reject", "Not delivered: The channel refused this delivery."),
        ("missing", "Not delivered: No running channel worker owns this delivery."),
    ],
)
async def test_why_it_was_not_delivered(tmp_path: Path, worker: str, why: str) -> None:
    """The same sentence as its event has, and none of the provider."""
    clock = Clock(NINE - MINUTE)
    async with running(tmp_path, now=clock) as api:
        api.channels.default = worker
        await added(api)
        await at(api, clock, NINE)
        done = await settled(api, why)
    assert ("It ran and was answered.", True) == (done.result, done.failed)


async def test_a_run_that_ended_badly_and_a_one_shot_that_is_done(tmp_path: Path) -> None:
    """A one-shot that is in no file any more is still told of, after what is to come."""

    async def fails(_talk: FakeTalk, _text: str, tell: Tell) -> str:
        tell(said("Half an answer."))
        return "refusal"

    clock = Clock(NINE - MINUTE)
    async with running(tmp_path, now=clock) as api:
        api.agent.script = fails
        await added(api, recurring=False, name="Once")
        await at(api, clock, NINE)
        done = await settled(api, "Not delivered: only the answer of a run that ended well is.")
        await added(api, cron="30 9 * * *", prompt="Later  that\nday" + "y" * 200)
        later, past = await told(api)
    assert ("Once", True, None, NINE) == (done.title, done.once, done.next_at, done.last_at)
    assert ("The agent refused it.", True) == (done.result, done.failed)
    assert done == past
    assert later.title.startswith("Later that dayy")
    assert 120 == len(later.title)


async def test_a_run_that_is_cut_off_is_not_told_as_running(tmp_path: Path) -> None:
    """Its session was closed: nothing more is heard of it."""
    clock, held = Clock(NINE - MINUTE), Held()
    async with running(tmp_path, now=clock) as api:
        api.agent.script = held
        task = await added(api)
        await at(api, clock, NINE)
        await until(lambda: held.began == 1)
        await api.call("DELETE", f"/session/{task['sessionId']}")
        held.may.set()
        await until(lambda: not api.daemon.sessions.busy_tasks())
        (done,) = await told(api)
    assert (STOPPED, True) == (done.result, done.failed)


async def test_a_slot_that_was_left_out(tmp_path: Path) -> None:
    """While the run before it goes on that is told; once it is over, what was left out."""
    clock, held = Clock(NINE - MINUTE), Held()
    async with running(tmp_path, now=clock) as api:
        api.agent.script = held
        await added(api, cron="0 * * * *")
        await at(api, clock, NINE)
        await until(lambda: held.began == 1)
        await at(api, clock, NINE + 60 * MINUTE)
        await until(lambda: b"skipped" in stored(tmp_path))
        (runs,) = await told(api)
        held.may.set()
        await until(lambda: not api.daemon.sessions.busy_tasks())
        (done,) = await told(api)
    assert (OPEN, NINE) == (runs.result, runs.last_at)
    assert (LEFT_OUT, NINE + 60 * MINUTE) == (done.result, done.last_at)


async def test_a_one_shot_that_was_overdue(tmp_path: Path) -> None:
    """Asked late, delivered nowhere, and said so."""
    clock = Clock(NINE - MINUTE)
    async with running(tmp_path, now=clock) as api:
        await added(api, recurring=False)
    clock.now = NINE + DAY
    async with running(tmp_path, now=clock) as api:
        with trio.fail_after(60):
            while not any(one.result == OVERDUE for one in await told(api)):
                await trio.sleep(0.01)
        (found,) = await told(api)
        assert found.next_at is None
    assert (None, True) == (found.last_at, found.failed)


async def test_a_run_that_was_stopped_is_told_after_the_restart(tmp_path: Path) -> None:
    """What the stop made of it is written down too, though it is the last thing that happens."""
    clock, held = Clock(NINE - MINUTE), Held()
    async with running(tmp_path, now=clock) as api:
        api.agent.script = held
        await added(api)
        await at(api, clock, NINE)
        await until(lambda: held.began == 1)
        held.may.set()
    async with running(tmp_path, now=clock) as api:
        (again,) = await told(api)
    assert NINE == again.last_at
    assert again.result in (STOPPED, "It ran and was answered.")


async def test_what_nobody_saw_the_end_of_is_told_as_that(tmp_path: Path) -> None:
    """A worker that was killed: of a run nothing is known, a delivery may have arrived."""
    clock = Clock(NINE - MINUTE)
    async with running(tmp_path, now=clock) as api:
        await added(api)
        await at(api, clock, NINE)
        await settled(api, "Delivered.")
    path = tmp_path / "state" / "workspaces" / "main" / "scheduled_tasks.json"
    (done,) = decode_tasks(stored(tmp_path))
    assert Last(at=NINE, result="It ran and was answered.", delivery="Delivered.") == done.last
    under_way = Last(at=NINE, result="It ran and was answered.", delivery=ON_ITS_WAY)
    path.write_bytes(encode_tasks([replace(done, last=under_way)]))
    async with running(tmp_path, now=clock) as api:
        (sent,) = await told(api)
    path.write_bytes(encode_tasks([replace(done, last_fired_at=NINE + 1)]))
    async with running(tmp_path, now=clock) as api:
        (ran,) = await told(api)
        (shown,) = await listed(api)
    path.write_bytes(encode_tasks([replace(done, last=None)]))
    async with running(tmp_path, now=clock) as api:
        (older,) = await told(api)
    assert (UNHEARD, True) == (sent.delivery, sent.failed)
    assert (NINE + 1, BEFORE_START) == (ran.last_at, ran.result)
    assert {
        "at": NINE + 1,
        "result": BEFORE_START,
        "delivery": "",
        "failed": False,
    } == shown["outcome"]
    assert (NINE, BEFORE_START) == (older.last_at, older.result)


async def test_an_outcome_that_cannot_be_written_is_written_with_the_next(tmp_path: Path) -> None:
    """It costs neither the task nor what is shown now."""
    clock = Clock(NINE - MINUTE)
    path = tmp_path / "state" / "workspaces" / "main" / "scheduled_tasks.json"
    problems: list[str] = []
    async with running(tmp_path, now=clock, problems=problems) as api:
        held = Held()
        api.agent.script = held
        await added(api)
        await at(api, clock, NINE)
        await until(lambda: held.began == 1)
        whole = path.read_bytes()
        path.write_bytes(b"{")
        held.may.set()
        await until(lambda: len(problems) == 1)
        path.write_bytes(whole)
        assert "It ran and was answered." == (await told(api))[0].result
        assert (None,) == tuple(task.last for task in decode_tasks(whole))
    (kept,) = decode_tasks(stored(tmp_path))
    assert kept.last is not None
    assert "It ran and was answered." == kept.last.result


async def test_after_a_restart_and_with_a_broken_file(tmp_path: Path) -> None:
    """The file knows when it ran and what came of it; one that cannot be read is told as such."""
    clock = Clock(NINE - MINUTE)
    async with running(tmp_path, now=clock) as api:
        await added(api)
        await at(api, clock, NINE)
        await settled(api, "Delivered.")
    async with running(tmp_path, now=clock) as api:
        (again,) = await told(api)
        path = tmp_path / "state" / "workspaces" / "main" / "scheduled_tasks.json"
        path.write_bytes(b"{")
        (broken,) = await told(api)
    assert NINE == again.last_at
    assert ("It ran and was answered.", "Delivered.", False) == (
        again.result,
        again.delivery,
        again.failed,
    )
    assert ("main", True) == (broken.title, broken.failed)
    assert broken.result
