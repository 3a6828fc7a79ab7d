"""The relay client's durable half against a model of a broker, under a clock that a test moves.

Journal on disk, intake, acks and outbox are the real ones; the broker is a peer in memory at the
HTTP seam. It judges each thing at the moment it happens: what must be on disk by then is read from
the file itself. A kill leaves the file as it was at that very moment.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import trio
import trio.testing

from agentconnect.core.errors import RelayError, first_cause
from agentconnect.core.relay.envelope import decode_batch
from agentconnect.core.relay.journal import IN_FLIGHT, State
from agentconnect.core.relay.prepared import ResultPayload
from agentconnect.core.task import Task, TaskId
from agentconnect.relay.acks import Acks
from agentconnect.relay.http import Answer, Call
from agentconnect.relay.intake import Intake
from agentconnect.relay.media import Media
from agentconnect.relay.outbox import Outbox
from agentconnect.store.journal import Journal, open_journal

T = TypeVar("T")
SILENCE = "[no-send]"


class Broken(AssertionError):
    """An invariant of the journal does not hold."""


def demand(holds: bool, sentence: str) -> None:
    """An invariant, as a sentence."""
    if not holds:
        raise Broken(sentence)


class Served:
    """One task as the broker knows it."""

    def __init__(self) -> None:
        self.leased = False
        self.acked = False
        self.lease = 0
        self.answer: str | None = None


class Broker:
    """Leases, answers and refusals.

    What is planned for a route happens to each task's next calls of it, so that the order in which
    tasks call changes nothing. ``no_acks``: the route is not there.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.tasks: dict[str, Served] = {}
        self.no_acks = False
        self._plan: dict[str, list[str]] = {"ack": [], "results": []}
        self._met: Counter[tuple[str, str]] = Counter()

    def plan(self, route: str, steps: Sequence[str]) -> None:
        """What becomes of the next calls of a route."""
        self._plan[route] = list(steps)
        for key in [key for key in self._met if key[0] == route]:
            del self._met[key]

    def _step(self, route: str, name: str) -> str:
        met = self._met[route, name]
        self._met[route, name] += 1
        return self._plan[route][met] if met < len(self._plan[route]) else "fine"

    def poll(self, *, replay: bool) -> bytes:
        """Everything that is not leased, under new leases; with ``replay`` all there ever was."""
        items = []
        for name, served in self.tasks.items():
            if not replay and (served.leased or served.answer is not None):
                continue
            served.leased, served.acked = True, False
            served.lease += 1
            lease = f"L{served.lease}"
            items.append(
                {"id": name, "task": f"q {name}", "channel_id": _room(name), "lease_id": lease}
            )
        return json.dumps({"tasks": items}).encode()

    async def send(self, call: Call) -> Answer:
        """One call: judged, then answered as planned."""
        world = self.world
        await trio.lowlevel.checkpoint()
        body = json.loads(call.content or b"{}")
        route = "ack" if call.path.endswith("/ack") else "results"
        if world.dead:
            raise RelayError("killed", sent=False)
        self._judge(route, body, (call.content or b"").decode())
        world.event(f"{route} arrives")
        if route == "ack" and self.no_acks:
            raise RelayError("nothing there", status=404)
        step = self._step(route, body["id"])
        if step == "refused":
            raise RelayError("no", status=500)
        if step == "busy":
            raise RelayError("busy", status=429, retry_after_s=20.0)
        reply = self._apply(route, body)
        world.event(f"{route} applied")
        if step == "lost" or world.dead:
            raise RelayError("lost")
        world.told(route, body)
        return Answer(status=200, body=json.dumps(reply).encode())

    def _judge(self, route: str, body: dict[str, Any], text: str) -> None:
        name = body["id"]
        state, result = self.world.on_disk(name)
        entry = self.world.journal.entry(TaskId(name))
        if route == "ack":
            demand(state in IN_FLIGHT or state == State.DONE, "an ack before its task was recorded")
            return
        echo = body.get("body") == SILENCE
        demand(entry is not None, "a result nobody knows")
        assert entry is not None
        if echo:
            demand(name in self.world.answers, "silence for a task that was not answered")
        else:
            demand(entry.state is State.PENDING, "retired before the relay had taken the answer")
            demand(result == text, "posted before it was recorded")
            demand(body["body"] == self.world.answers.get(name), "another answer than recorded")

    def _apply(self, route: str, body: dict[str, Any]) -> dict[str, Any]:
        served = self.tasks[body["id"]]
        if route == "ack":
            if body.get("lease_id") != f"L{served.lease}":
                raise RelayError("stale", status=404, body='{"error":"not leased: stale"}')
            served.acked = True
            return {"ok": True}
        if served.answer is not None:
            return {"ok": True, "duplicate": True}
        demand(body["body"] != SILENCE, "the room got silence in place of its answer")
        served.answer = body["body"]
        return {"ok": True}


class World:
    """The program under test, its broker, and what a model knows of both."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.broker = Broker(self)
        self.generation = 0
        self.dead = False
        self.crash_on = ""
        self.answers: dict[str, str] = {}
        """Recorded answers: what the room must read, once."""
        self.running: set[str] = set()
        """Handed over in this run and not answered."""
        self.confirmed: set[str] = set()
        """Answers whose acceptance this client was told."""
        self.handed: set[str] = set()
        """Handed over in this run, ever."""
        self.failures: list[BaseException] = []
        self.wall = 1e9
        self.journal: Journal
        self._intake: Intake
        self._outbox: Outbox
        self._life = trio.CancelScope()
        self._over = trio.Event()

    # --- the process

    async def boot(self, work: trio.Nursery) -> None:
        """Start on the file as it is, and take up what it holds."""
        self.dead = False
        self.running, self.handed = set(), set()
        self._life, self._over = trio.CancelScope(), trio.Event()
        await work.start(self._live, self.path)
        await self._guarded(self._intake.take_up)

    async def kill(self) -> None:
        """End the run; the next one finds the file as it was when it died."""
        if not self.dead:
            self._die()
        self._life.cancel()
        await self._over.wait()

    @property
    def path(self) -> Path:
        return self.folder / f"journal-{self.generation}.db"

    def event(self, what: str) -> None:
        """Something happened; this may be the moment of death."""
        if what == self.crash_on:
            self._die()

    def _die(self) -> None:
        """Keep the file as a ``kill -9`` would leave it."""
        old = self.path
        self.generation += 1
        self.crash_on = ""
        self.dead = True
        for suffix in ("", "-wal"):
            source = old.with_name(old.name + suffix)
            if source.exists():
                shutil.copy(source, self.path.with_name(self.path.name + suffix))

    async def _live(
        self, path: Path, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        http: Any = self.broker
        try:
            with self._life:
                async with open_journal(path, wall_now=lambda: self.wall) as journal:
                    self.journal = journal
                    acks = Acks(http, wanted=self._in_flight, changed=lambda: None)
                    self._outbox = Outbox(http, journal, changed=lambda: None, unit=lambda: 0.5)
                    async with trio.open_nursery() as parts:
                        self._intake = Intake(
                            http,
                            journal,
                            acks,
                            self._outbox,
                            Media(http, self.folder),
                            self.hand_over,
                            parts,
                        )
                        parts.start_soon(acks.run)
                        parts.start_soon(self._outbox.run)
                        task_status.started()
        except Exception as error:  # noqa: BLE001 - the test reports it
            self.failures.append(first_cause(error))
        finally:
            self._over.set()

    def _in_flight(self, task_id: TaskId) -> bool:
        entry = self.journal.entry(task_id)
        return entry is not None and entry.state in IN_FLIGHT

    # --- what happens

    def hand_over(self, task: Task) -> None:
        """The consumer: everything that must be so by now is judged."""
        if self.dead:
            return
        try:
            self._judge_hand_over(task)
        except Broken as error:
            self.failures.append(error)  # the intake takes a raising consumer in its stride
        self.event("handed over")
        if not self.dead:
            self.handed.add(task.id)
            self.running.add(task.id)

    def _judge_hand_over(self, task: Task) -> None:
        state, _ = self.on_disk(task.id)
        demand(state == State.ACCEPTED, "handed over before it was recorded")
        demand(task.id not in self.answers, "an answered task was run again")
        demand(task.id not in self.handed, "a task was run twice in one run")
        demand(task.body == f"q {task.id}", "a task came back changed")

    def told(self, route: str, body: dict[str, Any]) -> None:
        """The client is about to read this success."""
        if route == "results":
            self.confirmed.add(body["id"])

    async def poll(self, *, replay: bool = False, lost: bool = False) -> None:
        """One poll and its batch; with ``lost`` the batch never arrives."""
        body = self.broker.poll(replay=replay)
        if not lost:
            await self._guarded(self._intake.take, decode_batch(body))

    async def finish(self, name: str) -> None:
        """The turn of a task ends with an answer."""
        answer = f"answer to {name} of run {self.generation}"
        self.running.discard(name)
        payload = msgspec.json.encode(ResultPayload(id=name, body=answer)).decode()
        await self._guarded(self.journal.record_result, TaskId(name), payload)
        self.event("recorded")
        if self.on_disk(name)[0] == State.PENDING:
            self.answers.setdefault(name, answer)
        if not self.dead:
            self._outbox.post(TaskId(name))

    async def _guarded(self, call: Callable[..., Awaitable[Any]], *values: Any) -> None:
        """A step of the process, which may die in it."""
        try:
            await call(*values)
        except Broken as error:
            self.failures.append(error)

    def unacked(self) -> list[str]:
        """Tasks running here whose newest lease the broker believes to be nobody's."""
        return [name for name in sorted(self.running) if not self.broker.tasks[name].acked]

    def on_disk(self, name: str) -> tuple[str, str]:
        """State and result of a task in the file now."""
        with closing(sqlite3.connect(self.path)) as connection:
            row = connection.execute(
                "SELECT state, result FROM tasks WHERE id = ?", (name,)
            ).fetchone()
        return (str(row[0]), str(row[1])) if row else ("", "")

    def check(self) -> None:
        """What holds whenever nothing is under way."""
        if self.failures:
            raise self.failures[0]
        if self.dead:
            return
        counts = self.journal.counts()
        owed = set(self.answers) - self.confirmed
        pending = {entry.id for entry in self.journal.pending()}
        demand(pending <= set(self.answers), "an answer is owed that nobody gave")
        demand(owed <= pending, "an answer was forgotten before the relay had taken it")
        demand(counts.pending == len(pending), "pending_results is not what is owed")
        demand(
            counts.inflight == counts.pending + len(self.running),
            "in flight is not what is running or owed",
        )


class Theatre:
    """Runs a world in a thread of its own, step by step, under a clock that only steps move."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder)
        self.clock = trio.testing.MockClock()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait(60)

    def step(self, what: Callable[..., Awaitable[None]], *values: Any, **more: Any) -> None:
        """Do something, let everything come to rest, and judge."""

        async def act() -> None:
            await what(*values, **more)
            await self._rest()
            if self.world.dead:
                await self.world.kill()
                await self.world.boot(self._work)
                await self._rest()
            self.world.check()

        trio.from_thread.run(act, trio_token=self._token)

    async def kill(self) -> None:
        """``kill -9`` between two steps."""
        await self.world.kill()

    async def pass_time(self, seconds: float) -> None:
        """Both clocks go on."""
        self.world.wall += seconds
        self.clock.jump(seconds)

    def close(self) -> None:
        async def end() -> None:
            self._stop.set()

        trio.from_thread.run(end, trio_token=self._token)
        self._thread.join(60)

    async def _rest(self) -> None:
        while True:
            await trio.testing.wait_all_tasks_blocked()
            if not self.world.journal._database.busy:
                return  # the writer starts its thread before it is blocked
            await trio.to_thread.run_sync(time.sleep, 0.0002)

    def _run(self) -> None:
        trio.run(self._main, clock=self.clock)

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._stop = trio.Event()
        async with trio.open_nursery() as self._work:
            await self.world.boot(self._work)
            self._ready.set()
            await self._stop.wait()
            self._work.cancel_scope.cancel()


def _room(name: str) -> str:
    return f"!r{sum(name.encode()) % 3}:h"
