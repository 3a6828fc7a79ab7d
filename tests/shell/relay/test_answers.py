"""Results reach the relay whatever it answers, once each, in order per room."""

from pathlib import Path

import pytest
import trio
import trio.testing

from agentconnect.core.errors import InvariantError
from agentconnect.core.relay.journal import State
from agentconnect.core.task import Task, TaskId
from tests.shell.relay.minutes import Minutes
from tests.shell.relay.rig import Rig, running
from tests.support.fake_broker import Answer, FakeBroker, open_broker, wire_task


async def _answer(rig: Rig, broker: FakeBroker, name: str = "t1", body: str = "the answer") -> None:
    broker.serve(wire_task(name))
    (task,) = await rig.tasks()
    await rig.relay.results.complete(task, body, base_dir="/")


def _state(rig: Rig, name: str = "t1") -> State | None:
    entry = rig.journal.entry(TaskId(name))
    return entry.state if entry else None


@pytest.mark.parametrize(
    ("answers", "within_s"),
    [
        ([Answer(500)], 2.0),
        ([Answer(drop=True)], 2.0),
        ([Answer(body=b"<html>edge</html>")], 2.0),
        ([Answer(body={"ok": False})], 2.0),
        ([Answer(500)] * 3, 8.0),
    ],
    ids=["500", "lost", "garbage", "ok false", "three times"],
)
async def test_a_failed_result_post_is_repeated_soon(
    tmp_path: Path,
    mock_clock: trio.testing.MockClock,
    answers: list[Answer],
    within_s: float,
) -> None:
    """The outbox has its own clock: an answer does not wait for the next long poll."""
    minutes = Minutes(mock_clock)
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        minutes.rig = rig
        broker.script("results", *answers)
        broker.serve(wire_task("t1"))
        await minutes.until(lambda: bool(rig.taken), 5)
        await rig.relay.results.complete(rig.taken[0], "the answer", base_dir="/")
        await minutes.until(lambda: "t1" in broker.results and _state(rig) is State.DONE, within_s)
        assert len(broker.of("results")) == len(answers) + 1


async def test_slow_posts_go_side_by_side_but_in_order_in_a_room(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """Two rooms do not wait for each other; two answers of one room do."""
    minutes = Minutes(mock_clock)
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        minutes.rig = rig
        broker.always("results", Answer(apply=True, delay_s=1.5))
        broker.serve(
            wire_task("a1", room="!a:h"), wire_task("a2", room="!a:h"), wire_task("b1", room="!b:h")
        )
        await minutes.until(lambda: len(rig.taken) == 3, 5)
        for task in rig.taken:
            await rig.relay.results.complete(task, "x", base_dir="/")
        await minutes.until(lambda: len(broker.results) == 3, 3.5)
        at = {request.body["id"]: request.at for request in broker.of("results")}
        assert at["b1"] == at["a1"]
        assert at["a2"] - at["a1"] == pytest.approx(1.5)


async def test_one_bad_answer_does_not_hold_the_room(tmp_path: Path) -> None:
    """An answer the relay keeps refusing waits alone; the next in its room goes."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.script("results", Answer(400), Answer(), Answer(400))
        broker.serve(wire_task("bad"), wire_task("good"))
        for task in await rig.tasks(2):
            await rig.relay.results.complete(task, "x", base_dir="/")
        await rig.until(lambda: _state(rig, "good") is State.DONE)
        assert _state(rig, "bad") is State.PENDING


async def test_an_answer_too_large_is_cut_once(tmp_path: Path) -> None:
    """413: the beginning goes out with a line that says so."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.script("results", Answer(413))
        await _answer(rig, broker, body="y" * 50_000)
        await rig.until(lambda: _state(rig) is State.DONE)
        body = broker.results["t1"]["body"]
        assert body.startswith("y" * 30_000 + "\n")
        assert "too long" in body
        assert len(body) < 30_200


async def test_an_answer_too_large_goes_out_cut_where_that_cannot_be_written(
    tmp_path: Path,
) -> None:
    """413, and a journal that takes no more just then: posted all the same, and nothing ends."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        full = "SELECT RAISE(ABORT, 'full')"
        for kind in ("INSERT", "UPDATE"):
            when = "WHEN NEW.result LIKE '%too long%'"
            await rig.sql(f"CREATE TRIGGER f{kind} BEFORE {kind} ON tasks {when} BEGIN {full}; END")
        broker.script("results", Answer(413))
        await _answer(rig, broker, body="y" * 50_000)
        await rig.until(lambda: _state(rig) is State.DONE)
        assert len(broker.results["t1"]["body"]) < 30_200
        broker.serve(wire_task("t2"))
        (_, another) = await rig.tasks(2)
        await rig.relay.results.complete(another, "the answer", base_dir="/")
        await rig.until(lambda: _state(rig, "t2") is State.DONE)


async def test_an_answer_too_large_even_when_cut_is_parked(tmp_path: Path) -> None:
    """413 again: kept, shown, no longer in flight; a re-serve tries it once more."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.script("results", Answer(413), Answer(413))
        await _answer(rig, broker, body="y" * 50_000)
        await rig.until(lambda: _state(rig) is State.PARKED)
        assert rig.journal.counts().inflight == 0
        broker.serve(wire_task("t1"))
        await rig.until(lambda: _state(rig) is State.DONE)
        assert len(rig.taken) == 1


async def test_a_lease_that_is_gone_shows_in_the_counts(tmp_path: Path) -> None:
    """An undelivered answer keeps its text; a replay of the task gets it, not a silence."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.script("results", Answer(body={"ok": True, "undelivered": True}))
        await _answer(rig, broker, body="hard won")
        await rig.until(lambda: rig.journal.counts().undelivered == 1)
        broker.serve(wire_task("t1"))
        await broker.until(lambda: broker.results.get("t1", {}).get("body") == "hard won")
        assert len(rig.taken) == 1


async def test_an_answered_task_served_again_is_closed_in_silence(tmp_path: Path) -> None:
    """A replay of a done task posts `[no-send]` and runs nothing."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        await _answer(rig, broker)
        await rig.until(lambda: _state(rig) is State.DONE)
        broker.serve(wire_task("t1"))
        await broker.seen("results", 2)
        assert broker.of("results")[1].body == {"id": "t1", "body": "[no-send]"}
        assert len(rig.taken) == 1


async def test_a_second_answer_is_refused_locally(tmp_path: Path) -> None:
    """One result per task, whoever asks twice."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        await _answer(rig, broker)
        await rig.relay.results.complete(rig.taken[0], "another", base_dir="/")
        await rig.relay.results.reject(rig.taken[0], "no")
        await rig.until(lambda: _state(rig) is State.DONE)
        assert [request.body["body"] for request in broker.of("results")] == ["the answer"]


async def test_a_blank_answer_is_a_mistake_of_ours(tmp_path: Path) -> None:
    """Blank means "not ready": it is refused before anything is recorded."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.serve(wire_task("t1"))
        (task,) = await rig.tasks()
        with pytest.raises(InvariantError):
            await rig.relay.results.complete(task, "  \n", base_dir="/")
        assert _state(rig) is State.ACCEPTED


async def test_a_rejection_carries_its_code(tmp_path: Path) -> None:
    """A reason becomes a code of capitals."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.serve(wire_task("t1"))
        (task,) = await rig.tasks()
        await rig.relay.results.reject(task, "empty task")
        await broker.until(lambda: "t1" in broker.results)
        assert broker.results["t1"] == {
            "id": "t1",
            "status": "rejected",
            "error_code": "EMPTY_TASK",
        }


async def test_dm_only_travels_as_a_member(tmp_path: Path) -> None:
    """The marker is stripped from the text, so the wire says it beside it."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        await _answer(rig, broker, body="[dm-only] just for you")
        await broker.until(lambda: "t1" in broker.results)
        assert broker.results["t1"] == {"id": "t1", "body": "just for you", "dm_only": True}


async def test_an_unknown_task_is_answered_all_the_same(tmp_path: Path) -> None:
    """A task this journal never took in gets its answer out."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        await rig.relay.results.complete(Task(id=TaskId("x"), room_id="!r:h"), "a", base_dir="/")
        await broker.until(lambda: "x" in broker.results)


async def test_the_outbox_ends_when_everything_is_out(tmp_path: Path) -> None:
    """Closing lets the last answers go and then returns."""
    async with open_broker() as broker, running(broker, tmp_path, posting=False) as rig:
        broker.script("results", Answer(500))
        await _answer(rig, broker)
        rig.relay.close_results()
        with trio.fail_after(60):
            await rig.relay.post_results()
        assert "t1" in broker.results


async def test_what_is_refused_for_good_is_parked_after_five_minutes(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """A 400 is tried at least five times over five minutes, then kept apart."""
    minutes = Minutes(mock_clock)
    async with open_broker() as broker, running(broker, tmp_path, polling=False) as rig:
        minutes.rig = rig
        broker.always("results", Answer(400))
        await rig.relay.results.complete(Task(id=TaskId("x"), room_id="!r:h"), "a", base_dir="/")
        assert 300 <= await minutes.until(lambda: _state(rig, "x") is State.PARKED, 600)
        assert len(broker.of("results")) >= 5
