"""The durable outbox: deliveries stored before they are sent, in one file that processes share.

An entry waits, is claimed by one sender at a time, and ends once: delivered or final. Its end is
then told by a sender, at least once. Each step is one durable transaction. Every call blocks for a
disk write (milliseconds) and may be made from any thread; nothing is shared over a fork.
"""

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from agentconnect.deliver.answers import Delivered, Final, Part, Retry
from agentconnect.deliver.database import connect, translated
from agentconnect.deliver.errors import DifferentContentError, OutboxError, OutboxFullError
from agentconnect.deliver.holders import lives
from agentconnect.deliver.request import Files, request
from agentconnect.deliver.wire import Destination

RETRY_FOR_S = 23 * 3600.0
"""Counted from the first sending, while the client has named no moment (section 7)."""

UNSENT_FOR_S = 30 * 86400.0
KEEP_S = 30 * 86400.0
KEEP_AT_LEAST_S = 86400.0
MAX_WAITING = 10_000
MAX_ENDED = 10_000
LEASE_S = 900.0
"""A claim of a living process is free after this long: a worker answers within it, and sending
twice at once is harmless (the worker waits for the same run)."""

CLOCK_STEP_S = 60.0
"""A time of ours that lies further ahead means that the clock was stepped back."""

NOT_MINE = "not_mine"

_FREE = "(holder IS NULL OR held_until <= ? OR NOT lives(holder))"
_OURS = "worker NOT IN (SELECT value FROM json_each(?))"
_EXPIRE = f"""
UPDATE entry SET outcome = 'final', ended = ?, due = ?, holder = NULL, params = NULL,
  reason = iif(last = '{NOT_MINE}', last, 'expired'),
  detail = CASE WHEN attempts = 0 THEN 'It was never sent.'
    WHEN last = '' THEN 'No answer came.' ELSE 'The last try came to: ' || last END
WHERE outcome IS NULL AND deadline <= ? AND {_FREE}"""  # noqa: S608 - all of it is ours
_UNTOLD = f"""
SELECT number FROM entry WHERE outcome IS NOT NULL AND told = 0 AND due <= ? AND {_FREE}
ORDER BY due LIMIT 1"""  # noqa: S608
_WAITING = f"""
SELECT number FROM entry WHERE outcome IS NULL AND due <= ? AND {_FREE} AND {_OURS}
ORDER BY due, number LIMIT 1"""  # noqa: S608
_STEPPED = "UPDATE entry SET due = ?, marked = ? WHERE told = 0 AND marked > ? AND due > ?"
_HOLD = "UPDATE entry SET holder = ?, held_until = ?, marked = ? WHERE number = ?"
_SENT = """
UPDATE entry SET attempts = attempts + 1, first_sent = coalesce(first_sent, ?),
  deadline = iif(first_sent IS NULL, ?, deadline) WHERE number = ?"""
_WHEN = f"""
SELECT min(at) FROM (
  SELECT min(due) AS at FROM entry WHERE outcome IS NOT NULL AND told = 0 AND holder IS NULL
  UNION ALL SELECT min(due) FROM entry WHERE outcome IS NULL AND holder IS NULL AND {_OURS}
  UNION ALL SELECT min(deadline) FROM entry WHERE outcome IS NULL AND holder IS NULL
  UNION ALL SELECT min(held_until) FROM entry WHERE holder IS NOT NULL)"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Entry:
    """What the outbox knows of one delivery. Times are seconds since 1970.

    ``state``: ``waiting``, ``delivered`` or ``final``. ``reason``: why it was not delivered, or
    what the last try came to. ``first_sent`` None: never sent. ``expires``: when it stops.
    """

    id: str
    binding: str
    state: str
    reason: str
    detail: str
    delivered: tuple[Part, ...]
    queued: float
    first_sent: float | None
    expires: float
    attempts: int
    ended: float | None
    told: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """An entry that one sender holds: to send, or, once it has ended, to tell."""

    entry: Entry
    holder: str
    params: dict[str, Any]
    parts: int


class Outbox:
    """The outbox in one file. Raises: OutboxError, here and in every method."""

    def __init__(
        self, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.time
    ) -> None:
        self.path = Path(path)
        self._clock = clock
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._closed = False
        self._connection, self._inode = self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what is stored stays."""
        with self._lock:
            self._closed = True
            self._connection.close()

    def now(self) -> float:
        """The time by which entries are due, in seconds since 1970."""
        return self._clock()

    def put(
        self,
        id: str,  # noqa: A002 - the wire's word
        binding: str | Destination,
        text: str | None = None,
        files: Files = (),
        *,
        delay_s: float = 0.0,
    ) -> bool:
        """Store a delivery; it is on disk when this returns. False: it was stored already.

        The id is yours: the same for the same result, for ever; never used for another. It is not
        sent before ``delay_s`` seconds have passed.

        Raises: InvalidDeliveryError, DifferentContentError, OutboxFullError, OutboxError.
        """
        asked = request(id, binding, text, files)
        now = self._clock()
        with self._write() as run:
            known = run("SELECT fingerprint FROM entry WHERE id = ?", id).fetchone()
            if known is not None:
                if known["fingerprint"] != asked.fingerprint:
                    raise DifferentContentError(
                        f"{id!r} is stored with another binding, text or files: take a new id"
                    )
                return False
            waiting = run("SELECT count(*) FROM entry WHERE outcome IS NULL").fetchone()[0]
            if waiting >= MAX_WAITING:
                raise OutboxFullError(f"{self.path}: {waiting} deliveries wait, no more fit")
            _prune(run, now)
            run(
                "INSERT INTO entry(id, binding, worker, params, fingerprint, parts, queued, due,"
                " marked, deadline) VALUES (?,?,?,?,?,?,?,?,?,?)",
                *(id, asked.binding, _worker(asked.binding), asked.params, asked.fingerprint),
                *(asked.parts, now, now + max(0.0, delay_s), now, now + UNSENT_FOR_S),
            )
        return True

    def get(self, id: str) -> Entry | None:  # noqa: A002 - the wire's word
        """One delivery, or None: never stored, or ended more than 30 days ago."""
        rows = self._read("SELECT * FROM entry WHERE id = ?", id)
        return _entry(rows[0]) if rows else None

    def entries(self, *, waiting: bool = False) -> list[Entry]:
        """All deliveries, oldest first; only those not at their end if ``waiting``."""
        rows = self._read(
            "SELECT * FROM entry WHERE outcome IS NULL OR NOT ? ORDER BY number", waiting
        )
        return [_entry(row) for row in rows]

    def changes(self) -> object:
        """Another value after every change of the file, by whichever process. Costs no disk."""
        with self._lock, translated(self.path):
            self._own()
            version = self._connection.execute("PRAGMA data_version").fetchone()[0]
            return version, self._connection.total_changes, self._inode

    def claim(self, holder: str, not_for: frozenset[str] = frozenset()) -> Claim | None:
        """Take the next entry that is due to be sent or told; None if there is none.

        ``not_for``: the worker ids whose bindings this connection's client does not know. What
        has passed its moment ends here and is then told.
        """
        now = self._clock()
        with self._write() as run:
            run(_EXPIRE, now, now, now, now)
            found = run(_UNTOLD, now, now).fetchone()
            sends = found is None
            found = found or run(_WAITING, now, now, json.dumps(sorted(not_for))).fetchone()
            if found is None:
                run(_STEPPED, now, now, now + CLOCK_STEP_S, now)
                return None
            run(_HOLD, holder, now + LEASE_S, now, found["number"])
            if sends:
                run(_SENT, now, now + RETRY_FOR_S, found["number"])
            taken = run("SELECT * FROM entry WHERE number = ?", found["number"]).fetchone()
        params = json.loads(taken["params"]) if sends else {}
        return Claim(_entry(taken), holder, params, taken["parts"])

    def next_due(self, not_for: frozenset[str] = frozenset()) -> float | None:
        """When there will be something to claim, as things stand; None: nothing is open."""
        rows = self._read(_WHEN, json.dumps(sorted(not_for)))
        return None if rows[0][0] is None else float(rows[0][0])

    def held(self) -> bool:
        """Whether any open entry is held by a sender."""
        return bool(self._read("SELECT 1 FROM entry WHERE told = 0 AND holder IS NOT NULL LIMIT 1"))

    def end(self, claim: Claim, answer: Delivered | Final) -> None:
        """Record the end; the first one recorded stays. Telling it comes next."""
        final = isinstance(answer, Final)
        parts = [[part.part, part.event_id, part.status] for part in answer.parts]
        now = self._clock()
        with self._write() as run:
            run(
                "UPDATE entry SET outcome = ?, reason = ?, detail = ?, delivered = ?, ended = ?,"
                " due = ?, marked = ?, params = NULL, holder = NULL"
                " WHERE id = ? AND outcome IS NULL",
                "final" if final else "delivered",
                answer.reason if isinstance(answer, Final) else "",
                answer.detail if isinstance(answer, Final) else "",
                *(json.dumps(parts), now, now, now, claim.entry.id),
            )

    def retry(self, claim: Claim, answer: Retry, pause_s: float) -> None:
        """Give the entry back, to be sent again after a pause, until the moment told."""
        now = self._clock()
        latest = None if answer.expires is None else min(answer.expires, now + RETRY_FOR_S)
        with self._write() as run:
            run(
                "UPDATE entry SET holder = NULL, due = ?, marked = ?, last = ?,"
                " deadline = coalesce(?, deadline) WHERE id = ? AND holder = ?",
                *(now + pause_s, now, answer.reason, latest, claim.entry.id, claim.holder),
            )

    def release(self, claim: Claim, pause_s: float = 0.0) -> None:
        """Give the entry back as it was; it may be claimed again after a pause."""
        now = self._clock()
        with self._write() as run:
            run(
                "UPDATE entry SET holder = NULL, due = ?, marked = ? WHERE id = ? AND holder = ?",
                *(now + pause_s, now, claim.entry.id, claim.holder),
            )

    def tell(self, claim: Claim) -> None:
        """The end was told; it is kept for a while and told no more."""
        with self._write() as run:
            run("UPDATE entry SET told = 1, holder = NULL WHERE id = ?", claim.entry.id)

    def _read(self, sql: str, *values: object) -> list[sqlite3.Row]:
        with self._lock, translated(self.path):
            self._own()
            return self._connection.execute(sql, values).fetchall()

    @contextmanager
    def _write(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """One transaction, durable at its end; nothing of it happened if it raises."""

        def run(sql: str, *values: object) -> sqlite3.Cursor:
            return self._connection.execute(sql, values)

        with self._lock, translated(self.path):
            self._own()
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield run
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _open(self) -> tuple[sqlite3.Connection, tuple[int, int]]:
        connection = connect(self.path)
        connection.row_factory = sqlite3.Row
        connection.create_function("lives", 1, lives)
        with translated(self.path):
            return connection, _inode(self.path)

    def _own(self) -> None:
        """See to it that the connection is this process's, and to the file that has the name."""
        if os.getpid() != self._pid:
            raise OutboxError(f"{self.path}: open it anew after a fork, this one is the parent's")
        if not self._closed and _inode(self.path) != self._inode:
            old, (self._connection, self._inode) = self._connection, self._open()
            old.close()


def _prune(run: Callable[..., sqlite3.Cursor], now: float) -> None:
    run("DELETE FROM entry WHERE outcome IS NOT NULL AND ended < ?", now - KEEP_S)
    run(
        "DELETE FROM entry WHERE number IN (SELECT number FROM entry WHERE outcome IS NOT NULL"
        " AND told = 1 AND ended < ? ORDER BY ended DESC LIMIT -1 OFFSET ?)",
        *(now - KEEP_AT_LEAST_S, MAX_ENDED),
    )


def _inode(path: Path) -> tuple[int, int]:
    """Which file has the name; ``(0, 0)`` for none."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return 0, 0
    return about.st_dev, about.st_ino


def _worker(binding: str) -> str:
    """The id of the worker that minted a binding."""
    return binding.partition(".")[0]


def _entry(row: sqlite3.Row) -> Entry:
    return Entry(
        id=row["id"],
        binding=row["binding"],
        state=row["outcome"] or "waiting",
        reason=row["reason"] if row["outcome"] else row["last"],
        detail=row["detail"],
        delivered=tuple(Part(*part) for part in json.loads(row["delivered"])),
        queued=row["queued"],
        first_sent=row["first_sent"],
        expires=row["deadline"],
        attempts=row["attempts"],
        ended=row["ended"],
        told=row["told"] == 1,
    )
