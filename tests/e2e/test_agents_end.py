"""However a turn or the worker ends, no process of an agent is left (field report D11)."""

import json
import signal
import sys
from pathlib import Path

import pytest
import trio

from tests.support.relay import Relay, running_relay
from tests.support.remote_agent import remote_agent
from tests.support.worker import Worker, alive, environment, running_worker, start, until

FAKE_AGENT = Path(__file__).parents[1] / "support" / "fake_agent.py"
"""From the signal to the worker's end: 10 s for the turn, then what ending deaf agents takes."""


def stubborn(folder: Path) -> dict[str, str]:
    """Settings with an agent that ignores everything but SIGKILL."""
    options = {"ignore_eof": True, "ignore_term": True, "state": str(folder / "sessions.json")}
    command = f"{sys.executable} {FAKE_AGENT} '{json.dumps(options)}'"
    return {"AGENT_CONNECT_ACP_COMMAND": command, "AGENT_CONNECT_PROGRESS_THROTTLE": "0.1"}


async def family(worker: Worker) -> list[int]:
    """The agent that is in its turn, and the child that it started."""
    found: list[int] = []

    def grown() -> bool:
        found[:] = [
            pid
            for leader in worker.children()
            for pid in group_of(leader)
            if len(group_of(leader)) > 1
        ]
        return len(found) == 2

    await until(grown, f"an agent with a child: {worker.output()}")
    return found


def group_of(leader: int) -> list[int]:
    """Every process of the group that this one leads."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == leader and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def shown_by_kernel(pid: int) -> bytes:
    """A process's environment and arguments."""
    return b"".join(Path(f"/proc/{pid}/{part}").read_bytes() for part in ("environ", "cmdline"))


async def bodies(relay: Relay) -> list[str]:
    """What the agent identity says in the room now."""
    found = await relay.relay.messages(relay.room)
    return [m.body for m in found if m.sender == relay.agent]


async def test_a_turn_that_ignores_its_deadline(tmp_path: Path) -> None:
    """Cancelled, 15 s later ended with its child; its text stays, the next message is served."""
    settings = stubborn(tmp_path) | {"AGENT_CONNECT_TURN_TIMEOUT": "10"}
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path, **settings) as worker,
    ):
        event_id = await relay.say("#say so far\n#child\n#deaf")
        pids = await family(worker)
        answer = await relay.relay.answer_to(event_id)
        assert answer is not None
        assert "so far" in answer
        assert "deadline of 10 s" in answer
        assert "its process was ended" in answer
        await until(lambda: not any(map(alive, pids)), "the end of agent and child")
        event_id = await relay.say("#say and on")
        assert "and on" == await relay.relay.answer_to(event_id)
        assert "serving" == worker.status["state"]
        assert 2 == len(await bodies(relay))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_a_stop_of_the_worker_ends_the_whole_group(
    number: signal.Signals, tmp_path: Path
) -> None:
    """With exit code 0, no process and no zombie; what was said is answered.

    The seconds of it are in ``tests/shell/turns/test_desk.py``, by a clock that stands still.
    """
    async with running_relay(tmp_path / "relay") as relay:
        worker = start(environment(relay.token, tmp_path, **stubborn(tmp_path)), tmp_path)
        try:
            await until(worker.connected, "a connected worker")
            await relay.say("#say so far\n#child\n#deaf")
            pids = await family(worker)
            assert 0 == await worker.stop(number)
        finally:
            worker.process.kill()
            worker.process.wait()
        await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "their end")
        assert "stopped" == worker.status["state"]
        assert "Traceback" not in worker.output()
        assert any("so far" in body and "stopped" in body for body in await bodies(relay))


async def test_an_agent_sees_no_secret_of_ours(tmp_path: Path) -> None:
    """Neither in its arguments nor in its environment, by the kernel's own word."""
    settings = stubborn(tmp_path) | {
        "AGENT_CONNECT_ACP_TOKEN": "acp-secret",
        "AGENT_CONNECT_DAEMON_TOKEN": "daemon-secret",
        "MODEL_KEY": "their-own",
    }
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path, **settings) as worker,
    ):
        await relay.say("#child\n#hang")
        for pid in await family(worker):
            seen = shown_by_kernel(pid)
            assert relay.secret.encode() not in seen
            assert b"acp-secret" not in seen
            assert b"daemon-secret" not in seen
            assert b"their-own" in seen
        assert 0 == await worker.stop()


async def test_a_dialled_agent_from_message_to_answer(tmp_path: Path) -> None:
    """Dialled with its bearer; over its deadline the connection is dropped, and that is said."""
    async with running_relay(tmp_path / "relay") as relay, remote_agent() as agent:
        agent.bearer = "agents-own"
        settings = {
            "AGENT_CONNECT_ACP_COMMAND": "",
            "AGENT_CONNECT_ACP_AGENT": "claude",
            "AGENT_CONNECT_ACP_URL": agent.url,
            "AGENT_CONNECT_ACP_TOKEN": "agents-own",
            "AGENT_CONNECT_TURN_TIMEOUT": "8",
        }
        async with running_worker(relay.token, tmp_path, **settings) as worker:
            assert "acp: remote 3" == worker.status["agent"]
            event_id = await relay.say("#say hello from afar")
            assert "hello from afar" == await relay.relay.answer_to(event_id)
            event_id = await relay.say("#deaf")
            answer = await relay.relay.answer_to(event_id)
            assert answer is not None
            assert "working" in answer
            assert "may still be working" in answer
            assert "process" not in answer
            await until(lambda: agent.open == 0, "the end of the connection")
            assert [] == worker.children()
            assert relay.secret not in json.dumps(agent.handshakes)
            assert "agents-own" not in worker.output()


@pytest.mark.parametrize(
    ("settings", "words", "code"),
    [
        ({"AGENT_CONNECT_ACP_COMMAND": "x"}, "AGENT_CONNECT_ACP_COMMAND", 2),
        ({"AGENT_CONNECT_ACP_URL": "wss://agents.test"}, "AGENT_CONNECT_ACP_ALLOW_REMOTE", 2),
        ({"AGENT_CONNECT_ACP_URL": "ws://a:b@localhost"}, "AGENT_CONNECT_ACP_TOKEN", 2),
        ({"AGENT_CONNECT_ACP_REMOTE_CWD": "here"}, "AGENT_CONNECT_ACP_REMOTE_CWD", 2),
        ({}, "cannot be reached", 3),
    ],
    ids=["command too", "elsewhere", "password", "relative", "closed door"],
)
async def test_what_cannot_be_dialled_stops_the_start(
    settings: dict[str, str], words: str, code: int, tmp_path: Path
) -> None:
    """One sentence on stderr and in the status; nothing is leased and nothing is started."""
    async with remote_agent() as agent:
        url = agent.url
    with trio.fail_after(60):
        async with running_relay(tmp_path / "relay") as relay:
            base = {"AGENT_CONNECT_ACP_COMMAND": "", "AGENT_CONNECT_ACP_URL": url}
            worker = start(environment(relay.token, tmp_path, **base | settings), tmp_path)
            assert code == await worker.ended()
    assert words in worker.output()
    assert "Traceback" not in worker.output()
    assert "a:b@" not in worker.output()
    assert "npm" not in worker.output()
