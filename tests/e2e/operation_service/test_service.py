"""The installed service, run without its manager: the unit's own ExecStart and environment."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from tests.installer.rig import ROOT, Machine, machine
from tests.support.relay import running_relay
from tests.support.worker import DEMO, Worker, alive, until

__all__ = ["machine"]


def configure(machine: Machine, token: str, *more: str) -> None:
    """Write the config file of a worker with the bundled agent."""
    (machine.home / "repo").mkdir()
    machine.folder.mkdir(mode=0o700)
    machine.config.write_text(
        f'AGENT_CONNECT_TOKEN="{token}"\nAGENT_CONNECT_ADAPTER=acp\n'
        f'AGENT_CONNECT_ACP_COMMAND="{DEMO}"\nAGENT_CONNECT_REPO={machine.home}/repo\n'
        + "".join(f"{line}\n" for line in more)
    )
    machine.config.chmod(0o600)


def unit_words(text: str, name: str) -> list[str]:
    """The values of a unit's key, as systemd reads them (no ``$`` and no ``%`` in this test)."""
    return [
        word for line in re.findall(rf"^{name}=(.*)$", text, re.M) for word in shlex.split(line)
    ]


class Manager:
    """systemd's part for one service: environment, notify socket, main pid."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.machine = machine
        self.address = str(folder / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.address)
        self.socket.setblocking(False)
        self.told: list[str] = []

    def start(self, folder: Path, *, watchdog_usec: int = 0) -> Worker:
        """The unit's command under exactly the unit's environment, as ``env -i`` would."""
        text = self.machine.unit.read_text()
        variables = [f"HOME={self.machine.home}", f"NOTIFY_SOCKET={self.address}"]
        if watchdog_usec:
            variables.append(f"WATCHDOG_USEC={watchdog_usec}")
        log = folder / "service.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                ["env", "-i", *variables, *unit_words(text, "Environment"),
                 *unit_words(text, "ExecStart")],
                cwd=self.machine.home, stdin=subprocess.DEVNULL, stdout=out,
                stderr=subprocess.STDOUT,
            )  # fmt: skip
        return Worker(process, self.machine.folder / "workspace", log)

    def hear(self) -> list[str]:
        """All that was told so far, a line each."""
        while True:
            try:
                self.told += self.socket.recv(4096).decode().splitlines()
            except BlockingIOError:
                return self.told

    def heard(self, line: str) -> bool:
        return line in self.hear()


@pytest.fixture
def manager(machine: Machine, tmp_path: Path) -> Iterator[Manager]:
    """A manager that hears what its service tells."""
    made = Manager(machine, tmp_path)
    yield made
    made.socket.close()


@asynccontextmanager
async def ending(worker: Worker) -> AsyncIterator[Worker]:
    """It is gone when the block is left."""
    try:
        yield worker
    finally:
        if worker.process.poll() is None:
            worker.process.kill()
            worker.process.wait()


async def test_the_installed_unit_serves_under_nothing_but_its_own_environment(
    machine: Machine, manager: Manager, tmp_path: Path
) -> None:
    """Installed, started by its ExecStart line, asked in a room, stopped; each of it told."""
    async with running_relay(tmp_path / "relay") as relay:
        configure(machine, relay.token)
        done = await trio.to_thread.run_sync(machine.worker, "service", "install")
        assert 0 == done.returncode, done.stderr
        async with ending(manager.start(tmp_path)) as worker:
            await until(worker.connected, f"a connected worker: {worker.output()}")
            assert manager.heard("READY=1")
            assert "serving" == worker.status["state"]
            event_id = await relay.say("hello")
            assert "demonstration" in await relay.relay.answer_to(event_id)
            assert relay.secret not in _arguments(worker)
            assert 0 == await worker.stop(signal.SIGTERM)
        assert manager.heard("STOPPING=1")
        assert manager.told.index("READY=1") < manager.told.index("STOPPING=1")
        assert "stopped" == worker.status["state"]
        assert relay.secret not in worker.output()


async def test_ready_is_told_only_once_it_serves(
    machine: Machine, manager: Manager, tmp_path: Path
) -> None:
    """Not while the agent is being tried; a start that is refused never says it."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    agent = machine.bin / "slow-agent"
    machine.program("slow-agent", f'#!/bin/sh\nread -r _ <"{gate}"\nexec {DEMO}\n')
    async with running_relay(tmp_path / "relay") as relay:
        configure(machine, relay.token)
        text = machine.config.read_text().replace(DEMO, str(agent))
        machine.config.write_text(text)
        await trio.to_thread.run_sync(machine.worker, "service", "install")
        async with ending(manager.start(tmp_path)) as worker:
            # the agent is at its gate once the pipe has a reader
            await trio.to_thread.run_sync(_open_gate, gate, worker, manager)
            await until(lambda: manager.heard("READY=1"), "READY=1")
            await until(lambda: worker.status["state"] == "serving", "a serving worker")
            assert 0 == await worker.stop()


def _open_gate(gate: Path, worker: Worker, manager: Manager) -> None:
    with gate.open("w") as pipe:
        assert worker.status["state"] == "starting"
        assert "READY=1" not in manager.hear()
        pipe.write("go\n")


async def test_a_stopped_loop_feeds_no_watchdog(
    machine: Machine, manager: Manager, tmp_path: Path
) -> None:
    """Fed while it runs; with the process halted nothing more comes; then it goes on."""
    async with running_relay(tmp_path / "relay") as relay:
        configure(machine, relay.token)
        await trio.to_thread.run_sync(machine.worker, "service", "install")
        async with ending(manager.start(tmp_path, watchdog_usec=100_000)) as worker:
            await until(worker.connected, f"a connected worker: {worker.output()}")
            await until(lambda: manager.hear().count("WATCHDOG=1") > 2, "a fed watchdog")
            worker.process.send_signal(signal.SIGSTOP)
            await until(lambda: _state(worker.process.pid) == "T", "a halted process")
            fed = manager.hear().count("WATCHDOG=1")
            await trio.sleep(0.5)  # ten feedings would have come
            assert fed == manager.hear().count("WATCHDOG=1")
            worker.process.send_signal(signal.SIGCONT)
            await until(lambda: manager.hear().count("WATCHDOG=1") > fed, "a fed watchdog again")


def _arguments(worker: Worker) -> str:
    return Path(f"/proc/{worker.process.pid}/cmdline").read_text()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


#: The worker, with a poller that is held to be stuck after a second: an idle poll takes longer.
IMPATIENT = (
    "import agentconnect.relay.client as client; client.PROGRESS_WITHIN_S = 1.0\n"
    "from agentconnect.__main__ import main; main()"
)


async def test_a_stuck_poller_feeds_no_watchdog(
    machine: Machine, manager: Manager, tmp_path: Path
) -> None:
    """The loop turns and the poll does not come back: not fed, said once, and fed when it does."""
    async with running_relay(tmp_path / "relay") as relay:
        configure(machine, relay.token)
        log = tmp_path / "worker.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-c", IMPATIENT],
                env=machine.environment(
                    NOTIFY_SOCKET=manager.address, WATCHDOG_USEC="200000"
                ),
                cwd=machine.home, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip
        async with ending(Worker(process, machine.folder / "workspace", log)) as worker:
            await until(worker.connected, f"a connected worker: {worker.output()}")
            await until(lambda: "the watchdog is not fed" in worker.output(), "a hungry watchdog")
            fed = manager.hear().count("WATCHDOG=1")
            await relay.say("hello")
            await until(lambda: manager.hear().count("WATCHDOG=1") > fed, "a fed watchdog again")


async def test_without_a_manager_it_runs_in_the_background(
    machine: Machine, tmp_path: Path
) -> None:
    """Said, with pid and log; a second install replaces it; uninstall ends it."""
    async with running_relay(tmp_path / "relay") as relay:
        configure(machine, relay.token)

        async def service(action: str) -> str:
            done = await trio.to_thread.run_sync(
                lambda: machine.worker("service", action, FAKE_NO_BUS="1")
            )
            assert 0 == done.returncode, done.stdout + done.stderr
            return done.stdout

        def pid_in(said: str) -> int:
            found = re.search(r"serves in the background, pid (\d+)", said)
            assert found, said
            return int(found[1])

        pids: list[int] = []
        try:
            said = await service("install")
            assert "user manager cannot be reached" in said
            pids.append(pid_in(said))
            event_id = await relay.say("hello")
            assert "demonstration" in await relay.relay.answer_to(event_id)
            pids.append(pid_in(await service("install")))
            await until(lambda: not alive(pids[0]), "the first one's end")
            assert "removed" in await service("uninstall")
            await until(lambda: not alive(pids[1]), "the second one's end")
            log = (machine.folder / "agent-connect.log").read_text()
            assert relay.secret not in log
        finally:
            for pid in pids:
                if alive(pid):
                    os.kill(pid, signal.SIGKILL)


async def test_run_agent_needs_no_config_file(tmp_path: Path, machine: Machine) -> None:
    """From a checkout, with two variables alone; without an adapter it refuses."""
    script = ROOT / "scripts" / "run-agent.sh"
    async with running_relay(tmp_path / "relay") as relay:
        env = machine.environment(
            AGENTCONNECT_PYTHON=sys.executable,
            AGENT_CONNECT_TOKEN=relay.token,
            AGENT_CONNECT_ACP_COMMAND=DEMO,
        )
        refused = await trio.run_process(
            ["sh", str(script)], env=env, capture_stderr=True, check=False, cwd=machine.home
        )
        assert 2 == refused.returncode
        assert b"AGENT_CONNECT_ADAPTER" in refused.stderr
        log = tmp_path / "worker.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                ["sh", str(script)],
                env={**env, "AGENT_CONNECT_ADAPTER": "acp"},
                cwd=machine.home, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip
        async with ending(Worker(process, machine.folder / "workspace", log)) as worker:
            await until(worker.connected, f"a connected worker: {worker.output()}")
            assert 0 == await worker.stop()
