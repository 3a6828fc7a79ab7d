"""The ladder under any order of events: its invariants as a state machine (style §2.6)."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentconnect.core.errors import InvariantError
from agentconnect.core.turns import wording
from agentconnect.core.turns.answer import Ending, EndingKind
from agentconnect.core.turns.ladder import Ladder
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
    OpDone,
    Post,
    SaveAnswer,
    SavePlaced,
    Settle,
    State,
    Tick,
)

pytestmark = pytest.mark.timeout(600)  # the nightly profile takes its time
THROTTLE_S = 3.0
ANSWER = "the answer"
OUTCOMES = st.sampled_from(
    [
        OpDone(ok=True, event_id="$p"),
        OpDone(ok=True),
        OpDone(ok=False, status=500),
        OpDone(ok=False, status=404),
        OpDone(ok=False, cooling_s=4.0),
        OpDone(ok=False, cooling_s=300.0),
    ]
)


class LadderMachine(RuleBasedStateMachine):
    """Plays the shell: performs what the ladder asks, with any outcome, at any pace."""

    def __init__(self) -> None:
        super().__init__()
        self.ladder = Ladder(LadderRules(throttle_s=THROTTLE_S))
        self.now = 1000.0
        self.room: dict[str, str] = {}  # event id → text that the room shows
        self.flight: Post | Edit | None = None
        self.completes: list[str] = []
        self.saved = ""
        self.progress_at: list[float] = []
        self.owes: list[Complete] = []
        self.kind = EndingKind.ANSWER
        self.begun = False
        self.settled_at: float | None = None
        self.abandoned = False

    def feed(self, event: LadderEvent) -> None:
        for command in self.ladder.handle(event, self.now):
            self.perform(command)

    def perform(self, command: Command) -> None:
        match command:
            case Post() | Edit():
                assert self.flight is None, "two ops at once"
                self.flight = command
                if isinstance(command, Edit):
                    self.judge_edit(command)
            case SaveAnswer(body=body):
                self.saved = body
            case SavePlaced():
                pass
            case Compose():  # the shell answers this one at once
                self.feed(Composed(ending=ending(self.kind)))
            case Complete():
                self.owes.append(command)
            case _:
                pass

    def judge_edit(self, edit: Edit) -> None:
        assert edit.event_id == "$p"
        if edit.body.startswith(wording.PLACEHOLDER):
            self.progress_at.append(self.now)
            assert self.settled_at is None
        elif ANSWER in edit.body:
            assert self.saved == ANSWER, "shown before it was recorded"

    @precondition(lambda self: not self.begun)
    @rule(room=st.booleans(), known=st.booleans())
    def begin(self, room: bool, known: bool) -> None:
        self.begun = True
        if known:
            self.room["$p"] = "from before"
        self.feed(Begin(room=room, placeholder="$p" if known else ""))

    @property
    def running(self) -> bool:
        return self.begun and self.ladder.state is State.OPEN

    @precondition(lambda self: self.begun)
    @rule(label=st.sampled_from(["read", "write"]), count=st.integers(1, 3))
    def step(self, label: str, count: int) -> None:
        self.feed(Activity(label=label, count=count))

    @precondition(lambda self: self.begun)
    @rule(text=st.sampled_from(["a notice", "another", " "]))
    def notice(self, text: str) -> None:
        self.feed(Noticed(text=text))

    @precondition(lambda self: self.flight is not None)
    @rule(outcome=OUTCOMES, after_s=st.sampled_from([0.0, 0.1, 6.0, 50.0]))
    def op_done(self, outcome: OpDone, after_s: float) -> None:
        self.pass_time(after_s)
        op, self.flight = self.flight, None
        if isinstance(op, Edit) and outcome.ok:
            self.room[op.event_id] = op.body
        elif isinstance(op, Post) and outcome.ok and op.what == "placeholder" and outcome.event_id:
            self.room[outcome.event_id] = op.body
        self.feed(outcome)

    @precondition(lambda self: self.begun)
    @rule(seconds=st.sampled_from([0.1, 1.0, 3.0, 12.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.pass_time(seconds)

    def pass_time(self, seconds: float) -> None:
        """Ticks come when they are due, never later."""
        until = self.now + seconds
        while (due := self.ladder.wake_at) is not None and due <= until:
            before = (self.ladder.state, self.flight, due)
            self.now = max(self.now, due)
            self.feed(Tick())
            assert before != (self.ladder.state, self.flight, self.ladder.wake_at), "it spins"
        self.now = until

    @precondition(lambda self: self.running)
    @rule(kind=st.sampled_from(list(EndingKind)))
    def settle(self, kind: EndingKind) -> None:
        self.kind = kind
        self.settled_at = self.now
        self.feed(Settle())

    @precondition(lambda self: self.settled_at is not None)
    @rule()
    def hurry(self) -> None:
        """The worker stops after the turn has ended."""
        self.feed(Settle(window_s=2.0))

    @precondition(lambda self: self.running)
    @rule()
    def abandon(self) -> None:
        self.abandoned = True
        self.feed(Abandon())

    @precondition(lambda self: bool(self.owes))
    @rule()
    def answer_the_ladder(self) -> None:
        self.completes.append(self.owes.pop(0).body)
        self.feed(Completed())

    @invariant()
    def at_most_one_answer_is_handed_out(self) -> None:
        assert len(self.completes) + len(self.owes) <= 1

    @invariant()
    def abandoned_means_no_answer(self) -> None:
        assert not (self.abandoned and self.completes)

    @invariant()
    def at_most_one_progress_edit_per_interval(self) -> None:
        gaps = zip(self.progress_at, self.progress_at[1:], strict=False)
        assert all(later - earlier >= THROTTLE_S - 1e-6 for earlier, later in gaps)

    @invariant()
    def replied_means_that_the_room_has_it(self) -> None:
        if self.completes and self.completes[0].startswith("[REPLIED]"):
            assert ANSWER in self.room["$p"]

    @invariant()
    def a_settled_turn_is_answered_in_time(self) -> None:
        if self.settled_at is not None and self.now > self.settled_at + 25 and not self.owes:
            assert self.completes

    @invariant()
    def closed_leaves_no_placeholder_at_its_first_text(self) -> None:
        if not self.ladder.closed or self.abandoned or self.kind is EndingKind.NOTHING:
            return
        text = self.room.get("$p", "")
        tried_often = self.now > 1000 + 3600
        assert not text.startswith(wording.PLACEHOLDER) or tried_often


def ending(kind: EndingKind) -> Ending:
    """An ending of this kind, with a text that can be found again."""
    if kind is EndingKind.NOTHING:
        return Ending(kind=kind, no_send="[no-send] nothing")
    pointer = wording.pointer_long()
    return Ending(kind=kind, body=ANSWER, shown=ANSWER, pointer=pointer, no_send="[no-send]")


TestLadder = LadderMachine.TestCase
TestLadder.settings = settings(stateful_step_count=30)


def test_absent_pair_poisons_the_machine() -> None:
    """An event that the state does not allow is our own error, and ends the ladder."""
    ladder = Ladder(LadderRules())
    with pytest.raises(InvariantError, match="Settle in state new"):
        ladder.handle(Settle(), 0.0)
    assert ladder.closed


def test_trailing_edge_shows_the_step_that_runs() -> None:
    """A long tool that began within the window is shown when the window ends."""
    ladder = Ladder(LadderRules(throttle_s=3.0))
    ladder.handle(Begin(room=True), 0.0)
    ladder.handle(OpDone(ok=True, event_id="$p"), 0.1)
    (first,) = ladder.handle(Activity(label="short", count=1), 1.0)
    ladder.handle(OpDone(ok=True), 1.1)
    assert () == ladder.handle(Activity(label="long", count=2), 1.5)
    assert ladder.wake_at == 4.0
    (second,) = ladder.handle(Tick(), 4.0)
    assert isinstance(first, Edit)
    assert isinstance(second, Edit)
    assert second.body.endswith("long (step 2)")


def test_same_body_is_not_edited_in_twice() -> None:
    """A finished step that changes nothing to be seen costs no edit."""
    ladder = Ladder(LadderRules(throttle_s=0.0))
    ladder.handle(Begin(room=True), 0.0)
    ladder.handle(OpDone(ok=True, event_id="$p"), 0.1)
    assert ladder.handle(Activity(label="read", count=1), 1.0)
    ladder.handle(OpDone(ok=True), 1.1)
    assert () == ladder.handle(Activity(label="read", count=1), 9.0)
    assert ladder.wake_at is None


def test_cooling_progress_edit_is_waited_out() -> None:
    """After a 429 the newest step is shown when the room can be spoken to."""
    ladder = Ladder(LadderRules(throttle_s=3.0))
    ladder.handle(Begin(room=True), 0.0)
    ladder.handle(OpDone(ok=True, event_id="$p"), 0.1)
    ladder.handle(Activity(label="old", count=1), 1.0)
    ladder.handle(OpDone(ok=False, cooling_s=30.0, status=429), 1.1)
    ladder.handle(Activity(label="new", count=2), 5.0)
    assert ladder.wake_at == pytest.approx(31.1)
    (edit,) = ladder.handle(Tick(), 31.1)
    assert isinstance(edit, Edit)
    assert "new" in edit.body
