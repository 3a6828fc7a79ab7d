"""Polling: nothing spins, nothing is lost, nothing is run twice, a rejection is waited out."""

import json
import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from agentconnect.core.errors import RelayStoppedError
from agentconnect.core.relay.credential import build
from agentconnect.core.relay.envelope import decode_batch
from agentconnect.core.relay.journal import State
from agentconnect.core.task import TaskId
from tests.shell.relay.minutes import Minutes
from tests.shell.relay.rig import running
from tests.support.fake_broker import Answer, open_broker, wire_task


@pytest.mark.parametrize(
    "answer",
    [Answer(body={}), Answer(204), Answer(body=b"null"), Answer(body=b""), Answer(body=[])],
    ids=["{}", "204", "null", "empty", "list"],
)
async def test_an_answer_without_tasks_does_not_spin(tmp_path: Path, answer: Answer) -> None:
    """A 2xx without a list is a counted anomaly with backoff, not a hot loop shown as healthy."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.always("tasks", answer)
        status = await rig.state("reconnecting", error=True)
        assert status.backoff_s == 1.0
        first, second = (await broker.seen("tasks", 2))[:2]
        assert second.at - first.at >= 1.0
        assert not any(status.connected for status in rig.statuses)


async def test_an_instant_empty_poll_is_paced(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """A relay that ignores `wait` is asked once a second, and that is no failure."""
    minutes = Minutes(mock_clock)
    async with open_broker() as broker:
        broker.poll_hold_s = 0.0
        async with running(broker, tmp_path) as rig:
            minutes.rig = rig
            await minutes.until(lambda: len(broker.of("tasks")) >= 4, 10)
            polls = broker.of("tasks")
            assert polls[3].at - polls[1].at >= 1.9
            status = rig.relay.snapshot()
            assert status.connected
            assert status.backoff_s == 0.0


async def test_the_same_task_again_and_again_is_paced(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """A relay that serves one running task on every poll does not make us spin either."""
    minutes = Minutes(mock_clock)
    async with open_broker() as broker:
        broker.always("tasks", Answer(body={"tasks": [wire_task("t1")]}))
        async with running(broker, tmp_path) as rig:
            minutes.rig = rig
            await minutes.until(lambda: len(broker.of("tasks")) >= 4, 10)
            polls = broker.of("tasks")
            assert polls[3].at - polls[1].at >= 1.9
            assert len(rig.taken) == 1


async def test_a_task_served_again_while_it_runs_is_not_run_twice(tmp_path: Path) -> None:
    """Only its newest lease is acked."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.serve(wire_task("t1", lease_id="L1"))
        await broker.seen("ack", 1)
        broker.serve(wire_task("t1", lease_id="L2"), wire_task("t1", lease_id="L3"))
        await broker.until(lambda: broker.of("ack")[-1].body["lease_id"] == "L3")
        assert ["L1", "L3"] == [ack.body["lease_id"] for ack in broker.of("ack")]
        assert len(rig.taken) == 1


async def test_one_bad_item_costs_no_other(tmp_path: Path) -> None:
    """Unusable items are rejected by name or skipped; the rest is handed over."""
    items: list[Any] = [7, {"id": ""}, {"id": "bad id", "task": "x"}, {"id": "x" * 300}]
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.serve(*items, wire_task("ok", body="fine \ud83d"))
        (task,) = await rig.tasks()
        assert task.body == "fine \ufffd"
        await broker.until(lambda: "bad id" in broker.results)
        assert broker.results["bad id"] == {
            "id": "bad id",
            "status": "rejected",
            "error_code": "INVALID_TASK_SCHEMA",
        }


async def test_five_hundred_tasks_are_one_commit(tmp_path: Path) -> None:
    """A replay after a reconnect is journalled at once, then handed over."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.serve(*(wire_task(f"t{number}") for number in range(500)))
        await rig.tasks(500)
        assert rig.journal.commits < 10
        assert rig.journal.counts().inflight == 500
        await broker.until(lambda: len({r.path for r in broker.of("ack")}) == 500)


async def test_a_consumer_that_raises_does_not_end_the_poller(tmp_path: Path) -> None:
    """Handing over is one task's boundary."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        rig.refuse = True
        broker.serve(wire_task("t1"))
        await broker.seen("ack", 1)
        rig.refuse = False
        broker.serve(wire_task("t2"))
        await rig.tasks(1)


async def test_an_unanswered_task_is_taken_up_before_the_first_poll(tmp_path: Path) -> None:
    """A worker that was killed mid-turn gets its task from the journal, whole, and acks it."""
    async with open_broker() as broker:
        async with running(broker, tmp_path) as rig:
            broker.serve(wire_task("t1", body="é long question", lease_id="L1"))
            await rig.tasks()
            await rig.journal.placed(TaskId("t1"), "$p")
        broker.requests.clear()
        async with running(broker, tmp_path) as rig:
            (task,) = await rig.tasks()
            assert task.body == "é long question"
            assert rig.journal.progress(task.id).placeholder == "$p"
            assert (await broker.seen("ack"))[0].body["lease_id"] == "L1"
            await rig.relay.results.complete(task, "done", base_dir="/")
            await broker.until(lambda: "t1" in broker.results)


async def test_a_recorded_answer_is_posted_after_a_restart(tmp_path: Path) -> None:
    """A worker killed between recording and posting posts it, and runs nothing."""
    async with open_broker() as broker:
        async with running(broker, tmp_path, posting=False) as rig:
            broker.serve(wire_task("t1"))
            (task,) = await rig.tasks()
            await rig.relay.results.complete(task, "the answer", base_dir="/")
        assert "t1" not in broker.results
        async with running(broker, tmp_path) as rig:
            await broker.until(lambda: "t1" in broker.results)
            assert broker.results["t1"]["body"] == "the answer"
            broker.serve(wire_task("t1"), wire_task("t2"))
            assert [task.id for task in await rig.tasks()] == ["t2"]


async def test_a_task_that_cannot_be_recorded_is_not_handed_over(tmp_path: Path) -> None:
    """Its commit fails: it is not run, not acked, and the state says why."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        await rig.sql("CREATE TRIGGER f BEFORE INSERT ON tasks BEGIN SELECT RAISE(ABORT,'no'); END")
        broker.serve(wire_task("t1"))
        status = await rig.state("reconnecting", error=True)
        assert "journal.db" in (status.error or "")
        assert rig.taken == []
        assert broker.of("ack") == []


async def test_one_rejected_poll_is_waited_out(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """401 and 403 without a token file: asked again after 2 s and 8 s, the task is not lost."""
    minutes = Minutes(mock_clock)
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        minutes.rig = rig
        broker.script("tasks", Answer(401), Answer(403))
        broker.serve(wire_task("t1"))
        await minutes.until(lambda: bool(rig.taken), 11)
        first, second, third = [request.at for request in broker.of("tasks")][:3]
        assert second - first == pytest.approx(2)
        assert third - second == pytest.approx(8)
        assert "auth-wait" in {status.state for status in rig.statuses}
        assert rig.failure is None
        assert rig.relay.snapshot().error is None


class Steps(trio.abc.Instrument):
    """The longest that the loop was held up, in processor time of its own thread."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._began = time.thread_time()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.longest_s = max(self.longest_s, time.thread_time() - self._began)


async def test_a_large_batch_is_read_beside_everything_else(tmp_path: Path) -> None:
    """Two megabytes that take a second to read do not hold up the loop for it."""
    body = b'{"tasks":[%s]}' % json.dumps(wire_task("t1", "\ud800" * 350_000)).encode()
    began = time.thread_time()
    decode_batch(body)
    alone_s = time.thread_time() - began
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        trio.lowlevel.add_instrument(steps := Steps())
        broker.script("tasks", Answer(body=body))
        await rig.tasks()
    assert 0 < steps.longest_s < alone_s / 2


async def test_a_new_secret_in_the_token_file_is_used_at_once(tmp_path: Path) -> None:
    """The file is looked at while waiting; the poll resumes with the new secret."""
    token_file = tmp_path / "config.env"
    async with open_broker() as broker:
        token_file.write_text(f"AGENT_CONNECT_TOKEN={broker.base}|old-secret\n")
        credential = build(file_text=token_file.read_text())
        async with running(
            broker, tmp_path / "ws", credential=credential, token_file=token_file
        ) as rig:
            await rig.state("auth-wait")
            broker.serve(wire_task("t1"))
            token_file.write_text(f"AGENT_CONNECT_TOKEN={broker.base}|{broker.secret}\n")
            await rig.tasks()
            await rig.relay.results.complete(rig.taken[0], "x", base_dir="/")
            await broker.until(lambda: "t1" in broker.results)


async def test_without_a_token_file_three_rejections_over_a_minute_are_the_end(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """The client then says so and stops for good."""
    minutes = Minutes(mock_clock)
    async with open_broker() as broker:
        broker.secret = "another"
        credential = build(token=f"{broker.base}|revoked")
        async with running(broker, tmp_path, credential=credential) as rig:
            minutes.rig = rig
            await minutes.until(lambda: rig.failure is not None, 600)
            assert isinstance(rig.failure, RelayStoppedError)
            assert rig.statuses[-1].state == "fatal"
            assert "put the new one where this one stands" in (rig.statuses[-1].error or "")
            polls = broker.of("tasks")
            assert len(polls) >= 3
            assert polls[-1].at - polls[0].at >= 60


async def test_a_401_elsewhere_does_not_stop_polling(tmp_path: Path) -> None:
    """Only the poll decides about the bearer."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.always("ack", Answer(401))
        broker.always("room", Answer(403))
        broker.serve(wire_task("t1"))
        await rig.tasks()
        result = await rig.relay.rooms.message("!r:h", "x")
        assert (result.ok, result.status) == (False, 403)
        broker.serve(wire_task("t2"))
        await rig.tasks(2)
        assert not any(status.state == "auth-wait" for status in rig.statuses)


@pytest.mark.parametrize(
    ("answer", "backoff_s"),
    [
        (Answer(503, headers={"Retry-After": "3"}), 3.0),
        (Answer(500), 1.0),
        (Answer(drop=True), 1.0),
        (Answer(body=b"<html>"), 1.0),
        (Answer(302, headers={"Location": "http://127.0.0.1:9/?k=v"}), 1.0),
        (Answer(body=b'{"tasks":[]}', headers={"Content-Encoding": "gzip"}), 1.0),
        (Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"), 1.0),
    ],
    ids=["503", "500", "dropped", "html", "redirect", "encoded", "cut short"],
)
async def test_a_failed_poll_backs_off_and_says_so(
    tmp_path: Path, answer: Answer, backoff_s: float
) -> None:
    """The status is written before the wait, without anything the relay said."""
    async with open_broker() as broker:
        broker.script("tasks", answer)
        async with running(broker, tmp_path) as rig:
            status = await rig.state("reconnecting", error=True)
            assert status.backoff_s == pytest.approx(backoff_s)
            assert "?" not in (status.error or "")
            await rig.state("connected")
            assert rig.relay.snapshot().error is None


async def test_acks_that_get_lost_are_repeated(tmp_path: Path) -> None:
    """A 5xx or a lost answer keeps the ack owed; it does not hold the task."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.script("ack", Answer(500), Answer(drop=True))
        broker.serve(wire_task("t1"))
        await rig.tasks()
        await broker.seen("ack", 3)


async def test_a_lease_that_is_gone_drops_only_its_ack(tmp_path: Path) -> None:
    """`not leased` is about one lease: the task is kept and other acks go on."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.script("ack", Answer(404, {"error": "Not leased"}))
        broker.serve(wire_task("t1"))
        await broker.seen("ack", 1)
        broker.serve(wire_task("t2"))
        await broker.seen("ack", 2)
        assert rig.relay.snapshot().acks_paused_s == 0
        assert rig.journal.counts().inflight == 2


async def test_a_relay_without_the_ack_route_pauses_them(tmp_path: Path) -> None:
    """Ordinary acks rest for five minutes; a re-serve's goes out and ends the pause."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.script("ack", Answer(404, {"error": "no such route"}))
        broker.serve(wire_task("t1"))
        await rig.until(lambda: rig.relay.snapshot().acks_paused_s > 0)
        broker.serve(wire_task("t2"))
        await rig.tasks(2)
        assert len(broker.of("ack")) == 1
        broker.serve(wire_task("t2", lease_id="L2"))
        await rig.until(lambda: rig.relay.snapshot().acks_paused_s == 0)
        await broker.until(lambda: {"/v1/tasks/t1/ack"} < {r.path for r in broker.of("ack")})


async def test_the_status_file_holds_the_fields_and_no_secret(tmp_path: Path) -> None:
    """0600, the snapshot's fields and three counts more; the hook gets the same."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        await rig.state("connected")
        path = rig.layout.connection_status
        await rig.until(lambda: path.exists() and json.loads(path.read_text())["connected"])
        record = json.loads(path.read_text())
        fields = set(msgspec.structs.asdict(rig.relay.snapshot()))
        extra = {"parked_results", "undelivered_results", "poll_anomalies"}
        assert set(record) == fields | extra
        assert path.stat().st_mode & 0o777 == 0o600
        assert record["singleton"] == "held"
        for file in tmp_path.rglob("*"):  # noqa: ASYNC240
            if file.is_file():
                assert broker.secret.encode() not in file.read_bytes()
        last_ok = record["last_ok_ts"]
    assert json.loads(path.read_text())["state"] == "stopped"
    async with open_broker() as broker, running(broker, tmp_path, polling=False) as rig:
        assert (rig.relay.snapshot().last_ok_ts or 0) >= last_ok


async def test_another_clients_fresh_record_makes_us_stand_by(tmp_path: Path) -> None:
    """A client without our lock is respected; nothing goes out meanwhile."""
    (tmp_path / "relay" / "default").mkdir(parents=True)
    guard = tmp_path / "relay" / "default" / "poller.lock"
    record = {"owner": "f" * 32, "pid": 1, "host": "h", "heartbeat_ts": _wall()}
    guard.write_text(json.dumps(record))
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        status = await rig.state("standby")
        assert status.recheck_s == 15
        assert status.singleton == "lost"
        assert broker.requests == []


async def test_a_killed_workers_record_is_taken_at_once(tmp_path: Path) -> None:
    """Whoever holds the state folder's lock need not wait for a dead one's stamp to age."""
    (tmp_path / "relay" / "default").mkdir(parents=True)
    guard = tmp_path / "relay" / "default" / "poller.lock"
    record = {"owner": "f" * 32, "heartbeat_ts": _wall(), "flock": True}
    guard.write_text(json.dumps(record))
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        await rig.state("connected")
        ours = json.loads(guard.read_text())
        assert ours["owner"] != "f" * 32
        assert (ours["pid"], ours["flock"]) == (os.getpid(), True)
    assert guard.read_text() == ""


async def test_a_displaced_client_stops_for_good(tmp_path: Path) -> None:
    """Somebody else's record while we hold it: no further poll, and the record is left."""
    async with open_broker() as broker:
        broker.poll_hold_s = 1.2
        async with running(broker, tmp_path) as rig:
            await broker.seen("tasks", 1)
            record = json.dumps({"owner": "f" * 32, "heartbeat_ts": _wall()})
            rig.layout.guard.write_text(record)
            with trio.fail_after(60):
                while rig.failure is None:
                    await rig.changed.wait()
            assert isinstance(rig.failure, RelayStoppedError)
            assert rig.relay.snapshot().state == "displaced"
        assert rig.layout.guard.read_text() == record


async def test_a_guard_that_cannot_be_evaluated_does_not_silence_us(tmp_path: Path) -> None:
    """A folder in the record's place: degraded, and polling all the same."""
    (tmp_path / "relay" / "default" / "poller.lock").mkdir(parents=True)
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        status = await rig.state("connected")
        assert status.singleton == "degraded"


async def test_a_missing_heartbeat_route_disturbs_nothing(tmp_path: Path) -> None:
    """Presence is best effort."""
    async with open_broker() as broker:
        broker.always("heartbeat", Answer(404))
        async with running(broker, tmp_path) as rig:
            await broker.seen("heartbeat", 1)
            broker.serve(wire_task("t1"))
            await rig.tasks()


async def test_stopping_while_idle_is_immediate(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """A long poll in flight does not hold the stop: it ends although no time passes at all."""
    async with open_broker() as broker:
        broker.poll_hold_s = 30.0
        async with running(broker, tmp_path):
            await broker.seen("tasks", 1)
        assert mock_clock.current_time() == 0.0


async def test_the_states_of_a_task_are_counted(tmp_path: Path) -> None:
    """In flight can fall: what the broker schedules by."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.serve(wire_task("t1"), wire_task("t2"))
        first, _ = await rig.tasks(2)
        assert rig.relay.snapshot().inflight == 2
        await rig.relay.results.complete(first, "x", base_dir="/")
        await rig.until(lambda: rig.relay.snapshot().inflight == 1)
        entry = rig.journal.entry(first.id)
        assert entry is not None
        assert entry.state is State.DONE


def _wall() -> float:
    return time.time()
