"""Outages of minutes, second by second: patience, honesty, and one answer afterwards."""

import itertools
from pathlib import Path

import pytest
import trio
import trio.testing

from agentconnect.core.task import Task, TaskId
from tests.shell.relay.minutes import Minutes
from tests.shell.relay.rig import Rig, running
from tests.support.fake_broker import Answer, FakeBroker, open_broker, wire_task

STORM_S = 90.0
ROUTES = ("tasks", "ack", "results", "heartbeat", "room", "messages", "media", "capabilities")
GONE = [
    pytest.param(Answer(drop=True), id="no answer"),
    pytest.param(Answer(502, b"<html>Bad Gateway</html>"), id="an edge's page"),
]


async def taken(minutes: Minutes, rig: Rig, broker: FakeBroker, *names: str) -> list[Task]:
    """Serve tasks, each of a room of its own; the client has them."""
    minutes.rig = rig
    await minutes.until(lambda: rig.relay.snapshot().connected, 5)
    before = len(rig.taken)
    broker.serve(*(wire_task(name, room=f"!{name}:h") for name in names))
    await minutes.until(lambda: len(rig.taken) == before + len(names), 10)
    return rig.taken[before:]


def gaps(broker: FakeBroker) -> list[float]:
    """The seconds between tries of a result."""
    tries = [request.at for request in broker.of("results")]
    return [after - before for before, after in itertools.pairwise(tries)]


def words(broker: FakeBroker, name: str, since: float) -> list[str]:
    """What was posted for a task, but for the silence that closes a second lease."""
    posted = [r.body for r in broker.of("results") if r.at >= since]
    bodies = [body["body"] for body in posted if body["id"] == name]
    return [body for body in bodies if body != "[no-send]"]


@pytest.mark.parametrize("named", [None, 25], ids=["silent", "Retry-After"])
async def test_a_storm_of_503_for_90_seconds(
    tmp_path: Path, mock_clock: trio.testing.MockClock, named: int | None
) -> None:
    """D3: few tries, growing gaps with chance in them, owed and never given up, then posted once.

    What the relay asks for by ``Retry-After`` is the least that passes.
    """
    minutes = Minutes(mock_clock)
    headers = {"Retry-After": str(named)} if named else {}
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        (task,) = await taken(minutes, rig, broker, "t1")
        broker.always("results", Answer(503, headers=headers))
        await rig.relay.results.complete(task, "the answer", base_dir="/")
        await minutes.until(lambda: len(broker.of("results")) == 1, 1)
        rig.statuses.clear()
        for _ in range(int(STORM_S)):
            await minutes.go(1)
            now = rig.relay.snapshot()
            assert (now.pending_results, now.inflight, now.state) == (1, 1, "connected")
        waits = gaps(broker)
        if named:
            assert all(wait >= named for wait in waits)
            assert 3 <= len(waits) <= 9
        else:
            assert 5 <= len(waits) <= 9
            assert all(after > 1.2 * before for before, after in itertools.pairwise(waits)), waits
            assert any(wait not in (4.0, 8.0, 16.0, 32.0) for wait in waits if wait >= 3.2)
        assert {status.state for status in rig.statuses} <= {"connected"}
        assert broker.results == {}
        tries = len(waits) + 1
        broker.always("results", None)
        await minutes.until(lambda: rig.relay.snapshot().pending_results == 0, 60)
        assert broker.results["t1"]["body"] == "the answer"
        await minutes.go(120)
        assert len(broker.of("results")) == tries + 1


@pytest.mark.parametrize("length_s", [1.0, 30.0, 600.0, 7200.0])
async def test_an_answer_is_posted_within_a_minute_of_the_end_of_any_storm(
    tmp_path: Path, mock_clock: trio.testing.MockClock, length_s: float
) -> None:
    """However long it lasted: chance never makes the longest wait longer."""
    minutes = Minutes(mock_clock)
    async with open_broker() as broker, running(broker, tmp_path, polling=False) as rig:
        minutes.rig = rig
        broker.always("results", Answer(503))
        task = Task(id=TaskId("t1"), room_id="!r:h")
        await rig.relay.results.complete(task, "the answer", base_dir="/")
        await minutes.go(length_s)
        assert max(gaps(broker), default=0.0) <= 60
        broker.always("results", None)
        await minutes.until(lambda: "t1" in broker.results, 60)


@pytest.mark.parametrize("gone", GONE)
async def test_a_relay_away_for_minutes_across_a_restart(
    tmp_path: Path, mock_clock: trio.testing.MockClock, gone: Answer
) -> None:
    """Ten minutes without a relay, a restart in the middle: each answer arrives once.

    One was recorded before the restart; one task was still running and is taken up again. The
    status says all along what is owed. When the relay is back it serves both anew.
    """
    minutes = Minutes(mock_clock)
    async with open_broker() as broker:
        async with running(broker, tmp_path) as rig:
            first, _second = await taken(minutes, rig, broker, "t1", "t2")
            for route in ROUTES:
                broker.always(route, gone)
            await minutes.go(60)
            await rig.relay.results.complete(first, "answer 1", base_dir="/")
            polls = len(broker.of("tasks"))
            for _ in range(10):
                await minutes.go(24)
                now = rig.relay.snapshot()
                assert (now.pending_results, now.inflight) == (1, 2)
                assert (now.state, now.connected) == ("reconnecting", False)
                assert now.error
            assert 4 <= len(broker.of("tasks")) - polls <= 8  # one a minute, no hammering
        async with running(broker, tmp_path) as rig:
            minutes.rig = rig
            await minutes.until(lambda: len(rig.taken) == 1, 1)  # without waiting for the relay
            (again,) = rig.taken
            assert again.id == "t2"
            for _ in range(5):
                await minutes.go(24)
                now = rig.relay.snapshot()
                assert (now.pending_results, now.inflight, now.state) == (1, 2, "reconnecting")
            await rig.relay.results.complete(again, "answer 2", base_dir="/")
            for _ in range(5):
                await minutes.go(24)
                assert rig.relay.snapshot().pending_results == 2
            for route in ROUTES:
                broker.always(route, None)
            back = trio.current_time()
            broker.serve(*(wire_task(name, room=f"!{name}:h") for name in ("t1", "t2")))
            await minutes.until(lambda: rig.relay.snapshot().pending_results == 0, 60)
            await minutes.until(lambda: rig.relay.snapshot().connected, 60)
            await minutes.go(120)
            for name, answer in (("t1", "answer 1"), ("t2", "answer 2")):
                assert broker.results[name]["body"] == answer
                assert words(broker, name, back) == [answer]
            assert rig.taken == [again]
            assert rig.relay.snapshot().inflight == 0
