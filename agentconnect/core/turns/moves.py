"""The vocabulary of the ladder: what can happen to it, and what it asks for (worker.md §11).

Values only; the rules are in ``ladder``.
"""

from enum import StrEnum

import msgspec

from agentconnect.core.turns.answer import Ending

WINDOW_S = 10.0  # worker.md §11.3: so long may the final edit fail before the result carries it


class LadderRules(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the ladder."""

    live: bool = True
    throttle_s: float = 3.0
    ceiling: int = 4000


# --- events


class Begin(msgspec.Struct, frozen=True, kw_only=True):
    """The turn starts. ``room``: messages can be posted; ``placeholder``: one is there already;
    ``settled``: its answer is known, so the first text is not shown again."""

    room: bool
    placeholder: str = ""
    settled: bool = False


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """A step began or ended."""

    label: str
    count: int


class Noticed(msgspec.Struct, frozen=True, kw_only=True):
    """The adapter has something to say in a message of its own."""

    text: str


class OpDone(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the one op in flight."""

    ok: bool
    event_id: str = ""
    cooling_s: float = 0.0
    status: int | None = None


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """``wake_at`` has come."""


class Settle(msgspec.Struct, frozen=True, kw_only=True):
    """The turn has ended; ``window_s`` is what the final edit may take."""

    window_s: float = WINDOW_S


class Composed(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to ``Compose``."""

    ending: Ending


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """The result is recorded."""


class Abandon(msgspec.Struct, frozen=True, kw_only=True):
    """The worker stops and this turn will be run again."""


LadderEvent = Begin | Activity | Noticed | OpDone | Tick | Settle | Composed | Completed | Abandon


# --- commands


class Post(msgspec.Struct, frozen=True, kw_only=True):
    """Room op: post a message. ``what`` and ``number`` make its key.

    ``speaks``: it addresses people, so whom it names by full id is mentioned (worker.md §20.4).
    """

    body: str
    what: str
    number: int = 0

    @property
    def speaks(self) -> bool:
        return self.what == "notice"


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """Room op: replace the placeholder's text. ``speaks``: as in ``Post``; a step never does."""

    event_id: str
    body: str
    speaks: bool = False


class SavePlaced(msgspec.Struct, frozen=True, kw_only=True):
    """Journal: the placeholder's event id."""

    event_id: str


class SaveAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Journal: the answer, before anything of it is shown."""

    body: str


class SaveEdited(msgspec.Struct, frozen=True, kw_only=True):
    """Journal: the room has the answer."""


class Compose(msgspec.Struct, frozen=True, kw_only=True):
    """Build the ending; ``unposted`` are the notices that go in front of it."""

    unposted: tuple[str, ...]


class Complete(msgspec.Struct, frozen=True, kw_only=True):
    """Hand the result out; once per ladder."""

    body: str


Command = Post | Edit | SavePlaced | SaveAnswer | SaveEdited | Compose | Complete


class State(StrEnum):
    """Where the ladder stands."""

    NEW = "new"
    OPEN = "open"
    SETTLING = "settling"
    COMPOSING = "composing"
    FINISHING = "finishing"
    COMPLETING = "completing"
    OWING = "owing"
    ABANDONING = "abandoning"
    CLOSED = "closed"


class Op(StrEnum):
    """What the op in flight is for."""

    PLACE = "place"
    RESUME = "resume"
    PROGRESS = "progress"
    NOTICE = "notice"
    FINAL = "final"
    POINTER = "pointer"
    FAREWELL = "farewell"
