"""Several workers on one machine, one relay; and one whose clock is set back."""

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from agentconnect import app
from agentconnect.config import settings as config
from agentconnect.core.status import judge
from agentconnect.status.writer import StatusWriter
from agentconnect.stopping import Stop
from tests.support.relay import running_relay
from tests.support.worker import Worker, end, environment, start, until

MANY = 12
FAULT_AGENT = Path(__file__).parents[2] / "support" / "fault_agent.py"


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    """A worker in this process sets up the log of the process."""
    root, ours = logging.getLogger(), logging.getLogger("agentconnect")
    before = (root.handlers[:], root.level, ours.level)
    yield
    root.handlers[:], root.level, ours.level = before


async def test_twelve_instances_side_by_side_answer_their_own(tmp_path: Path) -> None:
    """Each has its config file, workspace, token and agent; each answers its own room alone."""
    async with running_relay(tmp_path / "relay") as relay:
        workers: list[Worker] = []
        rooms: list[tuple[str, str]] = []
        try:
            for number in range(MANY):
                agent, token, _ = await relay.relay.add_agent(f"Agent {number}")
                room = await relay.relay.create_room(f"Room {number}", relay.owner, (agent,))
                rooms.append((room, agent))
                workers.append(instance(tmp_path / f"{number}", number, token))
            for worker in workers:
                await until(worker.connected, f"a connected worker: {worker.output()}", 120)
            events = [
                await relay.relay.post(room, relay.owner, f"for {number}")
                for number, (room, _) in enumerate(rooms)
            ]
            answers = [await relay.relay.answer_to(event) for event in events]
            assert [f"for {number}" for number in range(MANY)] == answers
            for number, (room, agent) in enumerate(rooms):
                said = [m for m in await relay.relay.messages(room) if m.sender != relay.owner]
                assert [(agent, f"for {number}")] == [(m.sender, m.body) for m in said]
                prompts = (tmp_path / f"{number}" / "prompts.log").read_text()
                assert f"for {number}\n" == prompts
            assert {f"i{n}" for n in range(MANY)} == {w.status["instance"] for w in workers}
        finally:
            with trio.CancelScope(shield=True):
                async with trio.open_nursery() as ending:
                    for worker in workers:
                        ending.start_soon(end, worker)
        assert {0} == {worker.process.returncode for worker in workers}


def instance(folder: Path, number: int, token: str) -> Worker:
    """A worker with a config file of its own and nothing of it in the environment."""
    folder.mkdir()
    env = environment(token, folder)
    named = {name: value for name, value in env.items() if name.startswith("AGENT_CONNECT_")}
    named["AGENT_CONNECT_INSTANCE"] = f"i{number}"
    named["AGENT_CONNECT_ACP_SPARE"] = "0"
    named["AGENT_CONNECT_ACP_COMMAND"] = f"{sys.executable} {FAULT_AGENT} {folder / 'prompts.log'}"
    file = folder / "config.env"
    file.touch(mode=0o600)
    file.write_text("".join(f"{name}={value}\n" for name, value in named.items()))
    bare = {name: value for name, value in env.items() if name not in named}
    workspace = {"AGENT_CONNECT_WORKSPACE": named["AGENT_CONNECT_WORKSPACE"]}
    return start(bare | workspace, folder, "--config", str(file))


async def test_a_clock_that_is_set_back_harms_only_the_two_wall_fields(tmp_path: Path) -> None:
    """The heartbeat goes on by the other clock, and the uptime says what the wall clock hides."""
    path = tmp_path / "status.json"
    wall = [1_800_000_000.0]
    writer = StatusWriter(path, 0.1, wall_now=lambda: wall[0])
    async with trio.open_nursery() as nursery:
        await nursery.start(writer.run)
        writer.state("serving", "adapter=acp")
        wall[0] -= 3600
        await until(lambda: json.loads(path.read_text())["updated_at"] == wall[0], "a beat")
        uptime = json.loads(path.read_text())["uptime_seconds"]
        await until(
            lambda: json.loads(path.read_text())["uptime_seconds"] > uptime, "a growing uptime"
        )
        nursery.cancel_scope.cancel()
    raw = path.read_bytes()
    assert judge(raw, wall[0]).verdict == "fresh"
    assert judge(raw, wall[0] - 3600).verdict == "fresh"  # the caveat of docs/status-file.md
    assert judge(raw, wall[0] + 1).verdict == "stale"


async def test_a_worker_that_is_ended_from_outside_does_not_go_on_serving(tmp_path: Path) -> None:
    """Whatever ends the program around it: `serving` is not the last word of the file."""
    env = environment("http://127.0.0.1:9/relay|secret-of-this-test", tmp_path)
    env["AGENT_CONNECT_ACP_COMMAND"] = f"{sys.executable} {FAULT_AGENT} {tmp_path / 'prompts.log'}"
    loaded = config.load(env, {})
    serving = trio.Event()
    status = Path(env["AGENT_CONNECT_WORKSPACE"]) / "status.json"

    async def ready() -> None:
        serving.set()

    def say(_line: str) -> None:
        """Nobody listens."""

    async def run() -> None:
        await app.run_worker(loaded, Stop(), say=say, ready=ready)

    with trio.fail_after(60):
        async with trio.open_nursery() as around:
            around.start_soon(run)
            await serving.wait()
            await until(
                lambda: json.loads(status.read_text())["state"] == "serving", "a serving worker"
            )
            around.cancel_scope.cancel()
    assert json.loads(status.read_text())["state"] == "error"
