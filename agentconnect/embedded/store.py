"""The one door to the database: units of work, run one after another in one worker thread.

A unit is a plain function of a :class:`Tx`; everything one request does is one unit, so it costs
one thread hop and is all or nothing. What a unit wakes (waiting pollers, open event streams) is
told only after its commit. Nothing above this module knows which engine is below it (design.md,
decision 14).
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
import trio

from agentconnect.embedded.schema import open_database

DATABASE = "relay.db"
"""The file's name in the relay's state folder."""

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
        self.run("UPDATE counters SET value = value + 1 WHERE name = 'seq'")
        self.changed = True
        return self.number("SELECT value FROM counters WHERE name = 'seq'")


class Store:
    """The database with its thread. ``committed`` hears whom a unit wakes."""

    def __init__(
        self,
        path: Path,
        wall: Callable[[], float],
        committed: Callable[[frozenset[str], bool], None],
        *,
        must_exist: bool = False,
    ) -> None:
        self._connection = open_database(path, must_exist=must_exist)
        self._wall = wall
        self._committed = committed
        self._limiter = trio.CapacityLimiter(1)
        self.domain = ""

    async def write(self, unit: Callable[[Tx], T], *, durable: bool = True) -> T:
        """Run a unit in a transaction; on any exception nothing of it has happened.

        Without ``durable`` it survives a kill, but not a power cut before the next durable one:
        for leases, acks and steps on the way, which come again by themselves.
        """
        tx, value = await trio.to_thread.run_sync(self._write, unit, durable, limiter=self._limiter)
        if tx.changed or tx.woken:
            self._committed(frozenset(tx.woken), tx.changed)
        return value

    async def read(self, unit: Callable[[Tx], T]) -> T:
        """Run a unit that changes nothing."""
        return await trio.to_thread.run_sync(self._read, unit, limiter=self._limiter)

    async def aclose(self) -> None:
        """Close the file; the last unit has ended by then."""
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._connection.close, limiter=self._limiter)

    def _write(self, unit: Callable[[Tx], T], durable: bool) -> tuple[Tx, T]:
        tx = self._tx()
        if not durable:
            self._connection.execute("PRAGMA synchronous=NORMAL")
        try:
            with self._transaction("BEGIN IMMEDIATE"):
                value = unit(tx)
        finally:
            if not durable:
                self._connection.execute("PRAGMA synchronous=FULL")
        return tx, value

    def _read(self, unit: Callable[[Tx], T]) -> T:
        with self._transaction("BEGIN"):
            return unit(self._tx())

    def _tx(self) -> Tx:
        return Tx(self._connection, self._wall(), self.domain)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        self._connection.execute(begin)
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
