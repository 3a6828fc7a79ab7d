"""What is measured: three kinds of worker as real processes on one embedded relay."""

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import trio

from agentconnect.embedded.faults import Fault, Faults
from agentconnect.embedded.local import EmbeddedRelay
from agentconnect.embedded.server import open_embedded

HERE = Path(__file__).parent
LIMIT_S = 900.0
WORKER_PYTHON = os.environ.get("AGENTCONNECT_BENCH_PYTHON") or sys.executable
"""Ours runs where only its run-time packages are, as it does at a user's."""


class Watch(Faults):
    """No faults; notes when the first poll came."""

    def __init__(self) -> None:
        super().__init__()
        self.polled = trio.Event()

    def take(self, method: str, path: str) -> Fault | None:
        if path.endswith("/v1/tasks"):
            self.polled.set()
        return super().take(method, path)


class Subject:
    """One kind of worker with an identity and rooms of its own."""

    def __init__(
        self, name: str, relay: EmbeddedRelay, folder: Path, *, agent_start_s: float = 0.0
    ) -> None:
        self.name = name
        self.relay = relay
        self.folder = folder
        self.room = self.owner = self.agent = self.token = ""
        self.process: subprocess.Popen[bytes] | None = None
        self._agent_start_s = agent_start_s

    async def enrol(self) -> None:
        """An identity and a room."""
        setup = await self.relay.ensure_local(self.name, "owner")
        self.owner, self.room = setup.owner_id, setup.room_id
        self.agent, self.token = setup.agent_id, setup.agent_token

    async def rooms(self, count: int) -> list[str]:
        """So many more rooms with this agent."""
        return [
            await self.relay.create_room(f"{self.name} {number}", self.owner, (self.agent,))
            for number in range(count)
        ]

    def start(self, reference: Path | None) -> None:
        """Start the process."""
        self.folder.mkdir(parents=True, exist_ok=True)
        repo = self.folder / "repo"
        repo.mkdir(exist_ok=True)
        env = {k: v for k, v in os.environ.items() if not k.startswith("AGENT_CONNECT_")}
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # installed programs have theirs
        env |= {
            "HOME": str(self.folder),
            "AGENT_CONNECT_TOKEN": self.token,
            "AGENT_CONNECT_ADAPTER": "acp",
            "AGENT_CONNECT_ACP_COMMAND": (
                f"{sys.executable} {HERE / 'echo_agent.py'} {self._agent_start_s}"
            ),
            "AGENT_CONNECT_REPO": str(repo),
            "AGENT_CONNECT_WORKSPACE": str(self.folder / "workspace"),
            "AGENT_CONNECT_SESSION_TURNS": "0",
        }
        gateway, _, secret = self.token.partition("|")
        command = {
            "ours": [WORKER_PYTHON, "-m", "agentconnect"],
            "reference": [str(reference), "-m", "agent_connect"],
            "floor": [sys.executable, str(HERE / "floor.py"), gateway],
        }[self.name]
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                command, env=env, stdin=subprocess.PIPE, stdout=log, stderr=log
            )
        assert self.process.stdin is not None
        if self.name == "floor":
            self.process.stdin.write(secret.encode() + b"\n")
        self.process.stdin.close()

    # --- what the kernel says of it

    def _proc(self) -> Path:
        assert self.process is not None
        return Path(f"/proc/{self.process.pid}")

    def cpu_s(self) -> float:
        """Processor time of the worker itself, its children not counted."""
        tasks = (self._proc() / "task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def memory_mib(self, what: str = "VmRSS") -> float:
        """Resident memory of the worker itself; ``VmHWM``: the most it ever had."""
        return self._status(self._proc(), what) / 1024

    def threads(self) -> int:
        """How many it has."""
        return self._status(self._proc(), "Threads")

    def wake_ups(self) -> dict[str, int]:
        """By thread: how often it went to sleep so far, and so was woken."""
        found: dict[str, int] = {}
        for task in (self._proc() / "task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended just now
                found[task.name] = self._status(task, "voluntary_ctxt_switches")
        return found

    @staticmethod
    def _status(folder: Path, field: str) -> int:
        for line in (folder / "status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1])
        raise KeyError(field)

    # --- work

    async def ask(self, body: str, room: str = "") -> float:
        """One message to its end, in seconds."""
        began = time.perf_counter()
        answer = await self.relay.ask(room or self.room, self.owner, body, LIMIT_S)
        expected = "end" if body.startswith("flood") else body.split()[-1]
        if answer is None or not answer.endswith(expected):
            log = (self.folder / "log").read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{self.name} did not answer {body!r}: {answer!r}\n{log}")
        return time.perf_counter() - began

    async def placeholders_s(self) -> list[float]:
        """From each message to its placeholder, by the relay's clock."""
        found: list[float] = []
        asked = 0.0
        for message in await self.relay.messages(self.room):
            if message.sender == self.owner:
                asked = message.ts
            elif asked:
                found.append(message.ts - asked)
                asked = 0.0
        return found

    async def stop(self) -> float:
        """SIGTERM to its end, in seconds; the floor has nothing to wind up and is killed."""
        if self.process is None:
            return 0.0
        began = time.perf_counter()
        if self.name == "floor":
            self.process.kill()
        else:
            self.process.terminate()
        process, self.process = self.process, None
        with trio.move_on_after(60):
            await trio.to_thread.run_sync(process.wait, abandon_on_cancel=True)
        if process.poll() is None:
            process.kill()
            process.wait()
        return time.perf_counter() - began


@asynccontextmanager
async def relay_at(folder: Path) -> AsyncIterator[tuple[EmbeddedRelay, Watch]]:
    """A relay of this run's own."""
    watch = Watch()
    async with open_embedded(folder, faults=watch) as relay:
        yield relay, watch


@asynccontextmanager
async def subjects_at(
    folder: Path, reference: Path | None, names: tuple[str, ...], *, agent_start_s: float = 0.0
) -> AsyncIterator[list[Subject]]:
    """Workers that have answered once, on one relay; stopped afterwards."""
    async with relay_at(folder / "relay") as (relay, _):
        found = [Subject(name, relay, folder / name, agent_start_s=agent_start_s) for name in names]
        try:
            for subject in found:
                await subject.enrol()
                subject.start(reference)
                await subject.ask("warm up")
            yield found
        finally:
            for subject in found:
                await subject.stop()


async def start_to_first_poll_s(name: str, folder: Path, reference: Path | None) -> float:
    """From the process's start to its first poll, with a relay of its own."""
    async with relay_at(folder / "relay") as (relay, watch):
        subject = Subject(name, relay, folder / name)
        await subject.enrol()
        began = time.perf_counter()
        subject.start(reference)
        try:
            with trio.fail_after(LIMIT_S):
                await watch.polled.wait()
            return time.perf_counter() - began
        finally:
            await subject.stop()
