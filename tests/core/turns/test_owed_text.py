"""A first message that could not be mended when its answer was ready."""

import pytest

from agentconnect.core.turns.answer import Ending, EndingKind
from agentconnect.core.turns.ladder import Ladder
from agentconnect.core.turns.moves import (
    Begin,
    Command,
    Complete,
    Completed,
    Compose,
    Composed,
    Edit,
    LadderRules,
    OpDone,
    Post,
    Settle,
    State,
    Tick,
)

HOUR_S = 3600.0
AWAY = OpDone(ok=False)
ENDING = Ending(kind=EndingKind.ANSWER, body="42", shown="42", pointer="below", no_send="[no-send]")


class Turn:
    """A ladder whose room takes no edit until ``back_at``."""

    def __init__(self, back_at: float) -> None:
        self.back_at = back_at
        self.now = 0.0
        self.ladder = Ladder(LadderRules())
        self.texts: list[str] = []
        self.edits = 0
        self._do(self.ladder.handle(Begin(room=True), self.now))
        self._do(self.ladder.handle(Settle(), self.now))

    def until(self, end: float) -> None:
        """Let the time pass, tick by tick."""
        while (at := self.ladder.wake_at) is not None and at <= end:
            self.now = max(self.now, at)
            self._do(self.ladder.handle(Tick(), self.now))

    def _do(self, commands: tuple[Command, ...]) -> None:
        for command in commands:
            match command:
                case Post():
                    self._do(self.ladder.handle(OpDone(ok=True, event_id="$p"), self.now))
                case Edit(body=body):
                    self.edits += 1
                    here = self.now >= self.back_at
                    self.texts += [body] * here
                    done = OpDone(ok=True, event_id="$p") if here else AWAY
                    self._do(self.ladder.handle(done, self.now))
                case Compose():
                    self._do(self.ladder.handle(Composed(ending=ENDING), self.now))
                case Complete():
                    self._do(self.ladder.handle(Completed(), self.now))
                case _:
                    pass


@pytest.mark.parametrize("hours", [1, 3, 12, 24])
def test_it_is_mended_when_the_relay_is_back(hours: int) -> None:
    """However long the night was, "on it" does not stay, and what is owed is known until then."""
    turn = Turn(back_at=hours * HOUR_S)
    turn.until(hours * HOUR_S - 1)
    assert State.OWING is turn.ladder.state
    assert turn.ladder.debt is not None
    assert turn.edits < 100 + 13 * hours
    turn.until(hours * HOUR_S + 600)
    assert 1 == len(turn.texts)
    assert turn.ladder.closed
    assert turn.ladder.debt is None


def test_a_room_that_never_takes_it_is_left_alone() -> None:
    """After two days of trying the turn is over, too."""
    turn = Turn(back_at=float("inf"))
    turn.until(48 * HOUR_S)
    assert turn.ladder.closed
    assert [] == turn.texts
