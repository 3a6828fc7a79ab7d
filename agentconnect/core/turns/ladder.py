"""One message, from "on it" to the answer (worker.md §11).

Owns what the room is shown of one turn and in which order: placeholder, notices, progress edits,
the final step. It asks for one room op at a time and is told the outcome; the shell decides
nothing. Invariants: exactly one ``Complete``, or none after ``Abandon``; nothing is edited into
the room before ``SaveAnswer``; at most one progress edit per interval; once the answer went out as
a result, the placeholder is owed a pointer until an edit of it succeeds.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from agentconnect.core.errors import InvariantError
from agentconnect.core.turns import wording
from agentconnect.core.turns.answer import Ending, EndingKind, fits
from agentconnect.core.turns.moves import (
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
    Op,
    OpDone,
    Post,
    SaveAnswer,
    SaveEdited,
    SavePlaced,
    Settle,
    State,
    Tick,
)

POINTER_WAIT_S = 2.0  # a pointer goes before its answer, but never holds it longer than this
RETRY_S = 2.0  # between two tries of a final edit that failed without a cooldown
OWED_FIRST_S = 5.0  # first wait of an owed pointer; doubles
OWED_LAST_S = 300.0  # the longest cooldown of a room
OWED_TRIES = 300  # a day at least: a relay may be away for a night
REPLIED = "[REPLIED]\n\n"
REFUSED_FOR_GOOD = frozenset({400, 403, 404, 413})  # repeating the same edit changes nothing

Out = list[Command]
Move = Callable[[Any, Any, float, Out], None]


class Ladder:
    """The machine; ``handle`` takes one event and says what is to be done, in order."""

    def __init__(self, rules: LadderRules) -> None:
        self._rules = rules
        self.state = State.NEW
        self.placeholder = ""
        self._room = False
        self._op: Op | None = None
        self._notices: deque[str] = deque()
        self._notice = ""
        self._notice_count = 0
        self._unposted: list[str] = []
        self._step: tuple[str, int] = ("", 0)
        self._fresh = False  # a step came since the last progress edit
        self._sent = ""
        self._shown = ""
        self._edit_at = 0.0
        self._late_at = 0.0
        self._retry_at: float | None = None
        self._ending: Ending | None = None
        self._completed = False
        self._owed = ""
        self._owed_at = 0.0
        self._owed_wait_s = OWED_FIRST_S
        self._owed_tries = 0

    @property
    def busy(self) -> bool:  # an op is in flight
        return self._op is not None

    @property
    def closed(self) -> bool:
        return self.state is State.CLOSED

    @property
    def debt(self) -> tuple[str, str] | None:
        """What outlives the task: the message, and the text it is owed."""
        owing = self._completed and self._owed and self._owed_tries < OWED_TRIES
        return (self.placeholder, self._owed) if owing and self.placeholder else None

    @property
    def wake_at(self) -> float | None:
        """When a ``Tick`` is due, if no other event comes before."""
        match self.state:
            case State.OPEN if self._progress_wanted and not self.busy:
                return self._edit_at
            case State.SETTLING | State.COMPOSING:
                return self._late_at
            case State.FINISHING:
                return self._late_at if self._retry_at is None else self._retry_at
            case State.OWING if not self.busy:
                return self._owed_at
        return None

    def handle(self, event: LadderEvent, now: float) -> tuple[Command, ...]:
        """Raises: InvariantError for an event that the state does not allow."""
        step = _TABLE.get((self.state, type(event)))
        if step is None:
            state, self.state = self.state, State.CLOSED
            raise InvariantError(f"ladder: {type(event).__name__} in state {state.value}")
        out: Out = []
        step(self, event, now, out)
        return tuple(out)

    # --- running

    def _begin(self, event: Begin, now: float, out: Out) -> None:
        self.state = State.OPEN
        self._room = event.room
        self.placeholder = event.placeholder if event.room else ""
        if not event.room or event.settled:
            return
        if self.placeholder:
            self._op = Op.RESUME
            self._edit_at = now + self._rules.throttle_s
            out.append(Edit(event_id=self.placeholder, body=wording.PLACEHOLDER))
        else:
            self._op = Op.PLACE
            out.append(Post(body=wording.PLACEHOLDER, what="placeholder"))

    def _activity(self, event: Activity, now: float, out: Out) -> None:
        self._step = (event.label, event.count)
        self._fresh = True
        self._pump(now, out)

    def _noticed(self, event: Noticed, now: float, out: Out) -> None:
        if event.text.strip():
            self._notices.append(event.text.strip())
            self._pump(now, out)

    def _tick(self, _event: Tick, now: float, out: Out) -> None:
        self._pump(now, out)

    @property
    def _progress_wanted(self) -> bool:
        return bool(
            self._rules.live and self.placeholder and self._fresh and self._progress != self._shown
        )

    @property
    def _progress(self) -> str:
        return wording.progress(*self._step)

    def _pump(self, now: float, out: Out) -> None:
        """Start the next op if none is in flight: notices first, then the step, then the end."""
        if self.busy:
            return
        if self._notices and not self._room:
            self._unposted.extend(self._notices)
            self._notices.clear()
        if self._notices:
            self._notice = self._notices.popleft()
            self._notice_count += 1
            self._op = Op.NOTICE
            out.append(Post(body=self._notice, what="notice", number=self._notice_count))
        elif self.state is State.SETTLING:
            self._compose(out)
        elif self.state is State.OPEN and self._progress_wanted and now >= self._edit_at:
            self._op = Op.PROGRESS
            self._fresh = False
            self._sent = self._progress
            self._edit_at = now + self._rules.throttle_s
            out.append(Edit(event_id=self.placeholder, body=self._sent))

    def _op_done(self, event: OpDone, now: float, out: Out) -> None:
        op = self._free()
        if op is Op.PLACE and event.ok and event.event_id:
            self.placeholder = event.event_id
            out.append(SavePlaced(event_id=event.event_id))
        elif op is Op.NOTICE and not event.ok:
            self._unposted.append(self._notice)
        elif op is Op.PROGRESS and event.ok:
            self._shown = self._sent
        elif op is Op.PROGRESS and event.cooling_s > 0:
            self._fresh = True  # waited out; the newest step wins
            self._edit_at = max(self._edit_at, now + event.cooling_s)
        self._pump(now, out)

    def _free(self) -> Op:
        if self._op is None:
            raise InvariantError("ladder: an outcome without an op")
        op, self._op = self._op, None
        return op

    # --- the end

    def _settle(self, event: Settle, now: float, out: Out) -> None:
        self.state = State.SETTLING
        self._late_at = now + event.window_s
        self._pump(now, out)

    def _hurry(self, event: Settle, now: float, out: Out) -> None:
        """The worker stops: less is left of the window. Behind it there is nothing to cut."""
        self._late_at = min(self._late_at, now + event.window_s)
        if self._retry_at is not None and self._retry_at > self._late_at:
            self._retry_at = None
            self._fall_back(now, out)

    def _settling_tick(self, _event: Tick, now: float, out: Out) -> None:
        if self.busy and now >= self._late_at:
            self._unposted.extend(self._notices)
            self._notices.clear()
            self._compose(out)
        else:
            self._pump(now, out)

    def _compose(self, out: Out) -> None:
        self.state = State.COMPOSING
        out.append(Compose(unposted=tuple(self._unposted)))

    def _composing_op_done(self, event: OpDone, now: float, out: Out) -> None:
        if self._free() is Op.PLACE and event.ok and event.event_id:
            self.placeholder = event.event_id
            out.append(SavePlaced(event_id=event.event_id))

    def _composed(self, event: Composed, now: float, out: Out) -> None:
        self._ending = ending = event.ending
        if ending.kind is EndingKind.NOTHING:
            self._complete(ending.no_send, out)
        elif self.busy:  # the window passed over an op that has not come back
            self._fall_back(now, out)
        elif not self.placeholder:
            silent = ending.kind is EndingKind.SILENT
            self._complete(ending.no_send if silent else ending.body, out)
        else:
            self._finish(ending, now, out)

    def _finish(self, ending: Ending, now: float, out: Out) -> None:
        self.state = State.FINISHING
        out.append(SaveAnswer(body=ending.body))
        whole = ending.kind in (EndingKind.ANSWER, EndingKind.SILENT)
        if whole and fits(ending.shown, self._rules.ceiling):
            self._op = Op.FINAL
            out.append(Edit(event_id=self.placeholder, body=ending.shown, speaks=True))
        else:
            self._op = Op.POINTER
            self._owed = ending.pointer
            self._late_at = now + POINTER_WAIT_S
            out.append(Edit(event_id=self.placeholder, body=ending.pointer))

    def _finishing_op_done(self, event: OpDone, now: float, out: Out) -> None:
        ending = self._known_ending()
        if self._free() is Op.POINTER:
            self._pointed(event, now)
            self._complete(ending.body, out)
        elif event.ok:
            out.append(SaveEdited())
            self._complete(REPLIED + ending.shown, out)
        elif event.status in REFUSED_FOR_GOOD or (
            now + max(event.cooling_s, RETRY_S) > self._late_at
        ):
            self._fall_back(now, out, wait_s=event.cooling_s)
        else:
            self._retry_at = now + max(event.cooling_s, RETRY_S)

    def _finishing_tick(self, _event: Tick, now: float, out: Out) -> None:
        ending = self._known_ending()
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
            self._op = Op.FINAL
            out.append(Edit(event_id=self.placeholder, body=ending.shown, speaks=True))
        elif self.busy and now >= self._late_at:
            if self._op is Op.POINTER:
                self._complete(ending.body, out)
            else:
                self._fall_back(now, out)

    def _known_ending(self) -> Ending:
        if self._ending is None:
            raise InvariantError("ladder: finishing without an ending")
        return self._ending

    def _fall_back(self, now: float, out: Out, *, wait_s: float = 0.0) -> None:
        """The result carries the answer; the placeholder is owed a pointer."""
        ending = self._known_ending()
        self._owed = ending.pointer
        self._owed_at = now + max(wait_s, OWED_FIRST_S)
        silent = ending.kind is EndingKind.SILENT
        self._complete(ending.no_send if silent else ending.body, out)

    def _complete(self, body: str, out: Out) -> None:
        if self._completed:
            raise InvariantError("ladder: a second answer")
        self._completed = True
        self.state = State.COMPLETING
        out.append(Complete(body=body))

    # --- after the answer

    def _completing_op_done(self, event: OpDone, now: float, out: Out) -> None:
        op = self._free()
        if op is Op.POINTER:
            self._pointed(event, now)
        elif op is Op.PLACE and event.ok and event.event_id:
            self.placeholder = event.event_id
            self._owed_at = now
            out.append(SavePlaced(event_id=event.event_id))
        if self.state is State.OWING:
            self._owe(now, out)

    def _pointed(self, event: OpDone, now: float) -> None:
        if event.ok:
            self._owed = ""
            return
        self._owed_tries += not event.cooling_s
        self._owed_at = now + max(event.cooling_s, self._owed_wait_s)
        self._owed_wait_s = min(2 * self._owed_wait_s, OWED_LAST_S)

    def _done(self, _event: Completed, now: float, out: Out) -> None:
        self.state = State.OWING
        self._owe(now, out)

    def _owe(self, now: float, out: Out) -> None:
        """Pay what is owed, wait for it, or close."""
        if self.busy:
            return
        if not self._owed or not self.placeholder or self._owed_tries >= OWED_TRIES:
            self.state = State.CLOSED
        elif now >= self._owed_at:
            self._op = Op.POINTER
            out.append(Edit(event_id=self.placeholder, body=self._owed))

    # --- a stop

    def _abandon(self, _event: Abandon, now: float, out: Out) -> None:
        self.state = State.ABANDONING
        self._farewell(out)

    def _abandoning_op_done(self, event: OpDone, now: float, out: Out) -> None:
        op = self._free()
        if op is Op.FAREWELL:
            self.state = State.CLOSED
            return
        if op is Op.PLACE and event.ok and event.event_id:
            self.placeholder = event.event_id
            out.append(SavePlaced(event_id=event.event_id))
        self._farewell(out)

    def _farewell(self, out: Out) -> None:
        if self.busy:
            return
        if self.placeholder:
            self._op = Op.FAREWELL
            out.append(Edit(event_id=self.placeholder, body=wording.restarting()))
        else:
            self.state = State.CLOSED

    def _ignore(self, _event: LadderEvent, now: float, out: Out) -> None:
        """Comes too late to matter."""


def _table() -> dict[tuple[State, type], Move]:
    late = [state for state in State if state not in (State.NEW, State.OPEN)]
    table: dict[tuple[State, type], Move] = {
        (State.NEW, Begin): Ladder._begin,
        (State.NEW, Abandon): Ladder._abandon,
        (State.OPEN, Activity): Ladder._activity,
        (State.OPEN, Noticed): Ladder._noticed,
        (State.OPEN, Tick): Ladder._tick,
        (State.OPEN, OpDone): Ladder._op_done,
        (State.OPEN, Settle): Ladder._settle,
        (State.OPEN, Abandon): Ladder._abandon,
        (State.SETTLING, OpDone): Ladder._op_done,
        (State.SETTLING, Tick): Ladder._settling_tick,
        (State.COMPOSING, OpDone): Ladder._composing_op_done,
        (State.COMPOSING, Tick): Ladder._ignore,
        (State.COMPOSING, Composed): Ladder._composed,
        (State.FINISHING, OpDone): Ladder._finishing_op_done,
        (State.FINISHING, Tick): Ladder._finishing_tick,
        (State.COMPLETING, OpDone): Ladder._completing_op_done,
        (State.COMPLETING, Tick): Ladder._ignore,
        (State.COMPLETING, Completed): Ladder._done,
        (State.OWING, OpDone): Ladder._completing_op_done,
        (State.OWING, Tick): lambda ladder, _event, now, out: ladder._owe(now, out),
        (State.ABANDONING, OpDone): Ladder._abandoning_op_done,
        (State.ABANDONING, Tick): Ladder._ignore,
        (State.CLOSED, OpDone): Ladder._ignore,
        (State.CLOSED, Tick): Ladder._ignore,
    }
    for state in late:
        table[state, Activity] = Ladder._ignore
        table[state, Noticed] = Ladder._ignore
        table[state, Settle] = Ladder._hurry
    return table


_TABLE = _table()
