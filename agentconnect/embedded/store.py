"""The one door to the database: units of work, each one transaction, one after another.

A unit is a plain function of a :class:`Tx`; everything one request does is one unit, so it is all
or nothing. Small units run where they are called: they touch a few rows in memory, and waking a
thread for that costs more than the work (ADR 14). What waits for the disk (:mod:`syncs`) and what
reads or renders much runs in a thread. What a unit wakes (waiting pollers, open event streams) is
told only after its commit. Nothing above this module knows which engine is below it (design.md,
decision 14).
"""

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import trio

from agentconnect.embedded.schema import open_database
from agentconnect.embedded.syncs import Syncs

DATABASE = "relay.db"
"""The file's name in the relay's state folder."""

_BUSY_S = 0.02
_BUSY_TRIES = 250  # 5 s for a process that adds an agent beside us
_TIDY_WRITES = 1_000
_TIDY_S = 30.0

T = TypeVar("T")
Value = str | int | float


class Tx:
    """What a unit of work may do, and what it wants woken afterwards."""

    def __init__(self, connection: sqlite3.Connection, now: float, domain: str) -> None:
        self._connection = connection
        self.now = now
        self.domain = domain
        self.woken: set[str] = set()
        self.changed = False
        self.ended = False  # whether a task came to its end

    def run(self, sql: str, *values: Value) -> int:
        """Execute one statement; the number of rows it changed."""
        return self._connection.execute(sql, values).rowcount

    def one(self, kind: type[T], sql: str, *values: Value) -> T | None:
        """The first row as ``kind``, or None."""
        row = self._connection.execute(sql, values).fetchone()
        return None if row is None else msgspec.convert(dict(row), kind, strict=False)

    def all(self, kind: type[T], sql: str, *values: Value) -> list[T]:
        """Every row as ``kind``."""
        rows = self._connection.execute(sql, values)
        return [msgspec.convert(dict(row), kind, strict=False) for row in rows]

    def number(self, sql: str, *values: Value) -> int:
        """The first column of the first row as a number; 0 for none."""
        row = self._connection.execute(sql, values).fetchone()
        return 0 if row is None or row[0] is None else int(row[0])

    def text(self, sql: str, *values: Value) -> str:
        """The first column of the first row as text; ``""`` for none."""
        row = self._connection.execute(sql, values).fetchone()
        return "" if row is None or row[0] is None else str(row[0])

    def texts(self, sql: str, *values: Value) -> list[str]:
        """The first column of every row."""
        return [str(row[0]) for row in self._connection.execute(sql, values)]

    def next_seq(self) -> int:
        """The next number of the one sequence of events."""
        self.changed = True
        return self.number(
            "UPDATE counters SET value = value + 1 WHERE name = 'seq' RETURNING value"
        )


class Store:
    """The database. ``committed`` hears whom a unit woke, as soon as it is committed.

    Durability is owed to who asked for the unit, not to who sees its result: a worker may be given
    a message that a power cut then takes, since its writer was not told yet that it is kept.
    """

    def __init__(
        self,
        path: Path,
        wall: Callable[[], float],
        committed: Callable[[Tx], None],
        *,
        must_exist: bool = False,
    ) -> None:
        self._connection = open_database(path, must_exist=must_exist)
        self._connection.execute("PRAGMA synchronous=NORMAL")  # the fsyncs are ours
        self._connection.execute("PRAGMA wal_autocheckpoint=0")  # and so is moving the log
        self._path = path
        self._syncs = Syncs(path.with_name(path.name + "-wal"))
        self._wall = wall
        self._committed = committed
        self._browsing = trio.CapacityLimiter(1)
        self._browser: sqlite3.Connection | None = None
        self._moving: trio.Event | None = None
        self._untidy = 0
        self._tidied = 0.0
        self.domain = ""

    @property
    def syncs(self) -> int:
        """How many times the disk was waited for."""
        return self._syncs.count

    async def write(self, unit: Callable[[Tx], T], *, durable: bool = True) -> T:
        """Run a unit in a transaction; on any exception nothing of it has happened.

        Without ``durable`` it survives a kill, but not a power cut before the next durable one:
        for leases, acks and steps on the way, which come again by themselves.

        Cancellation: none once the unit began; it and its fsync run to their end.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        self._syncs.check()
        tx, value = await self._transact("BEGIN IMMEDIATE", unit)
        self._untidy += 1
        if tx.changed or tx.woken:
            self._committed(tx)
        if durable:
            await self._syncs.reach()
        return value

    async def read(self, unit: Callable[[Tx], T]) -> T:
        """Run a small unit that changes nothing."""
        await trio.lowlevel.checkpoint_if_cancelled()
        return (await self._transact("BEGIN", unit))[1]

    async def browse(self, unit: Callable[[Tx], T]) -> T:
        """Run a unit that reads or renders much, in a thread, beside everything else."""
        return await trio.to_thread.run_sync(self._browse, unit, limiter=self._browsing)

    async def tidy(self) -> None:
        """Move the log into the file; called by a timer. Writers wait only for its last step."""
        now = trio.current_time()
        if not self._untidy or (self._untidy < _TIDY_WRITES and now - self._tidied < _TIDY_S):
            return
        self._untidy, self._tidied = 0, now
        await trio.to_thread.run_sync(self._checkpoint, limiter=self._browsing)
        self._moving = trio.Event()
        try:  # the first commit into an emptied log waits for the disk: let it be this one
            await trio.to_thread.run_sync(self._begin_anew)
        finally:
            self._moving.set()
            self._moving = None

    async def aclose(self) -> None:
        """Close the file; the last unit has ended by then."""
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._close, limiter=self._browsing)

    async def _transact(self, begin: str, unit: Callable[[Tx], T]) -> tuple[Tx, T]:
        for tries in range(_BUSY_TRIES):
            while self._moving is not None:
                await self._moving.wait()
            try:
                return _run(self._connection, begin, unit, self._tx)
            except sqlite3.OperationalError as error:  # another process is writing
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or tries == _BUSY_TRIES - 1:
                    raise
            await trio.sleep(_BUSY_S)
        raise AssertionError("unreachable")

    def _browse(self, unit: Callable[[Tx], T]) -> T:
        return _run(self._second(), "BEGIN", unit, self._tx)[1]

    def _checkpoint(self) -> None:
        self._second().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _begin_anew(self) -> None:
        with contextlib.suppress(sqlite3.OperationalError):
            self._connection.execute("UPDATE counters SET value = value WHERE name = 'seq'")

    def _second(self) -> sqlite3.Connection:
        if self._browser is None:
            self._browser = open_database(self._path, must_exist=True, checked=True)
        return self._browser

    def _close(self) -> None:
        if self._browser is not None:
            self._browser.close()
        self._connection.close()
        self._syncs.close()

    def _tx(self, connection: sqlite3.Connection) -> Tx:
        return Tx(connection, self._wall(), self.domain)


def _run(
    connection: sqlite3.Connection,
    begin: str,
    unit: Callable[[Tx], T],
    made: Callable[[sqlite3.Connection], Tx],
) -> tuple[Tx, T]:
    tx = made(connection)
    connection.execute(begin)
    try:
        value = unit(tx)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return tx, value
