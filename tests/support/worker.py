"""The worker as a real process: started as a user would, watched by its status file."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import trio

DEMO = f"{sys.executable} -m agentconnect.demo"
LIMIT_S = 120.0


async def until(
    check: Callable[[], bool | Awaitable[bool]], what: str, limit_s: float = LIMIT_S
) -> None:
    """Wait for a state; fails with ``what`` after ``limit_s``."""
    with trio.move_on_after(limit_s):
        while True:
            found = check()
            if found if isinstance(found, bool) else await found:
                return
            await trio.sleep(0.02)
    raise AssertionError(f"did not come: {what}")


class Worker:
    """One ``python -m agentconnect``."""

    def __init__(self, process: subprocess.Popen[bytes], state_dir: Path, log: Path) -> None:
        self.process = process
        self.state_dir = state_dir
        self.log = log

    @property
    def status(self) -> dict[str, Any]:
        """The status file as a supervisor reads it; empty before it is there."""
        try:
            found: dict[str, Any] = json.loads((self.state_dir / "status.json").read_text())
        except FileNotFoundError:
            return {}
        return found

    def output(self) -> str:
        """What it has printed and logged."""
        return self.log.read_text(errors="replace")

    async def says(self, words: str) -> None:
        """Wait until it has logged that; a line may come a moment behind what it tells of."""
        await until(lambda: words in self.output(), f"{words!r} in its output")

    def connected(self) -> bool:
        """Serving, by this process, and polling."""
        if self.process.poll() is not None:
            raise AssertionError(f"the worker ended: {self.output()}")
        now = self.status
        relay = now.get("relay") or {}
        ours = now.get("pid") == self.process.pid
        return ours and now.get("state") == "serving" and bool(relay.get("connected"))

    async def ended(self, limit_s: float = LIMIT_S) -> int:
        """Its exit code, once it has ended."""
        await until(lambda: self.process.poll() is not None, "the worker's end", limit_s)
        return self.process.wait()

    async def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to stop; its exit code."""
        self.process.send_signal(number)
        return await self.ended()

    async def kill(self) -> None:
        """``kill -9``."""
        self.process.kill()
        await self.ended()

    def children(self) -> list[int]:
        """The pids of its direct children."""
        return children_of(self.process.pid)


def children_of(pid: int) -> list[int]:
    """Direct children of a process, by the kernel."""
    found: list[int] = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            found += [int(word) for word in tasks.read_text().split()]
    return found


def shown(pid: int, part: str) -> bytes:
    """What the kernel shows of a process: ``cmdline``, ``environ``; nothing of one that is gone."""
    try:
        return Path(f"/proc/{pid}/{part}").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return fields[0] != "Z"


def environment(token: str, folder: Path, **settings: str) -> dict[str, str]:
    """What a worker is started with: its token, folders of the test's own, the bundled agent."""
    repo = folder / "repo"
    repo.mkdir(exist_ok=True)
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith("AGENT_CONNECT_")},
        "AGENT_CONNECT_TOKEN": token,
        "AGENT_CONNECT_ADAPTER": "acp",
        "AGENT_CONNECT_ACP_COMMAND": DEMO,
        "AGENT_CONNECT_REPO": str(repo),
        "AGENT_CONNECT_WORKSPACE": str(folder / "workspace"),
        "AGENT_CONNECT_DEMO_HOME": str(folder / "demo"),
        "AGENT_CONNECT_STATUS_HEARTBEAT": "0.5",
        **settings,
    }


def start(env: Mapping[str, str], folder: Path, *arguments: str) -> Worker:
    """Start one; its output goes to a file."""
    log = folder / "worker.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "agentconnect", *arguments],
            env=dict(env),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    return Worker(process, Path(env["AGENT_CONNECT_WORKSPACE"]), log)


@asynccontextmanager
async def running_worker(token: str, folder: Path, **settings: str) -> AsyncIterator[Worker]:
    """A worker that is connected; ended when the block ends."""
    worker = start(environment(token, folder, **settings), folder)
    try:
        await until(worker.connected, f"a connected worker: {worker.output()}")
        yield worker
    finally:
        with trio.CancelScope(shield=True):
            await end(worker)


async def end(worker: Worker, limit_s: float = 60.0) -> None:
    """Ask it to stop; kill it where it does not. The relay may be served by the same loop."""
    if worker.process.poll() is None:
        worker.process.terminate()
        with trio.move_on_after(limit_s):  # may end: killed below
            while worker.process.poll() is None:
                await trio.sleep(0.02)
    if worker.process.poll() is None:
        worker.process.kill()
        worker.process.wait()
