"""A room, a journal and an agent in memory, that record what is done to them in one list."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import msgspec
import trio

from agentconnect.adapters.contract import Emit, TurnContext
from agentconnect.core.outcomes import OpResult, Progress
from agentconnect.core.task import SessionKey, Task, TaskId
from agentconnect.core.turns.access import Admit, attested
from agentconnect.core.turns.events import Done, Reason
from agentconnect.core.turns.guard import Inspect
from agentconnect.turns.desk import Desk, Unattested
from agentconnect.turns.turn import TurnSettings

Script = Callable[["FakeAgent", TurnContext, Emit], Awaitable[Done]]
PLACEHOLDER = "⏳ On it..."


def task(number: int = 1, body: str = "hello", room: str = "!r:x", **more: object) -> Task:
    """An owner's task in a room."""
    fields: dict[str, object] = {"user_id": "@owner:x", "access_tier": "owner", **more}
    raw = {"id": f"t{number}", "body": body, "room_id": room, **fields}
    return msgspec.convert(raw, Task)


class Op(msgspec.Struct, frozen=True):
    """One thing that was done, with the virtual time."""

    at: float
    what: str
    room: str
    body: str
    event_id: str = ""


class World:
    """Everything a desk touches. ``ops`` is the order in which it was touched."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.texts: dict[str, str] = {}  # event id → what the room shows
        self.keys: dict[str, str] = {}
        self.results: dict[str, str] = {}
        self.sent: dict[str, tuple[str, ...]] = {}
        self.inspects: dict[str, Inspect | None] = {}
        self.mentioned: dict[str, tuple[str, ...]] = {}  # body → whom it mentions
        self.rejected: dict[str, str] = {}
        self.progress_of: dict[TaskId, Progress] = {}
        self.debts: dict[str, tuple[str, str]] = {}
        self.message_outcomes: list[OpResult | float] = []
        self.edit_outcomes: list[OpResult | float] = []
        self.complete_fails = False
        self.prompted_s = 0.0
        self.cooling_s = 0.0
        self._count = 0

    def note(self, what: str, room: str = "", body: str = "", event_id: str = "") -> None:
        self.ops.append(Op(trio.current_time(), what, room, body, event_id))

    def did(self, *words: str, room: str | None = None) -> list[str]:
        """``word: body`` of every op of these kinds."""
        return [
            f"{op.what}: {op.body}" if op.body else op.what
            for op in self.ops
            if (not words or op.what in words) and (room is None or op.room == room)
        ]

    async def _planned(self, plan: list[OpResult | float]) -> OpResult | None:
        """A result is what the op answers; a number is the seconds it takes to succeed."""
        step = plan.pop(0) if plan else None
        if isinstance(step, int | float):
            await trio.sleep(step)
            return None
        return step

    # RoomPort

    def cooling(self, room_id: str) -> float:
        return self.cooling_s

    async def message(
        self, room_id: str, body: str, *, mentions: Sequence[str] = (), key: str = ""
    ) -> OpResult:
        assert key
        planned = await self._planned(self.message_outcomes)
        if planned is not None and not planned.ok:
            self.note("message failed", room_id, body)
            return planned
        event_id = self.keys.get(key)
        if event_id is None:
            self._count += 1
            event_id = self.keys[key] = f"$e{self._count}"
            self.texts[event_id] = body
            self.mentioned[body] = tuple(mentions)
            self.note("message", room_id, body, event_id)
        return OpResult(ok=True, event_id=event_id)

    async def edit(
        self, room_id: str, event_id: str, body: str, *, mentions: Sequence[str] = ()
    ) -> OpResult:
        assert len(body) <= 4000
        planned = await self._planned(self.edit_outcomes)
        if planned is not None and not planned.ok:
            self.note("edit failed", room_id, body, event_id)
            return planned
        self.texts[event_id] = body
        self.mentioned[body] = tuple(mentions)
        self.note("edit", room_id, body, event_id)
        return OpResult(ok=True, event_id=event_id)

    # TaskRecord

    def progress(self, task_id: TaskId) -> Progress:
        return self.progress_of.get(task_id, Progress())

    def _record(self, task_id: TaskId, what: str, body: str = "", **fields: object) -> None:
        old = self.progress(task_id)
        self.progress_of[task_id] = msgspec.structs.replace(old, **fields)
        self.note(what, body=body)

    async def placed(self, task_id: TaskId, event_id: str) -> None:
        self._record(task_id, "placed", event_id, placeholder=event_id)

    async def prompted(self, task_id: TaskId) -> None:
        await trio.sleep(self.prompted_s)
        self._record(task_id, "prompted", prompted=True)

    async def answered(self, task_id: TaskId, answer: str, files: Sequence[str] = ()) -> None:
        self._record(task_id, "answered", answer, answered=True, answer=answer, files=tuple(files))

    async def edited(self, task_id: TaskId) -> None:
        self._record(task_id, "edited", edited=True)

    async def owe(self, room: str, event_id: str, text: str) -> None:
        self.debts[event_id] = (room, text)
        self.note("owes", room, text, event_id)

    def paid(self, event_id: str) -> None:
        del self.debts[event_id]
        self.note("paid", event_id=event_id)

    # ResultPort

    async def complete(
        self,
        task: Task,
        body: str,
        *,
        base_dir: str,
        files: Sequence[str] = (),
        inspect: Inspect | None = None,
    ) -> None:
        assert base_dir == "/w"
        assert body.strip() or files
        assert not files or not body.startswith(("[REPLIED]", "[no-send]"))
        if self.complete_fails:
            raise OSError("no space")
        assert task.id not in self.results, "a second answer"
        self.results[task.id] = body
        self.inspects[task.id] = inspect
        self.sent[task.id] = tuple(files)
        self.note("result", task.room_id, body)

    async def reject(self, task: Task, reason: str) -> None:
        self.rejected[task.id] = reason
        self.note("reject", task.room_id, reason)


class FakeAgent:
    """Runs the adapter's script; knows whether it was interrupted or killed."""

    def __init__(self, adapter: FakeAdapter, key: SessionKey) -> None:
        self.adapter = adapter
        self.key = key
        self.interrupted = trio.Event()
        self.killed = False

    async def turn(self, ctx: TurnContext, emit: Emit) -> Done:
        self.adapter.open_turns[self.key] = self.adapter.open_turns.get(self.key, 0) + 1
        assert self.adapter.open_turns[self.key] == 1, "two turns at once on one session"
        self.adapter.prompts.append(ctx.prompt)
        self.adapter.contexts.append(ctx)
        try:
            return await self.adapter.script(self, ctx, emit)
        finally:
            self.adapter.open_turns[self.key] -= 1

    async def interrupt(self) -> None:
        self.adapter.interrupts.append(trio.current_time())
        self.interrupted.set()

    async def kill(self) -> None:
        self.killed = True
        self.adapter.kills.append(trio.current_time())


class FakeAdapter:
    """Satisfies ``adapters.contract.Adapter``."""

    name = "acp"
    remote = False
    shares_files = True

    def __init__(self, script: Script) -> None:
        self.script = script
        self.serves_guests = False
        self.entered: list[SessionKey] = []
        self.left = 0
        self.prompts: list[str] = []
        self.contexts: list[TurnContext] = []
        self.interrupts: list[float] = []
        self.kills: list[float] = []
        self.open_turns: dict[SessionKey, int] = {}

    async def preflight(self) -> str:
        return ""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        await trio.sleep_forever()

    def session(self, key: SessionKey) -> AbstractAsyncContextManager[FakeAgent]:
        return self._session(key)

    @asynccontextmanager
    async def _session(self, key: SessionKey) -> AsyncIterator[FakeAgent]:
        self.entered.append(key)
        try:
            yield FakeAgent(self, key)
        finally:
            self.left += 1


def says(text: str, reason: Reason = Reason.COMPLETED, *, after_s: float = 0.0) -> Script:
    """A script that answers ``text``."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        await trio.sleep(after_s)
        return Done(reason=reason, text=text)

    return script


@asynccontextmanager
async def open_desk(
    world: World,
    adapter: FakeAdapter,
    *,
    admit: Admit = attested,
    unattested: Unattested | None = None,
    **settings: object,
) -> AsyncIterator[Desk]:
    """A desk in a nursery of its own; leaving waits until no task is in hand."""
    fields = {"cwd": "/w", **settings}
    async with trio.open_nursery() as work:
        desk = Desk(
            adapter=adapter,
            rooms=world,
            results=world,
            record=world,
            settings=msgspec.convert(fields, TurnSettings),
            work=work,
            admit=admit,
            unattested=unattested,
        )
        yield desk
        await desk.wait_idle()
        work.cancel_scope.cancel()


async def run_tasks(
    world: World, script: Script, *tasks: Task, admit: Admit = attested, **settings: object
) -> FakeAdapter:
    """Submit ``tasks`` at once and wait for all of them."""
    adapter = FakeAdapter(script)
    async with open_desk(world, adapter, admit=admit, unattested=None, **settings) as desk:
        for item in tasks:
            desk.submit(item)
    return adapter
