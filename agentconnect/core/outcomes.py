"""Expected results as values: what became of a room op, and where an earlier run left a task."""

import msgspec


class OpResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one room op (relay-wire.md §13). Never an exception.

    ``cooling_s`` > 0: nothing was sent, ask again after so many seconds. ``maybe_sent``: the
    response was lost or carried no event id, so the op may have landed. ``echo`` says of a keyed
    post whether it was ``created`` or ``replayed``; ``state`` is the word of a 409.
    """

    ok: bool
    event_id: str = ""
    status: int | None = None
    cooling_s: float = 0.0
    maybe_sent: bool = False
    echo: str = ""
    state: str = ""
    reason: str = ""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Where an earlier run left a task, read back from the journal at start or re-serve."""

    placeholder: str = ""
    prompted: bool = False
    starts: int = 0
    """Runs of it that ended with their process."""
    answer: str = ""
    answered: bool = False
    edited: bool = False
    files: tuple[str, ...] = ()
    """What the answer brings beside the files that its markers name."""
