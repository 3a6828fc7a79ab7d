"""The status file of a real worker: alive before it serves, and of no cost to any task."""

import json
import shlex
import sys
import time
from pathlib import Path

import trio

from agentconnect.core.status import judge
from tests.e2e.operation.bare import DEAD_RELAY, FAKE_AGENT, bare
from tests.support.relay import running_relay
from tests.support.worker import end, environment, running_worker, start, until


async def test_a_slow_agent_is_starting_and_not_dead_and_takes_no_work(tmp_path: Path) -> None:
    """The heartbeat runs while the agent is checked; no task is leased before it is there."""
    gate = tmp_path / "gate"
    options = json.dumps({"init_gate": str(gate)})
    async with running_relay(tmp_path / "relay") as relay:
        env = environment(
            relay.token,
            tmp_path,
            AGENT_CONNECT_ACP_COMMAND=shlex.join([sys.executable, str(FAKE_AGENT), options]),
            AGENT_CONNECT_STATUS_HEARTBEAT="4",
        )
        asked = await relay.say("#say now")
        worker = start(env, tmp_path)
        try:
            await until(lambda: worker.status.get("state") == "starting", "a starting worker")
            beats: set[float] = set()
            while worker.status["state"] == "starting":
                raw = (worker.state_dir / "status.json").read_bytes()
                assert judge(raw, time.time()).exit_code == 0
                beats.add(worker.status["updated_at"])
                polls = [path for method, path in relay.faults.seen if "/v1/tasks" in path]
                if worker.status["state"] == "starting":
                    assert polls == []
                if len(beats) >= 3:
                    gate.touch()
                await trio.sleep(0.05)
            assert len(beats) >= 3
            assert worker.status["state"] == "serving"
            assert "now" in await relay.relay.answer_to(asked)
        finally:
            with trio.CancelScope(shield=True):
                await end(worker)


async def test_a_status_file_that_cannot_be_written_costs_no_task(tmp_path: Path) -> None:
    """One complaint; messages are answered and the stop is in order."""
    async with running_relay(tmp_path / "relay") as relay:
        env = environment(relay.token, tmp_path, AGENT_CONNECT_STATUS_FILE="/dev/null/status.json")
        worker = start(env, tmp_path)
        try:
            assert await relay.relay.ask(relay.room, relay.owner, "hello", 60)
            await worker.says("the status file cannot be written")
            await trio.sleep(1.5)  # three beats that fail
            assert worker.output().count("the status file cannot be written") == 1
            assert await worker.stop() == 0
        finally:
            with trio.CancelScope(shield=True):
                await end(worker)


async def test_a_start_that_serves_takes_the_error_of_the_last_one_back(tmp_path: Path) -> None:
    """A refusal is the last word of its own run only."""
    async with running_relay(tmp_path / "relay") as relay:
        wrong = environment(relay.token, tmp_path, AGENT_CONNECT_REPO="/no/such/folder")
        refused = start(wrong, tmp_path)
        assert await refused.ended() == 2
        assert refused.status["state"] == "error"
        async with running_worker(relay.token, tmp_path) as worker:
            assert worker.status["state"] == "serving"
            assert worker.status["last_error"] is None


async def test_the_config_file_s_settings_reach_the_adapters(home: Path) -> None:
    """No setting is read from the environment behind the file's back: the address is the file's."""
    settings = {"AGENT_CONNECT_TOKEN": DEAD_RELAY, "AGENT_CONNECT_ADAPTER": "ollama"}
    worker = bare(home, {**settings, "OLLAMA_HOST": "127.0.0.1:9"})
    assert await worker.ended() == 3
    assert "127.0.0.1:9" in worker.status["detail"]
    assert worker.status["adapter"] == "ollama"
