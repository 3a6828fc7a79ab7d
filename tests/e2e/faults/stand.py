"""One case of the fault suite: a relay with planned faults, a worker process, a watched agent.

Cases are independent of each other, so a test may run several side by side (``together``): most of
a case is waiting. Each claims what it says by the room's own messages and the agent's own log.
"""

import sqlite3
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import trio

from agentconnect.core.turns.wording import queued
from agentconnect.embedded.faults import Fault, Faults
from agentconnect.embedded.leases import State
from agentconnect.embedded.records import Message
from agentconnect.embedded.timing import Timing
from tests.support.relay import Relay, running_relay
from tests.support.worker import Worker, environment, start, until

PLACEHOLDER = "⏳ On it..."
AGENT = Path(__file__).parents[2] / "support" / "fault_agent.py"
LIMIT_S = 120.0
AT_ONCE = 4

# where a call of the worker is met
ACK, PLACE, EDIT, UPLOAD, RESULT = "/ack", "/messages", "/v1/room", "/media", "/v1/results"
POLL = "/v1/tasks"


class Log(Faults):
    """Faults planned by a path's end (``/v1/room`` begins other paths); when each call came."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[float, str]] = []
        self.planned: list[Fault] = []

    def take(self, method: str, path: str) -> Fault | None:
        self.calls.append((trio.current_time(), path))
        for fault in self.planned:
            if fault.times > 0 and fault.method == method and path.endswith(fault.path):
                fault.times -= 1
                return fault
        return None

    def plan(self, fault: Fault) -> Fault:
        self.planned.append(fault)
        return fault

    def times_of(self, path: str) -> list[float]:
        """When calls of a path came."""
        return [at for at, called in self.calls if called.endswith(path)]


class Stand:
    """A relay, a folder, and the worker processes started on it one after another."""

    def __init__(self, relay: Relay, faults: Faults, folder: Path) -> None:
        self.relay = relay
        self.faults = faults
        self.folder = folder
        self.log = folder / "prompts.log"
        self.repo = folder / "repo"
        self.journal = folder / "workspace" / "relay" / "default" / "journal.db"
        self.workers: list[Worker] = []

    def env(self, **settings: str) -> dict[str, str]:
        """The environment of a worker of this case."""
        command = f"{sys.executable} {AGENT} {self.log}"
        chosen = {"AGENT_CONNECT_ACP_COMMAND": command, "AGENT_CONNECT_STATUS_HEARTBEAT": "0.2"}
        return environment(self.relay.token, self.folder, **{**chosen, **settings})

    def launch(self, **settings: str) -> Worker:
        """Start a worker without waiting for it."""
        self.workers.append(start(self.env(**settings), self.folder))
        return self.worker

    async def start(self, **settings: str) -> Worker:
        """Start a worker; it is connected."""
        worker = self.launch(**settings)
        await until(worker.connected, f"a connected worker: {worker.output()}", LIMIT_S)
        return worker

    @property
    def worker(self) -> Worker:
        """The newest one."""
        return self.workers[-1]

    async def kill(self) -> None:
        """``kill -9`` of the worker."""
        await self.worker.kill()

    def plan(self, path: str, *, method: str = "POST", **how: Any) -> Fault:
        """The next call of this path meets a fault."""
        return self.faults.plan(Fault(method=method, path=path, **how))

    def prompts(self) -> list[str]:
        """The requests that the agent was given, in order, over all processes."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    def let(self, name: str) -> None:
        """Let a ``wait NAME`` go on."""
        (self.folder / name).touch()

    async def asked(self, request: str) -> None:
        """The agent has been given this request."""
        await until(lambda: request in self.prompts(), f"a prompt {request!r}", LIMIT_S)

    def of_relay(self, field: str) -> Any:
        """One field of the worker's ``relay`` block."""
        return (self.worker.status.get("relay") or {}).get(field)

    async def mine(self, room: str = "") -> list[Message]:
        """What the agent identity has in a room."""
        found = await self.relay.relay.messages(room or self.relay.room)
        return [m for m in found if m.sender == self.relay.agent]

    async def texts(self, room: str = "") -> list[str]:
        """The same, only the texts, without what was said to those who wait."""
        found = [m.body for m in await self.mine(room) if m.kind != "file"]
        return [body for body in found if body not in {queued(n) for n in range(40)}]

    async def nothing_stuck(self) -> bool:
        """No message of the room still says that the work goes on."""
        return not any(text.startswith(PLACEHOLDER) for text in await self.texts())

    async def state_of(self, event_id: str) -> str:
        """The state of a message's task."""
        tasks = await self.relay.relay.tasks_of(event_id)
        return str(tasks[0].state) if tasks else ""

    async def closed(self, event_id: str, limit_s: float = LIMIT_S) -> None:
        """The relay has the answer of a message."""

        async def is_closed() -> bool:
            return await self.state_of(event_id) == State.DONE

        await until(is_closed, f"the end of {event_id}: {self.worker.output()}", limit_s)

    async def owes(self, *, inflight: int, pending: int) -> None:
        """The status file of the newest worker says exactly this, and so does the journal."""

        async def says() -> bool:
            ours = self.worker.status.get("pid") == self.worker.process.pid
            told = self.of_relay("inflight"), self.of_relay("pending_results")
            return ours and told == (inflight, pending)

        await until(says, f"{inflight} in flight, {pending} owed: {self.worker.status}", LIMIT_S)
        assert await trio.to_thread.run_sync(open_rows, self.journal) == inflight
        assert await trio.to_thread.run_sync(open_rows, self.journal, "pending") == pending

    async def settled(self) -> None:
        """The worker owes nothing any more, by its journal and by its status."""

        async def nothing_owed() -> bool:
            if await trio.to_thread.run_sync(open_rows, self.journal):
                return False
            owed = self.of_relay("pending_results"), self.of_relay("inflight")
            return self.worker.connected() and owed == (0, 0)

        await until(nothing_owed, f"a worker that owes nothing: {self.worker.output()}", LIMIT_S)


def open_rows(journal: Path, *states: str) -> int:
    """How many tasks the journal on disk still owes something, or has in one of these states."""
    wanted = states or ("accepted", "pending")
    with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as database:
        query = f"SELECT COUNT(*) FROM tasks WHERE state IN ({', '.join('?' * len(wanted))})"
        (count,) = database.execute(query, wanted).fetchone()
    return int(count)


@asynccontextmanager
async def stand(
    folder: Path, *, faults: Faults | None = None, timing: Timing | None = None, **options: Any
) -> AsyncIterator[Stand]:
    """A case in a folder of its own; whatever it started is killed at the end."""
    await trio.Path(folder).mkdir(parents=True, exist_ok=True)
    planned = faults or Log()
    async with running_relay(folder / "relay", faults=planned, timing=timing, **options) as relay:
        case = Stand(relay, planned, folder)
        try:
            yield case
        finally:
            end(case.workers)


def end(workers: list[Worker]) -> None:
    """Kill what still runs."""
    for worker in workers:
        if worker.process.poll() is None:
            worker.process.kill()
            worker.process.wait()


async def together(*cases: Callable[[], Awaitable[None]], at_once: int = AT_ONCE) -> None:
    """Run cases side by side; the first failure is the test's."""
    limit = trio.CapacityLimiter(at_once)
    failed: list[Exception] = []

    async def one(case: Callable[[], Awaitable[None]]) -> None:
        async with limit:
            try:
                await case()
            except Exception as error:  # noqa: BLE001 - raised below, outside the group
                failed.append(error)

    async with trio.open_nursery() as running:
        for case in cases:
            running.start_soon(one, case)
    if failed:
        raise failed[0]
