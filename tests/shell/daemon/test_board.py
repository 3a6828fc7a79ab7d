"""What the owner's page is told of scheduled tasks, by a daemon with sessions and workers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from agentconnect.core.daemon.outcomes import BEFORE_START, LEFT_OUT, OPEN, OVERDUE, STOPPED, Shown
from agentconnect.daemon.board import Board
from tests.shell.daemon.test_tasks import DAY, MINUTE, NINE, Clock, Held, added, at, stored
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
    """The one task, when that has come of its delivery."""
    with trio.fail_after(60):
        while (found := (await told(api))[0]).delivery != delivery:
            await trio.sleep(0.01)
    return found


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
            while (found := (await told(api))[0]).result != OVERDUE or found.next_at is not None:
                await trio.sleep(0.01)
    assert (None, True) == (found.last_at, found.failed)


async def test_after_a_restart_and_with_a_broken_file(tmp_path: Path) -> None:
    """The file knows when it ran, not what came of it; one that cannot be read is told as such."""
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
    assert BEFORE_START == again.result
    assert ("main", True) == (broken.title, broken.failed)
    assert broken.result
