"""What is measured: three kinds of worker as real processes on one embedded relay."""

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from agentconnect.embedded.faults import Fault, Faults
from agentconnect.embedded.local import EmbeddedRelay
from agentconnect.embedded.server import open_embedded

HERE = Path(__file__).parent
AGENT = f"{sys.executable} {HERE / 'echo_agent.py'}"
LIMIT_S = 120.0


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

    def __init__(self, name: str, relay: EmbeddedRelay, folder: Path) -> None:
        self.name = name
        self.relay = relay
        self.folder = folder
        self.room = self.owner = self.agent = self.token = ""
        self.process: subprocess.Popen[bytes] | None = None

    async def enrol(self) -> None:
        """An identity and a room."""
        setup = await self.relay.ensure_local(self.name, "owner")
        self.owner, self.room = setup.owner_id, setup.room_id
        self.agent, self.token = setup.agent_id, setup.agent_token

    def start(self, reference: Path | None) -> None:
        """Start the process."""
        self.folder.mkdir(parents=True, exist_ok=True)
        repo = self.folder / "repo"
        repo.mkdir(exist_ok=True)
        env = {k: v for k, v in os.environ.items() if not k.startswith("AGENT_CONNECT_")}
        env |= {
            "HOME": str(self.folder),
            "AGENT_CONNECT_TOKEN": self.token,
            "AGENT_CONNECT_ADAPTER": "acp",
            "AGENT_CONNECT_ACP_COMMAND": AGENT,
            "AGENT_CONNECT_REPO": str(repo),
            "AGENT_CONNECT_WORKSPACE": str(self.folder / "workspace"),
            "AGENT_CONNECT_SESSION_TURNS": "0",
        }
        gateway, _, secret = self.token.partition("|")
        command = {
            "ours": [sys.executable, "-m", "agentconnect"],
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

    def cpu_s(self) -> float:
        """Processor time of the worker itself, its children not counted."""
        assert self.process is not None
        total = 0
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
        return total / 1e9

    def memory_mib(self) -> float:
        """Resident memory of the worker itself."""
        assert self.process is not None
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    async def ask(self, body: str) -> float:
        """One message to its end, in seconds."""
        began = time.perf_counter()
        answer = await self.relay.ask(self.room, self.owner, body, LIMIT_S)
        if answer is None or not answer.endswith(
            body.split()[-1] if "flood" not in body else "end"
        ):
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
