"""What a courier asks of whoever runs it, one effect at a time, and what it gets back.

The shell (or a simulation) performs each effect in full and sends its result into the generator.
It decides nothing. A run may be given up between any two effects: what it recorded is enough to
go on from.
"""

from typing import Protocol

import msgspec

from agentconnect.core.delivery.answers import Answer
from agentconnect.core.delivery.deciding import Circumstances
from agentconnect.core.delivery.ledger import BindingId, DeliveryId, Entry, Part


class World(Protocol):
    """The time, chance and conditions of a run."""

    def wall_now(self) -> float: ...

    def mono_now(self) -> float: ...

    def unit(self) -> float:
        """A random number in [0, 1)."""
        ...

    def circumstances(self) -> Circumstances: ...


class Consult(msgspec.Struct, frozen=True, kw_only=True):
    """Ask the store. → ``deciding.Known`` | ``deciding.Unreadable``."""

    id: DeliveryId
    binding: BindingId


class Scan(msgspec.Struct, frozen=True, kw_only=True):
    """Put text, names and files through the result guard. → :class:`Judged`.

    ``unfit`` where a secret is found or a file cannot be scanned; it does not quote the secret.
    Sizes and digests are those of the bytes that were scanned.
    """

    folder: str
    text: str | None
    parts: tuple[Part, ...]


class Judge(msgspec.Struct, frozen=True, kw_only=True):
    """Open these files below the binding's folder and judge them. → :class:`Judged`."""

    folder: str
    parts: tuple[Part, ...]


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What the files are: ``found`` holds (bytes, hex SHA-256) of each, in order.

    ``unfit``: why one may not go out, and ``at`` which of them; ``found`` then ends before it.
    """

    found: tuple[tuple[int, str], ...] = ()
    unfit: str = ""
    at: int = 0


class Begin(msgspec.Struct, frozen=True, kw_only=True):
    """Commit first-seen.

    → :class:`Recorded` | :class:`Full` | :class:`Stale` | ``deciding.Unreadable``.
    """

    entry: Entry


class Save(msgspec.Struct, frozen=True, kw_only=True):
    """Commit an entry's present state. → :class:`Recorded` | ``deciding.Unreadable``."""

    entry: Entry


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """It is on disk."""


class Full(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger holds as many entries as it may, and none of them may go."""


class Stale(msgspec.Struct, frozen=True, kw_only=True):
    """The binding was dropped after it was asked about; judged in the same transaction."""


class PostText(msgspec.Struct, frozen=True, kw_only=True):
    """One keyed ``POST …/messages``. → ``posting.Reply``, ``deciding.Unreadable`` (nothing sent).

    ``text`` None: the one of delivery ``id``, read from the store as it is posted. A 401 is told
    to auth recovery.
    """

    room: str
    key: str
    id: DeliveryId
    text: str | None = None


class PostFile(msgspec.Struct, frozen=True, kw_only=True):
    """One keyed ``POST …/media``. → ``posting.Reply``.

    Opened and judged again; ``Reply.unfit`` unless its bytes have the part's SHA-256.
    """

    room: str
    key: str
    folder: str
    part: Part


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Let so many seconds pass. → None."""

    seconds: float


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """Let so many seconds pass, less where ``nudgeable`` and the agent resends. → None."""

    seconds: float
    nudgeable: bool = True


class Tell(msgspec.Struct, frozen=True, kw_only=True):
    """Give this answer to everyone who waits for the delivery. → None."""

    answer: Answer


class Withdraw(msgspec.Struct, frozen=True, kw_only=True):
    """A keyed post came back without its echo: ``keyed`` is false from now on. → None."""


Effect = Consult | Scan | Judge | Begin | Save | PostText | PostFile | Wait | Idle | Tell | Withdraw
