"""Symptoms of the reference that no other test is named after (relay-wire.md §22)."""

import json
import time
from pathlib import Path

import pytest
import trio

from agentconnect.core.relay.journal import State
from agentconnect.core.relay.refusals import refusal_words
from agentconnect.core.task import TaskId
from tests.shell.relay.minutes import Minutes
from tests.shell.relay.rig import Rig, running
from tests.support.fake_broker import Answer, FakeBroker, open_broker, wire_task

HOSTILE = "one\u2028two\u2029three\u0085four\x0bfive\x0csix\r\nseven \ud83d end"
T1 = TaskId("t1")


def _state(rig: Rig) -> State | None:
    entry = rig.journal.entry(T1)
    return entry.state if entry else None


async def _answered(rig: Rig, broker: FakeBroker, body: str) -> None:
    broker.serve(wire_task("t1"))
    (task,) = await rig.tasks()
    await rig.relay.results.complete(task, body, base_dir="/")


async def test_an_answer_with_odd_line_ends_is_not_lost_at_the_next_write(tmp_path: Path) -> None:
    """★1: unsent, then many other writes and a restart: it is posted, each character in place."""
    async with open_broker() as broker:
        broker.always("results", Answer(503))
        async with running(broker, tmp_path) as rig:
            await _answered(rig, broker, HOSTILE)
            broker.serve(*(wire_task(f"other{n}", room=f"!{n}:h") for n in range(20)))
            await rig.tasks(21)
        broker.always("results", None)
        async with running(broker, tmp_path) as rig:
            await rig.until(lambda: _state(rig) is State.DONE)
        assert broker.results["t1"]["body"] == HOSTILE.replace("\ud83d", "\ufffd")


async def test_an_answer_that_went_nowhere_is_posted_when_its_task_returns(tmp_path: Path) -> None:
    """★9: a 200 for a dead task is no delivery, and a replay does not post silence over it."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.script("results", Answer(body={"ok": True, "undelivered": True}))
        await _answered(rig, broker, "the answer")
        await rig.until(lambda: _state(rig) is State.DONE)
        assert rig.journal.counts().undelivered == 1
        broker.serve(wire_task("t1"))
        first, second = (await broker.seen("results", 2))[:2]
        assert second.body == first.body == {"id": "t1", "body": "the answer"}
        assert len(rig.taken) == 1


async def test_a_standby_does_not_delete_the_holders_files(tmp_path: Path) -> None:
    """★11: nothing is swept before the guard is held."""
    media = tmp_path / "relay" / "default" / "media"
    media.mkdir(parents=True)
    (media / "picture.png").write_bytes(b"x")
    guard = tmp_path / "relay" / "default" / "poller.lock"
    stamp = json.dumps({"owner": "e" * 32, "heartbeat_ts": time.time()})
    guard.write_text(stamp)
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        await rig.state("standby")
        assert (media / "picture.png").exists()
        assert not broker.of("tasks")


async def test_what_the_relay_says_is_not_repeated_in_the_status_file(tmp_path: Path) -> None:
    """★12: our own words and a status code; no remote body, no header."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        await broker.seen("tasks")
        broker.always("tasks", Answer(500, {"error": "remote-words Bearer s3cret-bearer"}))
        broker.serve(wire_task("t1"))
        status = await rig.state("reconnecting", error=True)
        assert "500" in str(status.error)
        file = rig.layout.connection_status
        await rig.until(lambda: file.exists() and "500" in file.read_text())
        text = file.read_text()
        assert "remote-words" not in text
        assert broker.secret not in text


async def test_a_file_the_relay_says_no_to_is_not_called_sent(tmp_path: Path) -> None:
    """★15: 200 with ``ok: false`` is a failure, of an upload and of an edit."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.txt").write_text("a")
    async with open_broker() as broker:
        broker.script("media", Answer(body={"ok": False}))
        broker.script("room", Answer(body={"ok": False}))
        roots = (str(tmp_path / "out"),)
        async with running(broker, tmp_path / "ws", egress_roots=roots) as rig:
            assert not (await rig.relay.rooms.edit("!r:h", "$e", "text")).ok
            broker.serve(wire_task("t1"))
            (task,) = await rig.tasks()
            body = "here [file: a.txt]"
            await rig.relay.results.complete(task, body, base_dir=str(tmp_path / "out"))
            await rig.until(lambda: _state(rig) is State.DONE)
        assert "[attachment not sent: a.txt (" in broker.results["t1"]["body"]


async def test_one_missing_heartbeat_route_is_not_for_life(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """★18: after a 404 it is asked again a minute later, then more and more seldom."""
    minutes = Minutes(mock_clock)
    async with open_broker() as broker:
        broker.always("heartbeat", Answer(404))
        async with running(broker, tmp_path) as rig:
            minutes.rig = rig
            await minutes.until(lambda: len(broker.of("heartbeat")) >= 3, 600)
        first, second, third = (request.at for request in broker.of("heartbeat")[:3])
        assert second - first >= 60
        assert third - second >= 119


async def test_a_file_over_the_limit_is_not_said_to_be_as_large_as_the_limit() -> None:
    """★28: where both sizes round to the same, bytes are said."""
    limit = 24 * 1024 * 1024
    assert "24.0 MB" not in refusal_words("too_big", size=limit + 1, limit=limit)
    assert f"{limit + 1} bytes" in refusal_words("too_big", size=limit + 1, limit=limit)
    assert "30.0 MB" in refusal_words("too_big", size=30 * 1024 * 1024, limit=limit)


@pytest.mark.parametrize("status", [400, 403, 404])
async def test_a_refusal_in_one_room_does_not_silence_the_others(
    tmp_path: Path, status: int
) -> None:
    """★4d, ★25: that room cools, the next one is spoken to, and the bearer is not in question."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.script("room", Answer(status, {"error": "not here"}))
        assert not (await rig.relay.rooms.message("!bad:h", "hello")).ok
        assert rig.relay.rooms.cooling("!bad:h") > 0
        assert (await rig.relay.rooms.message("!good:h", "hello")).ok
        broker.serve(wire_task("t1"))
        await rig.tasks()
        assert rig.relay.snapshot().error is None
