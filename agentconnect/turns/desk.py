"""Where tasks come in: finds or starts the session of a task (worker.md §5, §13, §16).

Owns the queue of all sessions and the stop of their turns. ``submit`` never waits. Invariant: every
task it takes leaves by one ``complete`` or one ``reject``; or, once the worker stops, by neither.
"""

import logging
from collections.abc import Awaitable, Callable

import trio

from agentconnect.adapters.contract import Adapter
from agentconnect.core.redaction import shapes_in
from agentconnect.core.task import SessionKey, Task, session_key_of
from agentconnect.core.turns.access import Admit, attested
from agentconnect.core.turns.guard import Scan
from agentconnect.core.turns.queueing import Queue
from agentconnect.turns.ports import ResultPort, RoomPort, TaskRecord
from agentconnect.turns.reporter import Reporter
from agentconnect.turns.session import Session, announce
from agentconnect.turns.turn import STOP_WINDOW_S, Ports, Ticket, TurnSettings, tier_name

log = logging.getLogger("agentconnect.turns")

Unattested = Callable[[str, str], Awaitable[None]]

SETTLE_S = 3.0  # beside a turn's grace: its last edit, its result, its farewell


class Desk:
    """The sessions of this worker; they live in ``work``."""

    def __init__(
        self,
        *,
        adapter: Adapter,
        rooms: RoomPort,
        results: ResultPort,
        record: TaskRecord,
        settings: TurnSettings,
        work: trio.Nursery,
        admit: Admit = attested,
        scan: Scan = shapes_in,
        unattested: Unattested | None = None,
    ) -> None:
        """``unattested`` hears the room and the sender of a task that is no collaborator's."""
        self._unattested = unattested
        self._ports = Ports(
            adapter=adapter,
            rooms=rooms,
            results=results,
            record=record,
            settings=settings,
            work=work,
            scan=scan,
        )
        self._admit = admit
        self._queue: Queue[Ticket] = Queue()
        self._sessions: dict[SessionKey, Session] = {}
        self._asides: set[trio.CancelScope] = set()
        self._announced: dict[SessionKey, trio.Event] = {}
        self._reporters: set[Reporter] = set()
        self._idle = trio.Event()
        self._idle.set()
        self._stopping = False

    def __repr__(self) -> str:
        return f"<Desk sessions={len(self._sessions)} tasks={len(self._queue)}>"

    # --- in

    def submit(self, task: Task) -> None:
        """Take one task. Synchronous: whatever it needs is started, not awaited."""
        if self._stopping or task.id in self._queue:
            log.info("task=%s not taken: %s", task.id, "stopping" if self._stopping else "known")
            return
        if not task.body.strip() and not task.attachments:
            log.info("task=%s room=%s rejected: nothing in it", task.id, task.room_id)
            self._aside(self._reject, task, "EMPTY_TASK")
            return
        admitted = self._admit(task)
        if self._unattested is not None and not admitted.collaborator:
            self._aside(self._unattested, task.room_id, task.user_id)
        key = session_key_of(task, admitted.tier, collaborator=admitted.collaborator)
        ticket = Ticket(task, key, admitted.tier, trio.current_time())
        self._idle = trio.Event() if self._idle.is_set() else self._idle
        ahead = self._queue.arrive(key, ticket)
        _log_taken(ticket, ahead)
        if ahead:
            self._announce(ticket, ahead)
        if key not in self._sessions:
            session = Session(
                key,
                self._queue,
                self._ports,
                on_reporter=self._follow,
                on_end=self._session_ended,
            )
            self._sessions[key] = session
            self._ports.work.start_soon(session.run)

    def _announce(self, ticket: Ticket, ahead: int) -> None:
        before = self._announced.get(ticket.key)
        if before is None and (front := self._queue.front(ticket.key)) is not None:
            before = front.shown
        if self._ports.record.progress(ticket.id).placeholder:
            return  # its own message is in the room already
        ticket.announced = self._announced[ticket.key] = trio.Event()
        self._aside(announce, ticket, ahead, before, self._ports)

    def _aside(self, what: Callable[..., Awaitable[None]], *args: object) -> None:
        """Start something small that a stop need not wait for."""
        scope = trio.CancelScope()

        async def run() -> None:
            with scope:  # may end: the worker has stopped
                await what(*args)
            self._asides.discard(scope)

        self._asides.add(scope)
        self._ports.work.start_soon(run)

    async def _reject(self, task: Task, reason: str) -> None:
        try:
            await self._ports.results.reject(task, reason)
        except Exception:
            log.exception("task=%s could not be rejected", task.id)

    # --- out

    def _session_ended(self, key: SessionKey) -> None:
        self._sessions.pop(key, None)
        self._announced.pop(key, None)
        if not self._sessions:
            self._idle.set()

    def _follow(self, reporter: Reporter) -> None:
        self._reporters.add(reporter)
        reporter.on_closed = self._reporters.discard

    def load(self) -> tuple[int, float]:
        """Tasks in hand, waiting ones included, and the age of the oldest in seconds."""
        tickets = (*self._queue.running(), *self._queue.waiting())
        now = trio.current_time()
        return len(tickets), max((now - ticket.arrived for ticket in tickets), default=0.0)

    def doing(self) -> str:
        """The word of its heartbeats for what this node does (relay-wire.md §3.4)."""
        return "running" if len(self._queue) else "idle"

    async def wait_idle(self) -> None:
        """Until no task is in hand (an owed pointer is no task)."""
        await self._idle.wait()

    async def stop(self, grace_s: float) -> None:
        """End every turn: its own deadline comes forward, waiting tickets are left to the re-serve.

        Returns when all are ended, or ``grace_s`` and a little later; then nothing is followed up.
        """
        self._stopping = True
        for ticket in self._queue.waiting():
            self._queue.leave(ticket.id)
        for session in self._sessions.values():
            if session.turn is not None:
                session.turn.stop(grace_s)
        with trio.move_on_after(grace_s + SETTLE_S + STOP_WINDOW_S):  # may end: the stop budget
            await self._idle.wait()
        for scope in (*self._asides, *(reporter.scope for reporter in self._reporters)):
            scope.cancel()


def _log_taken(ticket: Ticket, ahead: int) -> None:
    facts = {
        "task": ticket.id,
        "room": ticket.task.room_id,
        "tier": tier_name(ticket),
        "ahead": ahead,
        "files": len(ticket.task.attachments),
    }
    text = " ".join(f"{name}={value}" for name, value in facts.items())
    log.info("taken %s", text, extra={"facts": {"event": "taken", **facts}})
