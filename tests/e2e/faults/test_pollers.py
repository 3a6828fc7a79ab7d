"""Who may poll: one process per workspace, one workspace per token; whom a restart waits for."""

import json
import signal
import time
from functools import partial
from pathlib import Path

import trio

from agentconnect.embedded.leases import State
from tests.e2e.faults.stand import Stand, stand, together
from tests.support.worker import Worker, environment, start, until

TAKE_OVER_S = 15.0
"""What is promised from the holder's end; `tests/shell/relay/test_pollers.py` holds it to that by a
clock of its own. Here a standby says when it looks next, and must look as often as it says."""

SLOW_S = 45.0  # what a machine under load may add


def second_workspace(case: Stand) -> Worker:
    """Another worker with the same token, on a workspace of its own."""
    folder = case.folder / "second"
    folder.mkdir()
    command = case.env()["AGENT_CONNECT_ACP_COMMAND"]
    env = environment(case.relay.token, folder, AGENT_CONNECT_ACP_COMMAND=command)
    return start({**env, "AGENT_CONNECT_STATUS_HEARTBEAT": "0.2"}, folder)


def stands_by(worker: Worker) -> bool:
    """It waits for another poller, and says how long: no longer than is promised."""
    relay = worker.status.get("relay") or {}
    return relay.get("state") == "standby" and 0 < relay.get("recheck_s", 0) <= TAKE_OVER_S


async def test_already_has_an_active_session_for_days(tmp_path: Path) -> None:
    """D16: killed and started again on the same workspace, the worker polls at once."""
    async with stand(tmp_path) as case:
        await case.start()
        await case.kill()
        case.launch()
        seen: list[str] = []

        def connected() -> bool:
            seen.append(str(case.of_relay("state")))
            return case.worker.connected()

        await until(connected, "a connected worker")
        assert "standby" not in seen
        await case.closed(await case.relay.say("echo back"))


async def test_two_workers_on_one_workspace(tmp_path: Path) -> None:
    """The second exits 4 and names the holder; the first goes on."""
    async with stand(tmp_path) as case:
        first = await case.start()
        second = case.launch()
        assert await second.ended() == 4
        assert f"pid {first.process.pid}" in second.output()
        case.workers.remove(second)
        assert first.status["pid"] == first.process.pid
        await case.closed(await case.relay.say("echo back"))


async def taken_over(folder: Path, number: signal.Signals) -> None:
    """Two workspaces with one token; the one that polls is ended by a signal."""
    async with stand(folder) as case:
        first = await case.start()
        second = second_workspace(case)
        case.workers.append(second)
        await until(lambda: stands_by(second), "a standby")
        await case.closed(await case.relay.say("echo one"))
        assert case.relay.relay.open_polls(case.relay.agent) <= 1
        first.process.send_signal(number)
        await first.ended()
        source = await case.relay.say("echo two")
        await until(second.connected, "a take-over", TAKE_OVER_S + SLOW_S)
        await case.closed(source)
        assert case.prompts() == ["echo one", "echo two"]
        assert await case.texts() == ["echo one", "echo two"]


async def test_two_workspaces_on_one_token_do_not_split_the_tasks(tmp_path: Path) -> None:
    """One polls, the other stands by and takes over by itself when the first is gone."""
    await together(
        partial(taken_over, tmp_path / "killed", signal.SIGKILL),
        partial(taken_over, tmp_path / "stopped", signal.SIGTERM),
    )


async def test_a_record_left_by_the_reference_is_waited_for(tmp_path: Path) -> None:
    """D16: a guard record without our lock is believed as long as it is fresh, then taken over."""
    folder = tmp_path / "workspace" / "relay" / "default"
    folder.mkdir(parents=True)
    record = folder / "poller.lock"
    now = trio.Path(record)
    async with stand(tmp_path) as case:
        await now.write_text(guard_record(age_s=0.0))
        worker = case.launch()
        await until(lambda: stands_by(worker), "a standby")
        assert (worker.status.get("relay") or {}).get("singleton") == "lost"
        source = await case.relay.say("echo back")
        assert await case.state_of(source) == State.QUEUED
        await now.write_text(guard_record(age_s=151.0))  # time passes for the record
        await until(worker.connected, "a take-over", TAKE_OVER_S + SLOW_S)
        assert case.of_relay("recheck_s") == 0  # and it does not go on saying that it waits
        await case.closed(source)


def guard_record(*, age_s: float) -> str:
    """What the reference leaves when it is killed."""
    stamp = time.time() - age_s
    return json.dumps(
        {"owner": "0" * 32, "pid": 1, "host": "h", "acquired_ts": stamp, "heartbeat_ts": stamp}
    )
