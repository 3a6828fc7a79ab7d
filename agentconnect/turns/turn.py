"""One turn: one run of the local agent for one task (worker.md §5, §8.8).

Owns the order of things within a turn: the placeholder beside the agent's start, the turn's own
deadline, the ending. The room's side of it is ``reporter``. Invariants: the deadline's scope wraps
only the wait for the answer; text produced so far is never thrown away; an exception in here
becomes this task's answer and hurts nothing else.
"""

import logging
from collections.abc import Callable

import msgspec
import trio

from agentconnect.adapters.contract import Adapter, AgentSession, TurnContext
from agentconnect.core.errors import AgentConnectError, first_cause
from agentconnect.core.outcomes import Progress
from agentconnect.core.surrogates import replace_surrogates
from agentconnect.core.task import SessionKey, Task, TaskId, Tier
from agentconnect.core.turns import answer, wording
from agentconnect.core.turns.answer import Ending, Transcript
from agentconnect.core.turns.events import Done, Event, Notice, Reason
from agentconnect.core.turns.guard import ResultGuard, Scan
from agentconnect.core.turns.moves import WINDOW_S, LadderRules
from agentconnect.turns.deadline import CANCEL_GRACE_S, Cause, Deadline
from agentconnect.turns.ports import ResultPort, RoomPort, TaskRecord
from agentconnect.turns.reading import disown, guard, read
from agentconnect.turns.reporter import Reporter

log = logging.getLogger("agentconnect.turns")

STOP_WINDOW_S = 2.0  # what the last edit of a turn may take when the worker stops (§16)

MAX_STARTS = 3
"""Runs of one task that ended with their process; then its room is told instead of a fourth."""


class TurnSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of all turns. ``turn_timeout_s`` 0 means no deadline."""

    cwd: str
    live_progress: bool = True
    throttle_s: float = 3.0
    edit_ceiling: int = 4000
    turn_timeout_s: float = 600.0
    cancel_grace_s: float = CANCEL_GRACE_S
    unchecked_collaborators: bool = False


class Ports:
    """What a turn works with; the same for all of them."""

    def __init__(
        self,
        *,
        adapter: Adapter,
        rooms: RoomPort,
        results: ResultPort,
        record: TaskRecord,
        settings: TurnSettings,
        work: trio.Nursery,
        scan: Scan,
    ) -> None:
        self.adapter = adapter
        self.rooms = rooms
        self.results = results
        self.record = record
        self.settings = settings
        self.work = work
        self.scan = scan


class Ticket:
    """A task's place in the queue of its session."""

    def __init__(self, task: Task, key: SessionKey, tier: Tier, arrived: float) -> None:
        self.task = task
        self.key = key
        self.tier = tier
        self.arrived = arrived
        self.begun = False
        self.announced: trio.Event | None = None
        self.shown = trio.Event()  # its first room op is done: later messages may follow

    @property
    def id(self) -> TaskId:
        return self.task.id


def tier_name(ticket: Ticket) -> str:
    """The tier as the log calls it."""
    return "team" if ticket.key.collaborator else ticket.tier.value


def guard_of(ticket: Ticket, ports: Ports) -> ResultGuard | None:
    """The guard over what leaves this turn: a collaborator's, while its room filters (§20.5).

    Where guests are not served, whoever is not the owner is or was one: an answer that an earlier
    run left may be sent after the sender has lost that standing.
    """
    theirs = ticket.tier is not Tier.OWNER and not ports.adapter.serves_guests
    checked = ticket.task.sensitive_data_filter and not ports.settings.unchecked_collaborators
    return ResultGuard(ports.scan) if theirs and checked else None


class Turn:
    """One ticket, from its placeholder to its result."""

    def __init__(
        self, ticket: Ticket, ports: Ports, *, on_reporter: Callable[[Reporter], None]
    ) -> None:
        settings = ports.settings
        self.ticket = ticket
        self._ports = ports
        self._settings = settings
        self._on_reporter = on_reporter
        self._transcript = Transcript()
        self._done: Done | None = None
        self._quiet = False  # the answer itself says how the turn ended
        self._left = False  # nothing to show: the message will be run again
        self._guard = guard_of(ticket, ports)
        self._stored: Progress | None = None  # an answer that an earlier run left
        self._settled = False
        self._late = 0
        self._deadline = Deadline(settings.turn_timeout_s, settings.cancel_grace_s)
        self._reporter = Reporter(
            ticket.task,
            LadderRules(
                live=settings.live_progress,
                throttle_s=settings.throttle_s,
                ceiling=settings.edit_ceiling,
            ),
            rooms=ports.rooms,
            results=ports.results,
            record=ports.record,
            compose=self._compose,
            base_dir=settings.cwd,
            shown=ticket.shown,
            inspect=self._guard.file if self._guard else None,
        )

    def stop(self, grace_s: float) -> None:
        """Bring this turn's deadline forward; one that has ended has less time for its edit."""
        self._deadline.stop(grace_s)
        if self._settled:
            self._settle()

    def _settle(self) -> None:
        self._settled = True
        self._reporter.settle(STOP_WINDOW_S if self._deadline.stopping else WINDOW_S)

    def give_up(self) -> None:
        """The turn broke in a way that its own boundary did not catch: no more of its ladder."""
        self._reporter.scope.cancel()

    async def run(self) -> str:
        """Run to the result, or to nothing where a stop leaves it to the re-serve; how it ended.

        Cancellation: the task stays where the journal says it is.
        """
        task = self.ticket.task
        progress = self._ports.record.progress(task.id)
        self._stored = progress if progress.answered else None
        if progress.edited and self._stored and await self._only_result(progress):
            return "resumed"
        self._reporter.begin(placeholder=progress.placeholder, settled=bool(self._stored))
        self._on_reporter(self._reporter)
        self._ports.work.start_soon(self._reporter.run, self.ticket.announced)
        if self._stored:
            self._settle()
            await self._reporter.completed.wait()
            return "resumed"
        if (refusal := self._refusal(progress)) is not None:
            self._finish(refusal, quiet=True)
            return await self._leave()
        await self._drive()
        return await self._leave()

    async def _only_result(self, progress: Progress) -> bool:
        """The room has the answer already; only the result was not recorded."""
        ending = _stored_ending(progress)
        if ending.kind is not answer.EndingKind.ANSWER or not progress.placeholder:
            return False
        body = f"[REPLIED]\n\n{ending.shown}"
        await self._ports.results.complete(self.ticket.task, body, base_dir=self._settings.cwd)
        return True

    # --- the agent's side

    def _refusal(self, progress: Progress) -> Done | None:
        """Why the agent is not asked, as the answer."""
        task, adapter = self.ticket.task, self._ports.adapter
        served = self.ticket.tier is Tier.OWNER or self.ticket.key.collaborator
        if not served and not adapter.serves_guests:
            text = wording.guest_refusal(task.user_id, task.room_id, adapter.name)
            return Done(reason=Reason.REFUSED, text=text)
        if progress.starts >= MAX_STARTS:
            log.error("task=%s given up: its turn ended the worker each time", task.id)
            return Done(reason=Reason.FAILED, text=wording.given_up(progress.starts))
        return None

    async def _drive(self) -> None:
        """The failure boundary of the agent: whatever it raises becomes the ending."""
        try:
            async with self._ports.adapter.session(self.ticket.key) as agent:
                await self._converse(agent)
        except Exception as error:  # noqa: BLE001 - logged by _fail
            self._fail(error)
        if not self._done:
            self._finish(self._known())

    async def _converse(self, agent: AgentSession) -> None:
        done: Done | None = None
        async with trio.open_nursery() as wait:  # may end: the agent ignored the deadline
            wait.start_soon(self._deadline.watch, agent, wait.cancel_scope)
            try:
                done = await self._ask(agent)
            except Exception as error:  # noqa: BLE001 - logged by _fail
                self._fail(error)
            wait.cancel_scope.cancel()
        if not self._done:
            self._finish(self._judged(done))
        if self._deadline.killed:
            await agent.kill()

    async def _ask(self, agent: AgentSession) -> Done:
        ticket = self.ticket
        try:
            await self._ports.record.prompted(ticket.id)
        except AgentConnectError as error:
            log.warning("task=%s not recorded as prompted: %s", ticket.id, error)
        if self._deadline.passed():
            return Done(reason=Reason.CANCELLED)
        context = TurnContext(
            task=ticket.task,
            prompt=ticket.task.body.strip() or wording.files_without_words(ticket.task.attachments),
            tier=ticket.tier,
            key=ticket.key,
            cwd=self._settings.cwd,
        )
        if ticket.task.body_cut:
            self._emit(Notice(text=wording.message_cut(len(ticket.task.body))))
        done: object = await agent.turn(context, self._emit)
        if isinstance(done, Done):
            return done
        log.error("task=%s the adapter ended a turn with a %s", ticket.id, type(done).__name__)
        note = wording.no_ending(self._ports.adapter.name)
        return Done(reason=Reason.FAILED, note=note)

    def _emit(self, event: Event) -> None:
        if self._done:
            self._late += 1  # belongs to nobody: it must not reach the next answer
            return
        if self._guard is not None:
            event = self._guard.event(event)
        if isinstance(event, Notice):
            self._reporter.notice(wording.inert(replace_surrogates(event.text)))
        elif self._transcript.take(event):
            self._reporter.activity(*self._transcript.activity)

    # --- the ending

    def _judged(self, done: Done | None) -> Done:
        """What the deadline makes of the agent's own ending (worker.md §8.8, §16)."""
        cause = self._deadline.cause
        own = done or Done(reason=Reason.CANCELLED)
        if cause is None or own.reason in (
            Reason.COMPLETED,
            Reason.REFUSED,
            Reason.TOKEN_LIMIT,
        ):
            return own
        if own.told and cause is Cause.TIMEOUT:
            return own
        text = self._transcript.spoken() if own.told else self._transcript.answer(own)
        if cause is Cause.STOPPED:
            return Done(reason=Reason.CANCELLED, text=text, note=wording.stopped_note())
        note = wording.deadline_note(
            self._settings.turn_timeout_s,
            partial=bool(text),
            ended=self._deadline.killed,
            grace_s=self._settings.cancel_grace_s,
            remote=self._ports.adapter.remote,
        )
        return Done(reason=Reason.TIMEOUT, text=text, note=note)

    def _fail(self, error: Exception) -> None:
        """The worker's own error, as the answer; what was said before stays in front of it."""
        cause = first_cause(error)
        log.error("task=%s the turn broke", self.ticket.id, exc_info=cause)
        if self._done:
            return
        said = wording.worker_error(str(cause))
        text = answer.joined(self._transcript.spoken(), said)
        self._finish(Done(reason=Reason.FAILED, text=text), quiet=True)

    def _finish(self, done: Done, *, quiet: bool = False) -> None:
        """Have the ending delivered, or leave the message to be run again: the agent may take its
        time to end beside that.
        """
        self._done, self._quiet = done, quiet or done.told
        stopped = self._deadline.cause is Cause.STOPPED
        if stopped and done.reason is not Reason.COMPLETED and not self._has_text(done):
            self._left = True
            self._reporter.abandon()
        else:
            self._settle()

    async def _leave(self) -> str:
        """Wait until that is done; how the turn ended."""
        if self._left:
            with trio.move_on_after(STOP_WINDOW_S):  # best effort: the re-serve edits it anyway
                await self._reporter.closed.wait()
            return "left"
        await self._reporter.completed.wait()
        if self._late:
            log.warning("task=%s %d late events dropped", self.ticket.id, self._late)
        done, stopped = self._known(), self._deadline.cause is Cause.STOPPED
        return "stopped" if stopped and done.reason is Reason.CANCELLED else done.reason.value

    def _known(self) -> Done:
        return self._done or Done(reason=Reason.FAILED)

    def _has_text(self, done: Done) -> bool:
        return (
            bool(self._transcript.spoken()) if self._quiet else bool(self._transcript.answer(done))
        )

    def _said(self, done: Done) -> str:
        """The agent's answer; its file markers act only where its files are ours."""
        said = self._transcript.answer(done)
        return said if self._ports.adapter.shares_files else disown(said)

    def _checked(self, what: str, text: str) -> str:
        """A part of the ending, as far as this turn's guard lets it be shown."""
        return self._guard.text(what, text) if self._guard else text

    def _compose(self, unposted: tuple[str, ...]) -> Ending:
        if self._stored:
            return _stored_ending(self._stored)
        done = self._known()
        said = guard(self._checked("The answer", self._said(done)))
        marked = read(said)
        files = [item.path for item in self._transcript.files]
        ending = self._checked("The ending", answer.stop_text(done, quiet=self._quiet))
        summary = self._checked("The summary", self._transcript.summary())
        speaks = bool(marked.text.strip() or marked.files or marked.elsewhere)
        if not files and (marked.silence or not speaks):
            return answer.unanswered(
                done.reason,
                unposted=unposted,
                ending=ending,
                summary=summary,
                intended=marked.silence,
            )
        body = answer.compose(
            answer="" if marked.silence else said,
            marked=marked,
            unposted=unposted,
            ending=ending,
            summary=summary,
        )
        body = self._checked("The answer", body)
        return answer.ending_of(body, read(body), no_send="[no-send]", files=files)


def _stored_ending(progress: Progress) -> Ending:
    """The ending of an answer that an earlier run recorded."""
    body = progress.answer
    return answer.ending_of(body, read(body), no_send="[no-send]", files=progress.files)
