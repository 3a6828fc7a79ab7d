"""One session of the daemon: its prompts one after the other, its events (§6, §8, §12).

A turn's end is told first; then, and outside of the turn's cancel scope, whoever queued the prompt
learns what may be delivered of it: the final answer, or None where nothing is.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import trio

from agentconnect.core.acp.jsonrpc import BAD_LINE, repair
from agentconnect.core.daemon import events
from agentconnect.core.daemon.acp_capture import AcpCapture
from agentconnect.core.daemon.capture import END_TURN
from agentconnect.core.daemon.events import EventRing, Reader
from agentconnect.core.daemon.prompts import PromptQueue
from agentconnect.core.daemon.workspaces import Workspace
from agentconnect.daemon.ports import End, Talk
from agentconnect.turns.deadline import CANCEL_GRACE_S, Cause, Deadline

log = logging.getLogger("agentconnect.daemon")

STOP_REASONS = frozenset((END_TURN, "cancelled", "max_tokens", "max_turn_requests", "refusal"))
CLOSE_GRACE_S = 5.0
"""For the turn of a session that is closed."""

_ERRORS = {
    "agent_failed": "The agent could not finish this turn.",
    "turn_timeout": "The turn took too long and was stopped.",
    "turn_stopped": "The turn was stopped before it had ended.",
}


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a turn in seconds; ``turn_timeout_s`` 0: none."""

    turn_timeout_s: float = 600.0
    cancel_grace_s: float = CANCEL_GRACE_S


def _nothing(_final: str | None) -> None:
    """There is nothing to deliver."""


def _unheard(_kind: str, _data: Mapping[str, Any]) -> None:
    """Nobody follows what comes of turns."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt of a session. ``of`` ties its events to it; ``ended`` is called exactly once."""

    id: str
    blocks: tuple[dict[str, Any], ...]
    of: Mapping[str, Any]
    meta: dict[str, Any] = {}
    captures: bool = False
    ended: Callable[[str | None], None] = _nothing
    task_id: str = ""
    unheard: bool = False
    """Its end is no event."""

    @property
    def prompt_id(self) -> str:
        """Stands on the envelope of a prompt's events."""
        return str(self.of.get("promptId", ""))


class Session:
    """A conversation with its queue and ring. :meth:`run` is its standing task."""

    def __init__(
        self,
        session_id: str,
        workspace: Workspace,
        talk: Talk,
        pace: Pace,
        heard: Callable[[str, Mapping[str, Any]], None] = _unheard,
    ) -> None:
        """``heard`` gets the end of every turn: the event's type and its data."""
        self.id = session_id
        self._heard = heard
        self.workspace = workspace
        self.talk = talk
        self._pace = pace
        self._ring = EventRing()
        self._queue: PromptQueue[Job] = PromptQueue()
        self._wake = trio.Event()
        self._news = trio.Event()
        self._deadline: Deadline | None = None
        self.over = trio.Event()
        """Closed: nothing more is taken, and streams end."""
        self.ended = trio.Event()
        """Its last turn has ended too."""

    # --- prompts ----------------------------------------------------------------------------

    def queue(self, job: Job, *, bounded: bool = True) -> bool:
        """Queue a prompt; False: full or closed, ``ended`` is not called then."""
        if not self._queue.offer(job, bounded=bounded):
            return False
        self._wake.set()
        return True

    @property
    def full(self) -> bool:
        """No room for a client's prompt."""
        return self._queue.full

    @property
    def busy_tasks(self) -> set[str]:
        """The tasks whose fires wait or run here."""
        return {job.task_id for job in self._queue.pending() if job.task_id}

    @property
    def pending(self) -> int:
        """Prompts that wait or run."""
        return len(self._queue)

    async def cancel(self) -> None:
        """Stop the running prompt; those that wait run on."""
        if self._queue.running is not None:
            await self.talk.interrupt()

    def close(self, grace_s: float = CLOSE_GRACE_S) -> None:
        """Take nothing more; what runs has ``grace_s`` to end."""
        self.over.set()
        for job in self._queue.close():
            job.ended(None)
        if self._deadline is not None:
            self._deadline.stop(grace_s)
        self._wake.set()

    async def run(self) -> None:
        """Run prompts until it is closed and the last has ended."""
        try:
            while True:
                job = self._queue.start()
                if job is not None:
                    await self._guarded(job)
                elif self._queue.closed:
                    break
                else:
                    await self._wake.wait()
                    self._wake = trio.Event()
        finally:
            self.close()

    async def _guarded(self, job: Job) -> None:
        """The boundary of one turn."""
        final: str | None = None
        try:
            final = await self._turn(job)
        except Exception as error:  # noqa: BLE001 - this turn's alone
            log.error("session=%s a turn failed by our mistake: %s", self.id, type(error).__name__)  # noqa: TRY400
            self._tell_error(job, "agent_failed")
        finally:
            self._queue.finish(job.id)
            job.ended(final)

    async def _turn(self, job: Job) -> str | None:
        """What may be delivered of it, told of before; None: nothing."""
        capture = AcpCapture() if job.captures else None
        deadline = self._deadline = Deadline(self._pace.turn_timeout_s, self._pace.cancel_grace_s)
        end: End | None = None
        try:
            async with trio.open_nursery() as beside:
                wait = trio.CancelScope()
                beside.start_soon(deadline.watch, self.talk, wait)
                with wait:  # around the wait for the agent only
                    hear = _hearing(capture) if capture is not None else None
                    end = await self.talk.prompt(job.blocks, job.meta, hear)
                beside.cancel_scope.cancel()
        finally:
            self._deadline = None
        if end is None:
            await self.talk.kill()
        reason = end.stop_reason if end is not None else ""
        stopped = deadline.cause is not None or (end is not None and end.interrupted)
        if stopped and reason == END_TURN:
            reason = "cancelled"  # it was told to stop first: nobody waits for this answer
        final = capture.end(reason) if capture is not None else None
        if deadline.cause is Cause.TIMEOUT:
            self._tell_error(job, "turn_timeout")
        elif reason in STOP_REASONS:
            self._tell(job, events.TURN_COMPLETE, events.turn_complete(self.id, reason, job.of))
        else:
            self._tell_error(job, "turn_stopped" if stopped else "agent_failed")
        return final

    # --- events -----------------------------------------------------------------------------

    @property
    def last_event_id(self) -> int:
        """The highest event id so far; 0: none."""
        return self._ring.last_id

    def publish(self, kind: str, data: Mapping[str, Any], prompt_id: str = "") -> None:
        """Add an event; every stream is woken."""
        self._ring.add(kind, data, prompt_id)
        self._news.set()
        self._news = trio.Event()

    def reader(self, last_event_id: int | None) -> Reader:
        """A stream's view of the events."""
        return Reader(self._ring, last_event_id)

    async def news(self) -> None:
        """Return when an event has come or the session is over."""
        if self.over.is_set():
            return
        async with trio.open_nursery() as either:
            either.start_soon(_first, self._news, either.cancel_scope)
            either.start_soon(_first, self.over, either.cancel_scope)

    def _tell(self, job: Job, kind: str, data: Mapping[str, Any]) -> None:
        self._heard(kind, data)
        if not job.unheard:
            self.publish(kind, data, job.prompt_id)

    def _tell_error(self, job: Job, code: str) -> None:
        data = events.turn_error(self.id, _ERRORS[code], code, job.of)
        self._tell(job, events.TURN_ERROR, data)


async def _first(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def _hearing(capture: AcpCapture) -> Callable[[msgspec.Raw], None]:
    """Feed a turn's updates to its capture; one that cannot be read counts for nothing."""

    def hear(raw: msgspec.Raw) -> None:
        for text in (raw, None):
            try:
                capture.see(msgspec.json.decode(raw if text is not None else repair(raw)))
            except BAD_LINE:
                continue
            return

    return hear
