"""Starts that go well with little, and starts that are refused: what is said, where, which code.

Exit code 1, a relay that ends the worker for good, is in ``tests/e2e/test_inlet_loss.py``.
"""

import json
import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

from tests.e2e.operation.bare import DEAD_RELAY, FAKE_AGENT, bare
from tests.support.relay import running_relay
from tests.support.worker import DEMO, environment, running_worker, start, until

REFUSED_WITHIN_S = 10.0


async def test_nothing_but_a_config_file_is_needed(tmp_path: Path, home: Path) -> None:
    """An empty environment: the default places are made, the first message is answered."""
    async with running_relay(tmp_path / "relay") as relay:
        worker = bare(
            home,
            {
                "AGENT_CONNECT_TOKEN": relay.token,
                "AGENT_CONNECT_ADAPTER": "acp",
                "AGENT_CONNECT_ACP_COMMAND": DEMO,
            },
        )
        await until(worker.connected, f"a connected worker: {worker.output()}")
        answer = await relay.relay.ask(relay.room, relay.owner, "hello", 60)
        assert "demonstration" in (answer or "")
        assert (home / "agents").is_dir()
        assert f"working directory {home / 'agents'} made" in worker.output()
        assert "3 settings applied" in worker.output()
        assert await worker.stop() == 0
    assert relay.secret not in worker.output()


@pytest.mark.parametrize("interpreter", ["present", "missing"])
async def test_an_agent_that_only_a_shell_finds_is_said_within_seconds(
    home: Path, interpreter: str
) -> None:
    """D20: the agent lies in a version manager's folder, which is on the PATH of shells alone.

    Named by a name, it is not found; named by its path, it does not find what runs it.
    """
    folder = home / ".versions" / "node" / "v22.1.0" / "bin"
    folder.mkdir(parents=True)
    agent = folder / "quagga-agent"
    agent.write_text("#!/usr/bin/env quagga-node\n")
    agent.chmod(0o755)
    command, missing = "quagga-agent --acp", "quagga-agent"
    if interpreter == "missing":
        command, missing = f"{agent} --acp", "quagga-node"
    settings = {"AGENT_CONNECT_TOKEN": DEAD_RELAY, "AGENT_CONNECT_ADAPTER": "acp"}
    worker = bare(home, {**settings, "AGENT_CONNECT_ACP_COMMAND": command})
    assert await worker.ended(REFUSED_WITHIN_S) == 3
    status = worker.status
    assert status["state"] == "error"
    for words in (f"“{missing}”", "/usr/bin:/bin", "service install"):
        assert words in status["detail"]
    assert status["detail"] in worker.output()
    assert "Traceback" not in worker.output()


async def test_all_wrong_settings_are_told_in_one_start(tmp_path: Path) -> None:
    """A sentence each on stderr, all of them in the status file, exit 2, and no secret."""
    env = environment(
        "https://user:hunter22@gw.example|secret-of-this-test",
        tmp_path,
        AGENT_CONNECT_INSTANCE="a b",
        AGENT_CONNECT_ACP_COMMAND="agent 'open",
        AGENT_CONNECT_ADAPTER="acq",
        AGENT_CONNECT_REPO="/no/such/folder",
    )
    worker = start(env, tmp_path)
    assert await worker.ended() == 2
    status = worker.status
    told = status["detail"].splitlines()
    assert [
        "AGENT_CONNECT_INSTANCE",
        "AGENT_CONNECT_ACP_COMMAND",
        "AGENT_CONNECT_ADAPTER",
        "AGENT_CONNECT_REPO",
        "AGENT_CONNECT_TOKEN",
    ] == [line.split()[0].rstrip(":") for line in told]
    assert status["last_error"]["message"] == status["detail"]
    printed = worker.output().splitlines()
    assert [f"agent-connect: {line}" for line in told] == printed[-5:]
    for secret in ("secret-of-this-test", "hunter22"):
        assert secret not in worker.output() + str(status)


async def test_what_a_default_can_mend_is_a_warning_each(tmp_path: Path) -> None:
    """A broken value of each type that never stops the start; the worker serves."""
    broken = {
        "AGENT_CONNECT_EDIT_CEILING": "-1",
        "AGENT_CONNECT_POLL": "abc",
        "AGENT_CONNECT_STATUS_HEARTBEAT": "0",
        "AGENT_CONNECT_TURN_TIMEOUT": "inf",
        "AGENT_CONNECT_LOG": "xml",
        "AGENT_CONNECT_ACP_EXECUTE": "yes",
        "AGENT_CONNECT_ACP_COLLABORATORS": "dora",
        "AGENT_CONNECT_MEDIA_ORIGINS": "ftp://x",
        "AGENT_CONNECT_EGRESS_ROOTS": "/no/such/root",
    }
    unsaid = {"AGENT_CONNECT_LIVE_PROGRESS": "perhaps", "AGENT_CONNECT_STATUS_FILE": "  "}
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path, **broken, **unsaid) as worker,
    ):
        for name in broken.keys() - {"AGENT_CONNECT_EGRESS_ROOTS"}:
            assert worker.output().count(f"WARNING: {name} ") == 1, name
        assert worker.output().count("/no/such/root") == 1
        assert worker.status["heartbeat_seconds"] == 15.0
        assert await worker.stop() == 0


async def test_folders_that_lay_the_workers_own_open_are_named_at_start(tmp_path: Path) -> None:
    """Once each; the worker serves all the same (worker.md §10.1)."""
    inner = tmp_path / "state" / "out"
    inner.mkdir(parents=True)
    roots = os.pathsep.join((str(tmp_path), str(inner)))
    settings = {
        "AGENT_CONNECT_WORKSPACE": str(tmp_path / "state"),
        "AGENT_CONNECT_EGRESS_ROOTS": roots,
    }
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path, **settings) as worker,
    ):
        said = worker.output()
        assert said.count(f"egress root {tmp_path} contains {tmp_path}/state: ") == 1
        assert said.count(f"egress root {inner} lies in {tmp_path}/state: ") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_ends_it_with_0_and_a_second_one_with_its_number(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Asked once it stops in order; asked twice it is gone at once, agents too."""
    heard = tmp_path / "heard"
    heard.touch()
    options = json.dumps({"log": str(heard)})
    command = shlex.join([sys.executable, str(FAKE_AGENT), options])
    async with running_relay(tmp_path / "relay") as relay:
        settings = {"AGENT_CONNECT_ACP_COMMAND": command}
        async with running_worker(relay.token, tmp_path, **settings) as worker:
            assert await worker.stop(number) == 0
            detail = "interrupted" if number == signal.SIGINT else "terminated"
            assert (worker.status["state"], worker.status["detail"]) == ("stopped", detail)
        async with running_worker(relay.token, tmp_path, **settings) as worker:
            await relay.say("#deaf")
            await until(lambda: "session/prompt" in heard.read_text(), "a turn that will not end")
            worker.process.send_signal(number)
            await until(lambda: "session/cancel" in heard.read_text(), "the first signal's effect")
            assert worker.process.poll() is None
            assert await worker.stop(number) == 128 + number
            assert worker.status["state"] == "stopped"
        assert "Traceback" not in worker.output()


@pytest.mark.parametrize(
    ("changes", "arguments", "code"),
    [
        ({}, ["--nonsense"], 2),
        ({}, ["--config", "/no/such/file"], 2),
        ({"AGENT_CONNECT_ADAPTER": ""}, [], 2),
        ({"AGENT_CONNECT_TOKEN": ""}, [], 2),
        ({"AGENT_CONNECT_ACP_COMMAND": "no-such-agent-anywhere"}, [], 3),
        ({"AGENT_CONNECT_ACP_COMMAND": "", "AGENT_CONNECT_ACP_AGENT": "clod"}, [], 3),
    ],
)
async def test_a_refusal_has_its_code(
    tmp_path: Path, changes: dict[str, str], arguments: list[str], code: int
) -> None:
    """2 for arguments and settings, 3 for the agent; up to the config file no status is written."""
    worker = start(environment(DEAD_RELAY, tmp_path, **changes), tmp_path, *arguments)
    assert await worker.ended() == code
    assert "agent-connect: " in worker.output()
    assert "Traceback" not in worker.output()
    assert bool(worker.status) is not bool(arguments)


async def test_a_second_worker_on_a_workspace_is_4_and_writes_nothing(tmp_path: Path) -> None:
    """The sentence names who holds it; the status file stays the holder's."""
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path, AGENT_CONNECT_STATUS_HEARTBEAT="600") as worker,
    ):
        await until(lambda: bool(worker.status.get("agent")), "the holder's last news")
        (tmp_path / "second").mkdir()
        env = environment(relay.token, tmp_path, AGENT_CONNECT_INSTANCE="other")
        second = start(env, tmp_path / "second")
        assert await second.ended() == 4
        assert f"pid {worker.process.pid}" in second.output()
        assert "AGENT_CONNECT_WORKSPACE" in second.output()
        now = worker.status
        assert (now["pid"], now["instance"]) == (worker.process.pid, "default")
        assert "demonstration" in (await relay.relay.ask(relay.room, relay.owner, "hi", 60) or "")
