"""A conversation over any number of messages, pauses, crashes and moves (worker.md §12)."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agentconnect.core.task import SessionId, SessionKey, Tier
from agentconnect.core.turns.session import (
    Retired,
    SessionLimits,
    SessionRecord,
    attempt,
    idle_words,
    retired,
    touched,
)

KEY = SessionKey(room="!room:test", tier=Tier.OWNER)


class SessionMachine(RuleBasedStateMachine):
    """What the adapter does with its record, beside a count kept by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = SessionLimits()
        self.now = 1000.0
        self.cwd = "/a"
        self.record: SessionRecord | None = None
        self.opened = 0
        self.attempts = 0
        self.heard_at = 0.0
        self.opened_in = ""

    @initialize(turns=st.integers(0, 4), idle_s=st.sampled_from([0.0, 60.0, 3600.0]))
    def limit(self, turns: int, idle_s: float) -> None:
        self.limits = SessionLimits(turns=turns, idle_s=idle_s)

    @rule(seconds=st.floats(0, 5000))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(folder=st.sampled_from(["/a", "/b"]))
    def move(self, folder: str) -> None:
        self.cwd = folder

    @rule(crashes=st.booleans(), takes_s=st.floats(0, 100))
    def message(self, crashes: bool, takes_s: float) -> None:
        """One turn: continued or opened anew, counted before the prompt, touched at its end."""
        why = None
        if self.record is not None:
            why = retired(self.record, self.limits, cwd=self.cwd, wall_now=self.now)
            assert why == self.expected()
        if self.record is None or why is not None:
            self.opened += 1
            self.attempts, self.opened_in = 0, self.cwd
            session_id = SessionId(f"s{self.opened}")
            self.record = SessionRecord(key=KEY, session_id=session_id, cwd=self.cwd)
        self.record = attempt(self.record, self.now)
        self.attempts += 1
        self.heard_at = self.now
        self.now += takes_s
        if not crashes:
            self.record = touched(self.record, self.now)
            self.heard_at = self.now

    @rule()
    def restart(self) -> None:
        """The record is all that a new worker knows."""
        if self.record is not None:
            self.record = SessionRecord(
                key=KEY,
                session_id=self.record.session_id,
                cwd=self.record.cwd,
                turns=self.record.turns,
                updated_at=self.record.updated_at,
            )

    def expected(self) -> Retired | None:
        """Why the conversation is over, by the hand-kept count."""
        if self.opened_in != self.cwd:
            return Retired.CWD
        if self.limits.turns and self.attempts >= self.limits.turns:
            return Retired.BUDGET
        if self.limits.idle_s and self.now - self.heard_at > self.limits.idle_s:
            return Retired.IDLE
        return None

    @invariant()
    def attempts_are_counted_and_never_exceed_the_budget(self) -> None:
        if self.record is not None:
            assert self.attempts == self.record.turns
            assert not self.limits.turns or self.record.turns <= self.limits.turns

    @invariant()
    def a_conversation_stays_in_the_folder_it_was_opened_in(self) -> None:
        if self.record is not None:
            assert self.opened_in == self.record.cwd

    @invariant()
    def silence_is_told_in_a_unit_a_person_would_use(self) -> None:
        words = idle_words(self.now - self.heard_at)
        assert words[-1] in "smh"
        assert float(words[:-1]) >= 0


TestSession = SessionMachine.TestCase
