"""Runs one ladder: performs its commands, feeds it their outcomes (worker.md §11).

Owns the room ops and journal steps of one turn, one op in flight at a time. It takes no decision:
those are ``core.turns.ladder``'s. It outlives its turn only while the placeholder is owed a
pointer. Invariant: what the ladder records is on disk before what follows from it is done.
"""

import contextlib
import hashlib
import logging
from collections import deque
from collections.abc import Callable, Iterator

import trio

from agentconnect.core.errors import AgentConnectError
from agentconnect.core.outcomes import OpResult
from agentconnect.core.task import Task, TaskId
from agentconnect.core.turns.addressing import mentioned_by
from agentconnect.core.turns.answer import Ending
from agentconnect.core.turns.guard import Inspect
from agentconnect.core.turns.ladder import Ladder
from agentconnect.core.turns.moves import (
    WINDOW_S,
    Abandon,
    Activity,
    Begin,
    Command,
    Complete,
    Completed,
    Compose,
    Composed,
    Edit,
    LadderEvent,
    LadderRules,
    Noticed,
    OpDone,
    Post,
    SaveAnswer,
    SaveEdited,
    SavePlaced,
    Settle,
    Tick,
)
from agentconnect.turns.ports import ResultPort, RoomPort, TaskRecord

log = logging.getLogger("agentconnect.turns")


def post_key(task_id: TaskId, what: str, body: str, number: int = 0) -> str:
    """A stable key of one message of one task: the same words again are the same message."""
    digest = hashlib.sha256(body.encode("utf-8", "replace")).hexdigest()[:16]
    return f"task/{task_id}/{what}/{number}/{digest}"


class Reporter:
    """The ladder of one turn. ``compose`` builds the ending from the notices left unposted."""

    def __init__(
        self,
        task: Task,
        rules: LadderRules,
        *,
        rooms: RoomPort,
        results: ResultPort,
        record: TaskRecord,
        compose: Callable[[tuple[str, ...]], Ending],
        base_dir: str,
        shown: trio.Event,
        inspect: Inspect | None = None,
    ) -> None:
        self._task = task
        self._ladder = Ladder(rules)
        self._rooms = rooms
        self._results = results
        self._record = record
        self._compose = compose
        self._base_dir = base_dir
        self._inspect = inspect
        self._files: tuple[str, ...] = ()  # what the ending brings beside its markers
        self._shown = shown
        self._inbox: deque[LadderEvent] = deque()
        self._wake = trio.Event()
        self._over = trio.Event()  # the turn has ended, one way or the other
        self._abandoned = False
        self._handed_out = False
        self._debt: tuple[str, str] | None = None
        self.scope = trio.CancelScope()  # ends when a stop gives up what is still owed
        self.completed = trio.Event()
        self.closed = trio.Event()
        self.on_closed: Callable[[Reporter], None] = lambda reporter: None

    def __repr__(self) -> str:
        return f"<Reporter {self._task.id} {self._ladder.state.value}>"

    # --- told by the turn; all synchronous

    def begin(self, *, placeholder: str, settled: bool) -> None:
        """The turn starts now."""
        room = bool(self._task.room_id)
        self._tell(Begin(room=room, placeholder=placeholder, settled=settled))

    def activity(self, label: str, count: int) -> None:
        self._tell(Activity(label=label, count=count))

    def notice(self, text: str) -> None:
        self._tell(Noticed(text=text))

    def settle(self, window_s: float = WINDOW_S) -> None:
        """The turn has ended: build the ending and deliver it."""
        self._tell(Settle(window_s=window_s))
        self._over.set()

    def abandon(self) -> None:
        """The worker stops; the message will be run again."""
        self._abandoned = True
        self._tell(Abandon())
        self._over.set()

    def _tell(self, event: LadderEvent) -> None:
        self._inbox.append(event)
        self._wake.set()

    # --- the one task

    async def run(self, after: trio.Event | None = None) -> None:
        """Climb the ladder to its end. ``after``: what has to be in the room before it.

        Cancellation: leaves the task where the journal says it is. Never raises an Exception.
        """
        with self.scope:
            try:
                if after is not None:
                    with trio.move_on_after(WINDOW_S):  # the queue message is not worth more
                        await after.wait()
                async with trio.open_nursery() as ops:
                    await self._climb(ops)
            except Exception:
                log.exception("task=%s the ladder broke", self._task.id)
                await self._rescue()
            self._shown.set()
            self.completed.set()
            self.closed.set()
        self.on_closed(self)

    async def _climb(self, ops: trio.Nursery) -> None:
        while not self._ladder.closed:
            if not self._inbox:
                await self._wait()
            event = self._inbox.popleft() if self._inbox else Tick()
            commands = self._ladder.handle(event, trio.current_time())
            await self._note_debt()
            for command in commands:
                await self._perform(command, ops)

    async def _note_debt(self) -> None:
        """What the message is owed is on disk before the task is answered, until it is paid."""
        debt = self._ladder.debt
        if debt == self._debt:
            return
        if debt is None and self._debt is not None:
            self._record.paid(self._debt[0])
        elif debt is not None:
            with self._dispensable("owing its message a text"):
                await self._record.owe(self._task.room_id, *debt)
        self._debt = debt

    async def _wait(self) -> None:
        self._wake = trio.Event()
        wake_at = self._ladder.wake_at
        if wake_at is None:
            await self._wake.wait()
            return
        with trio.move_on_at(wake_at):  # may end: a tick is due
            await self._wake.wait()

    async def _perform(self, command: Command, ops: trio.Nursery) -> None:
        task_id = self._task.id
        match command:
            case Post() | Edit():
                ops.start_soon(self._op, command)
            case SavePlaced(event_id=event_id):
                with self._dispensable("placed"):
                    await self._record.placed(task_id, event_id)
            case SaveAnswer(body=body):
                await self._record.answered(task_id, body, self._files)
            case SaveEdited():
                with self._dispensable("edited"):
                    await self._record.edited(task_id)
            case Compose(unposted=unposted):
                ending = self._compose(unposted)
                self._files = ending.files
                self._tell(Composed(ending=ending))
            case Complete(body=body):
                await self._complete(body)

    @contextlib.contextmanager
    def _dispensable(self, what: str) -> Iterator[None]:
        """A record whose loss costs a restart a second look, but never an answer."""
        try:
            yield
        except AgentConnectError as error:
            log.warning("task=%s not recorded as %s: %s", self._task.id, what, error)

    async def _op(self, command: Post | Edit) -> None:
        """One room op; the port never raises for the relay, and whatever it raises is a failure."""
        room, body = self._task.room_id, command.body
        try:
            named = mentioned_by(self._task, body) if command.speaks else ()
            if isinstance(command, Post):
                key = post_key(self._task.id, command.what, body, command.number)
                result = await self._rooms.message(room, body, mentions=named, key=key)
            else:
                result = await self._rooms.edit(room, command.event_id, body, mentions=named)
        except Exception:
            log.exception("task=%s room=%s a room op broke", self._task.id, room)
            result = OpResult(ok=False, reason="broke")
        self._shown.set()
        self._tell(
            OpDone(
                ok=result.ok,
                event_id=result.event_id,
                cooling_s=result.cooling_s,
                status=result.status,
            )
        )

    async def _complete(self, body: str) -> None:
        self._handed_out = True
        try:
            await self._results.complete(
                self._task,
                body,
                base_dir=self._base_dir,
                files=self._files,
                inspect=self._inspect,
            )
        except Exception:
            log.exception("task=%s the result could not be handed out", self._task.id)
        self.completed.set()
        self._tell(Completed())

    async def _rescue(self) -> None:
        """Whatever broke, the answer is not lost: it goes out as the result."""
        await self._over.wait()
        if self._abandoned or self._handed_out:
            return
        try:
            ending = self._compose(())
            self._files = ending.files
            await self._complete(ending.body or ("" if ending.files else ending.no_send))
        except Exception:
            log.exception("task=%s is left to be served again", self._task.id)
