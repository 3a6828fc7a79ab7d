"""Scheduled tasks over HTTP: stored, fired by a set clock, delivered as their file says (§7)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from agentconnect.core.daemon.tasks import decode_tasks
from tests.support.daemon import DELIVERY, TARGET, Api, FakeChannels, FakeTalk, running, said, until

NINE = 1_750_064_400_000  # 2025-06-16 09:00 UTC, a Monday
MINUTE = 60_000
DAY = 24 * 60 * MINUTE
BODY = {"cron": "0 9 * * *", "prompt": "digest", "delivery": DELIVERY}
OTHER = {"kind": "channel", "target": {**TARGET, "id": "!other"}}

Tell = Callable[[dict[str, Any]], None]


class Clock:
    """Milliseconds, as told."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


class Held:
    """An agent that answers when it may."""

    def __init__(self) -> None:
        self.may = trio.Event()
        self.began = 0

    async def __call__(self, _talk: FakeTalk, text: str, tell: Tell) -> str:
        self.began += 1
        await self.may.wait()
        tell(said(f"You said: {text}"))
        return "end_turn"


async def at(api: Api, clock: Clock, now: int) -> None:
    """Set the clock and have it looked at."""
    clock.now = now
    api.daemon.scheduler.wake()


async def added(api: Api, **more: object) -> dict[str, Any]:
    reply = await api.call("POST", "/scheduled-tasks", BODY | more)
    assert 201 == reply.status, reply.body
    found: dict[str, Any] = reply.json
    return found


async def listed(api: Api) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await api.call("GET", "/scheduled-tasks")).json["tasks"]
    return found


def stored(folder: Path) -> bytes:
    return (folder / "state" / "workspaces" / "main" / "scheduled_tasks.json").read_bytes()


async def test_a_due_task_runs_and_delivers(tmp_path: Path) -> None:
    """Written down before it runs; its events carry task and time, and no prompt id."""
    clock, held = Clock(NINE - MINUTE), Held()
    async with running(tmp_path, now=clock) as api:
        api.agent.script = held
        task = await added(api)
        assert NINE == task["nextRunAt"]
        await at(api, clock, NINE + 1)
        await until(lambda: held.began == 1)
        (kept,) = decode_tasks(stored(tmp_path))
        assert NINE == kept.last_fired_at
        held.may.set()
        done, result = await api.collected(task["sessionId"], 2)
        (shown,) = await listed(api)
    of = {"taskId": task["id"], "firedAt": NINE}
    assert {"sessionId": task["sessionId"], "stopReason": "end_turn"} | of == done["data"]["data"]
    assert {
        "sessionId": task["sessionId"],
        "deliveryId": f"{task['id']}:{NINE}",
        "source": "scheduled",
        "status": "delivered",
    } | of == result["data"]["data"]
    assert "promptId" not in done["data"]
    assert "promptId" not in result["data"]
    assert [{"at": NINE, "kind": "scheduled"}] == shown["runs"]
    assert NINE + DAY == shown["nextRunAt"]


async def test_a_task_that_fires_once_is_gone_from_the_file(tmp_path: Path) -> None:
    """Its authorization stays until its answer has gone."""
    clock, held = Clock(NINE - MINUTE), Held()
    async with running(tmp_path, now=clock) as api:
        api.agent.script = held
        task = await added(api, recurring=False)
        await at(api, clock, NINE)
        await until(lambda: held.began == 1)
        assert [] == await listed(api)
        held.may.set()
        _, result = await api.collected(task["sessionId"], 2)
        assert 0 == len(api.daemon.authorizations)
    assert "delivered" == result["data"]["data"]["status"]


@pytest.mark.parametrize("recurring", [True, False])
async def test_a_run_that_fails_delivers_nothing(tmp_path: Path, recurring: bool) -> None:
    """What fires once may deliver no more; another's next run may."""

    async def fails(_talk: FakeTalk, _text: str, tell: Tell) -> str:
        tell(said("Half an answer."))
        return "max_tokens"

    clock = Clock(NINE - MINUTE)
    async with running(tmp_path, now=clock) as api:
        api.agent.script = fails
        task = await added(api, recurring=recurring)
        assert 1 == len(api.daemon.authorizations)
        await at(api, clock, NINE)
        (event,) = await api.collected(task["sessionId"], 1)
        assert (1 if recurring else 0) == len(api.daemon.authorizations)
    assert "max_tokens" == event["data"]["data"]["stopReason"]
    assert [] == api.channels.sent


async def test_a_slot_is_skipped_while_the_last_run_is_under_way(tmp_path: Path) -> None:
    """It is recorded, and the next slot fires again."""
    clock, held = Clock(NINE - MINUTE), Held()
    async with running(tmp_path, now=clock) as api:
        api.agent.script = held
        task = await added(api, cron="* * * * *")
        await at(api, clock, NINE)
        await until(lambda: held.began == 1)
        await at(api, clock, NINE + MINUTE)
        while len((await listed(api))[0]["runs"]) < 2:
            await trio.sleep(0.01)
        held.may.set()
        await api.collected(task["sessionId"], 2)
        await at(api, clock, NINE + 2 * MINUTE)
        await until(lambda: held.began == 2)
        (shown,) = await listed(api)
    assert ["scheduled", "skipped", "scheduled"] == [run["kind"] for run in shown["runs"]]


@pytest.mark.parametrize("change", ["target", "clear", "delete"])
async def test_a_run_under_way_keeps_its_target_and_fails_closed(
    tmp_path: Path, change: str
) -> None:
    """Another target, none, or no task any more: nothing is sent to the old one."""
    clock, held = Clock(NINE - MINUTE), Held()
    async with running(tmp_path, now=clock) as api:
        api.agent.script = held
        task = await added(api)
        path = f"/scheduled-tasks/{task['id']}"
        await at(api, clock, NINE)
        await until(lambda: held.began == 1)
        if change == "delete":
            reply = await api.call("DELETE", path)
            assert {"deleted": True, "id": task["id"]} == reply.json
        else:
            body = {"delivery": OTHER if change == "target" else None}
            assert 200 == (await api.call("PATCH", path, body)).status
        held.may.set()
        _, result = await api.collected(task["sessionId"], 2)
    data = result["data"]["data"]
    assert ("failed", "channel_delivery_invalid") == (data["status"], data["code"])
    assert [] == api.channels.sent


async def test_other_changes_do_not_touch_a_run(tmp_path: Path) -> None:
    """A new name keeps the mark: the answer of the run under way is delivered, once."""
    clock, held = Clock(NINE - MINUTE), Held()
    async with running(tmp_path, now=clock) as api:
        api.agent.script = held
        task = await added(api)
        await at(api, clock, NINE)
        await until(lambda: held.began == 1)
        await api.call("PATCH", f"/scheduled-tasks/{task['id']}", {"name": "digest"})
        held.may.set()
        _, result = await api.collected(task["sessionId"], 2)
    assert "delivered" == result["data"]["data"]["status"]
    assert 1 == len(api.channels.sent)


async def test_tasks_survive_a_restart(tmp_path: Path) -> None:
    """A slot that was missed is caught up once, in the session it had, and delivers."""
    clock = Clock(NINE - MINUTE)
    async with running(tmp_path, now=clock) as api:
        task = await added(api)
    clock.now = NINE + 3 * DAY + 5 * MINUTE
    async with running(tmp_path, now=clock) as api:
        await until(lambda: len(api.channels.sent) == 1)
        (shown,) = await listed(api)
        _, result = await api.collected(task["sessionId"], 2)
    assert [{"at": NINE + 3 * DAY, "kind": "catchup"}] == shown["runs"]
    assert NINE + 3 * DAY == result["data"]["data"]["firedAt"]


async def test_a_persisted_fire_is_not_run_again(tmp_path: Path) -> None:
    """The daemon ended behind the write: that slot is over."""
    clock, held = Clock(NINE - MINUTE), Held()
    async with running(tmp_path, now=clock) as api:
        api.agent.script = held
        await added(api)
        await at(api, clock, NINE)
        await until(lambda: held.began == 1)
        held.may.set()
    async with running(tmp_path, now=clock) as api:
        assert NINE == (await listed(api))[0]["lastFiredAt"]
        await at(api, clock, NINE + MINUTE)
        assert [] == api.channels.sent
        assert {} == api.agent.talks


async def test_overdue_tasks_that_fire_once_send_nothing(tmp_path: Path) -> None:
    """They run together and deliver nowhere; a channel that is new floods nobody."""
    clock = Clock(NINE - MINUTE)
    async with running(tmp_path, now=clock) as api:
        first = await added(api, recurring=False, prompt="first")
    clock.now = NINE + DAY
    async with running(tmp_path, now=clock) as api:
        (done,) = await api.collected_when_open(first["sessionId"], 1)
        assert [] == await listed(api)
        assert not api.agent.talks[first["sessionId"]].heard
        assert 0 == len(api.daemon.authorizations)
    assert "turn_complete" == done["event"]
    assert [] == api.channels.sent


async def test_tasks_wait_for_the_channel_workers(tmp_path: Path) -> None:
    """A catch-up does not lose its delivery to a worker that is still starting."""
    clock, channels = Clock(NINE - MINUTE), FakeChannels()
    async with running(tmp_path, now=clock) as api:
        await added(api)
    clock.now = NINE + DAY
    channels.ready = trio.Event()
    async with running(tmp_path, now=clock, channels=channels) as api:
        assert 200 == (await api.call("GET", "/scheduled-tasks")).status
        assert {} == api.agent.talks
        channels.ready.set()
        await until(lambda: len(channels.sent) == 1)


async def test_a_file_that_cannot_be_read_is_no_empty_list(tmp_path: Path) -> None:
    """Reads and writes are 500, the file is left alone, the owner is told."""
    folder = tmp_path / "state" / "workspaces" / "main"
    folder.mkdir(parents=True)
    (folder / "scheduled_tasks.json").write_text('{"v":1,"tasks":[{"id":"x"}]}')
    problems: list[str] = []
    async with running(tmp_path, problems=problems) as api:
        read = await api.call("GET", "/scheduled-tasks")
        wrote = await api.call("POST", "/scheduled-tasks", BODY)
        side = await api.call("GET", "/workspaces/side/scheduled-tasks")
        assert b'{"v":1,"tasks":[{"id":"x"}]}' == stored(tmp_path)
        (problem,) = problems
        (folder / "scheduled_tasks.json").unlink()
        api.daemon.scheduler.wake()
        await until(lambda: problems == [problem, ""])
    assert "scheduled_tasks.json" in problem
    assert [(500, "scheduled_tasks_read_failed")] * 2 == [(r.status, r.code) for r in (read, wrote)]
    assert {"v": 1, "tasks": []} == side.json


async def test_a_task_without_a_session_is_not_stored(tmp_path: Path) -> None:
    """And a task that cannot be stored leaves no session behind."""
    async with running(tmp_path) as api:
        api.agent.opens = False
        reply = await api.call("POST", "/scheduled-tasks", BODY)
        assert (500, "scheduled_tasks_session_failed") == (reply.status, reply.code)
        assert [] == await listed(api)
        api.agent.opens = True
        for _ in range(50):
            await added(api)
        known = len(api.agent.talks)
        full = await api.call("POST", "/scheduled-tasks", BODY)
        assert (409, "max_tasks_reached") == (full.status, full.code)
        assert known == len(api.agent.talks)


async def test_a_task_runs_when_it_is_told_to(tmp_path: Path) -> None:
    """As at a slot of now; not while it runs already."""
    clock, held = Clock(NINE - MINUTE), Held()
    async with running(tmp_path, now=clock) as api:
        api.agent.script = held
        task = await added(api, enabled=False)
        path = f"/scheduled-tasks/{task['id']}/run"
        ran = await api.call("POST", path)
        again = await api.call("POST", path)
        unknown = await api.call("POST", "/scheduled-tasks/nope/run")
        held.may.set()
        _, result = await api.collected(task["sessionId"], 2)
        (shown,) = await listed(api)
    assert [202, 409, 404] == [ran.status, again.status, unknown.status]
    assert {"taskId": task["id"], "firedAt": NINE - MINUTE} == ran.json
    assert "delivered" == result["data"]["data"]["status"]
    assert NINE - MINUTE == shown["lastFiredAt"]


async def test_a_closed_session_is_opened_again_for_its_task(tmp_path: Path) -> None:
    """Closing it does not silence the task."""
    clock = Clock(NINE - MINUTE)
    async with running(tmp_path, now=clock) as api:
        task = await added(api)
        await api.call("DELETE", f"/session/{task['sessionId']}")
        await at(api, clock, NINE)
        await until(lambda: len(api.channels.sent) == 1)


async def test_refusals_of_a_task_change_nothing(tmp_path: Path) -> None:
    """Each with its code; a patch of an unknown task is 404."""
    async with running(tmp_path) as api:
        task = await added(api)
        path = f"/scheduled-tasks/{task['id']}"
        found = [
            await api.call("PATCH", path, {}),
            await api.call("PATCH", path, {"cron": "0 0 30 2 *"}),
            await api.call("PATCH", "/scheduled-tasks/nope", {"name": "x"}),
            await api.call("DELETE", "/scheduled-tasks/nope"),
        ]
        assert task == (await listed(api))[0]
    assert ["empty_patch", "invalid_cron", "task_not_found", "task_not_found"] == [
        reply.code for reply in found
    ]


async def test_the_file_holds_what_it_should(tmp_path: Path) -> None:
    """Version, no null delivery, nobody else's to read."""
    async with running(tmp_path) as api:
        await added(api)
        reply = await api.call("POST", "/scheduled-tasks", {"cron": "0 9 * * *", "prompt": "x"})
        assert "delivery" not in reply.json
    file = tmp_path / "state" / "workspaces" / "main" / "scheduled_tasks.json"
    assert 0o600 == file.stat().st_mode & 0o777
    found = json.loads(file.read_text())
    assert 1 == found["v"]
    assert [True, False] == ["delivery" in task for task in found["tasks"]]
