"""What a restart finds: stranded ids, owed messages, newer leases, an unreadable record."""

import contextlib
import json
import logging
import sqlite3
from pathlib import Path

import pytest
import trio

from agentconnect.core.relay.journal import State
from agentconnect.core.task import TaskId
from agentconnect.relay import strandings
from agentconnect.store.journal import open_journal
from agentconnect.store.layout import Layout
from tests.shell.relay.minutes import Minutes
from tests.shell.relay.rig import running
from tests.support.fake_broker import Answer, open_broker, wire_task


async def strand(folder: Path, *names: str) -> None:
    """Leave ids as an older client's journal does: taken, without the task."""
    layout = Layout(state_dir=folder)
    layout.prepare()
    rows = [json.dumps({"id": n, "state": "accepted", "room": "!r:h", "ts": 1}) for n in names]
    layout.legacy_journal.write_text("\n".join(rows))
    async with open_journal(layout.journal, legacy=layout.legacy_journal):
        pass


def owed(layout: Layout) -> list[object]:
    """The debts on disk."""
    with contextlib.closing(sqlite3.connect(layout.journal)) as connection:
        return connection.execute("SELECT event_id FROM debts").fetchall()


async def test_a_stranded_id_that_is_served_again_is_run(tmp_path: Path) -> None:
    """It is as new: there is nothing else to run it by."""
    await strand(tmp_path, "t1")
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.serve(wire_task("t1", body="the question"))
        (task,) = await rig.tasks()
        assert task.body == "the question"
        assert not rig.journal.stranded(task.id)
        await rig.relay.results.complete(task, "the answer", base_dir="/")
        await broker.until(lambda: "t1" in broker.results)


async def test_in_flight_falls_when_a_stranded_id_never_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the second look it is rejected, so that its room is told; a live task never is."""
    monkeypatch.setattr(strandings, "EVERY_S", 0.3)
    await strand(tmp_path, "lost")
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.serve(wire_task("alive"))
        await rig.tasks()
        await broker.until(lambda: "lost" in broker.results)
        assert broker.results["lost"]["status"] == "rejected"
        await rig.until(lambda: rig.journal.counts().inflight == 1)
        assert "alive" not in broker.results


async def test_an_owed_placeholder_is_paid_at_the_next_start(tmp_path: Path) -> None:
    """It does not say "on it" under a finished answer for good; a failure is tried again."""
    async with open_broker() as broker:
        async with running(broker, tmp_path, polling=False) as rig:
            placed = await rig.relay.rooms.message("!r:h", "on it")
            await rig.journal.owe("!r:h", placed.event_id, "see below")
        async with running(broker, tmp_path) as rig:
            await broker.until(lambda: broker.bodies("!r:h") == ["see below"])
            await rig.until(lambda: not owed(rig.layout))
        async with running(broker, tmp_path) as rig:
            await rig.state("connected")
            assert rig.journal.debts.earlier == ()


async def test_a_message_that_is_gone_is_owed_nothing(tmp_path: Path) -> None:
    """A refusal for good ends the debt; it is not tried at every start for ever."""
    async with open_broker() as broker:
        async with running(broker, tmp_path, polling=False) as rig:
            await rig.journal.owe("!r:h", "$gone", "see below")
        broker.always("room", Answer(404))
        async with running(broker, tmp_path) as rig:
            await broker.seen("room", 1)
            await rig.until(lambda: not owed(rig.layout))
        async with running(broker, tmp_path) as rig:
            assert rig.journal.debts.earlier == ()


async def test_the_newest_lease_is_acked_after_a_restart(tmp_path: Path) -> None:
    """A re-serve under a running turn gave the task another lease."""
    async with open_broker() as broker:
        async with running(broker, tmp_path) as rig:
            broker.serve(wire_task("t1", lease_id="L1"))
            await broker.seen("ack")
            broker.serve(wire_task("t1", lease_id="L2"))
            await broker.until(lambda: broker.of("ack")[-1].body["lease_id"] == "L2")
        broker.requests.clear()
        async with running(broker, tmp_path) as rig:
            await rig.tasks()
            assert (await broker.seen("ack"))[0].body["lease_id"] == "L2"


async def test_nothing_is_leased_while_the_open_tasks_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mock_clock: trio.testing.MockClock
) -> None:
    """The state says why, and the poll begins once they can be."""
    minutes = Minutes(mock_clock)
    caplog.set_level(logging.INFO, "agentconnect")
    async with open_broker() as broker:
        async with running(broker, tmp_path) as rig:
            minutes.rig = rig
            broker.serve(wire_task("t1"))
            await minutes.until(lambda: bool(rig.taken), 5)
        broker.requests.clear()
        async with running(broker, tmp_path, polling=False) as rig:
            minutes.rig = rig
            await rig.sql("ALTER TABLE tasks RENAME TO hidden")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(rig.relay.take_tasks, rig.hand_over)
                status = await rig.state("reconnecting", error=True)
                assert "journal.db" in (status.error or "")
                assert broker.of("tasks") == []
                await rig.sql("ALTER TABLE hidden RENAME TO tasks")
                await minutes.until(lambda: bool(rig.taken), 120)
                nursery.cancel_scope.cancel()


async def test_an_answer_that_found_nobody_is_posted_again_when_its_task_returns(
    tmp_path: Path,
) -> None:
    """`undelivered` once, served again later: the answer itself goes out, not silence (★9)."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.serve(wire_task("t1"))
        (task,) = await rig.tasks()
        broker.script("results", Answer(body={"ok": True, "undelivered": True}))
        await rig.relay.results.complete(task, "the answer", base_dir="/")
        await rig.until(lambda: rig.journal.counts().undelivered == 1)
        broker.serve(wire_task("t1"))
        await broker.until(lambda: broker.results.get("t1", {}).get("body") == "the answer")
        await rig.until(lambda: rig.journal.counts().undelivered == 0)
        entry = rig.journal.entry(TaskId("t1"))
        assert entry is not None
        assert (entry.state, entry.result) == (State.DONE, "")
        assert len(rig.taken) == 1


async def test_a_restart_with_200_open_tasks_polls_at_once(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """Not a second passes between the start and its first poll, whatever is still to be done.

    60 answers are owed, 140 tasks have none; each is handed over again or posted, once.
    """
    minutes = Minutes(mock_clock)
    names = [f"t{number}" for number in range(200)]
    async with open_broker() as broker:
        broker.always("results", Answer(503))
        async with running(broker, tmp_path, posting=False) as rig:
            minutes.rig = rig
            broker.serve(*(wire_task(name, room=f"!r{name}:h") for name in names))
            await minutes.until(lambda: len(rig.taken) == 200, 5)
            for task in rig.taken[:60]:
                await rig.relay.results.complete(task, f"answer to {task.id}", base_dir="/")
            answered = {task.id for task in rig.taken[:60]}
        broker.requests.clear()
        broker.always("results", None)
        async with running(broker, tmp_path) as rig:
            minutes.rig = rig
            assert await minutes.until(lambda: bool(broker.of("tasks")), 2) == 0.0
            await minutes.until(lambda: len(broker.results) == 60, 5)
            assert {str(task.id) for task in rig.taken} == set(names) - answered
            assert len(rig.taken) == 140
            assert set(broker.results) == answered
            assert len(broker.of("results")) == 60
