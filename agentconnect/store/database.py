"""SQLite for what must not be lost: opened fail closed, written by one writer that shares commits.

A file that is there but is not ours, damaged, empty or of another version raises; it is never taken
for a new database (stack.md §6). Callers that write at the same time share one transaction and one
fsync. Every statement runs in a worker thread, one at a time; a started write always finishes.
"""

import logging
import os
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import trio

from agentconnect.core.errors import StoreUnreadableError
from agentconnect.store.atomic import fsync_folder

log = logging.getLogger("agentconnect.store")

LINGER_S = 0.25
"""How long a write nobody waits for may be held back for company; a crash costs only a repeat."""

CLOSE_WITHIN_S = 5.0
HEADER_BYTES = 100
"""A shorter file opens as a new, empty database in SQLite: refused before it gets there."""

Statements = Sequence[tuple[str, Sequence[object]]]


class Schema(msgspec.Struct, frozen=True, kw_only=True):
    """What makes a database file ours. ``upgrades``: older version → script to the next one."""

    application_id: int
    version: int
    script: str
    upgrades: dict[int, str] = {}


class _Write:
    """One caller's statements, and what becomes of them."""

    def __init__(self, statements: Statements, applied: Callable[[], None] | None) -> None:
        self.statements = statements
        self.applied = applied
        self.error: Exception | None = None
        self.finished = trio.Event()


class Database:
    """An open database. :meth:`run` must be running for writes to happen."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._thread = trio.CapacityLimiter(1)
        self._queue: list[_Write] = []
        self._due = float("inf")
        self._wake = trio.Event()
        self._closing = False
        self._shield = trio.CancelScope(shield=True)
        self.commits = 0

    async def write(self, statements: Statements, applied: Callable[[], None]) -> None:
        """Commit ``statements``; ``applied`` is called once they are on disk, then this returns.

        Raises: StoreUnreadableError if they are not. Cancellation: the write still happens.
        """
        if self._closing:
            raise StoreUnreadableError(f"{self.path} is closed")
        write = _Write(statements, applied)
        self._enqueue(write, 0.0)
        await write.finished.wait()
        if write.error is not None:
            raise StoreUnreadableError(
                f"{self.path} cannot be written: {_sentence(write.error)}"
            ) from write.error

    def write_later(self, statements: Statements, *, linger_s: float = LINGER_S) -> None:
        """Commit with the next write, or after ``linger_s`` where none comes.

        Nobody waits for it, and a failure is only a repeat.
        """
        self._enqueue(_Write(statements, None), linger_s)

    async def read(self, sql: str) -> list[tuple[object, ...]]:
        """All rows of a query. Raises: StoreUnreadableError."""

        def fetch() -> list[tuple[object, ...]]:
            return self._connection.execute(sql).fetchall()

        try:
            return await trio.to_thread.run_sync(fetch, limiter=self._thread)
        except sqlite3.Error as error:
            raise StoreUnreadableError(f"{self.path} cannot be read: {_sentence(error)}") from error

    async def run(self) -> None:
        """Write until :meth:`close`, then finish what is queued and close the file."""
        with self._shield:
            while True:
                await self._wait()
                if not self._queue:
                    break
                batch, self._queue, self._due = self._queue, [], float("inf")
                await self._commit(batch)
        self._connection.close()

    def close(self) -> None:
        """Let :meth:`run` end, within a bound."""
        self._closing = True
        self._shield.deadline = trio.current_time() + CLOSE_WITHIN_S
        self._wake.set()

    def _enqueue(self, write: _Write, linger_s: float) -> None:
        self._queue.append(write)
        self._due = min(self._due, trio.current_time() + linger_s)
        self._wake.set()

    async def _wait(self) -> None:
        """Until somebody waits for a write, the others have lingered, or it is time to close."""
        while not self._closing and self._due > trio.current_time():
            self._wake = trio.Event()
            if not self._queue:
                await self._wake.wait()
                continue
            with trio.move_on_at(self._due):  # may end: nobody else came
                await self._wake.wait()

    async def _commit(self, batch: list[_Write]) -> None:
        await trio.to_thread.run_sync(self._transact, batch, limiter=self._thread)
        for write in batch:
            if write.applied is None:
                self._say_failure(write.error)
            elif write.error is None:
                write.applied()
            write.finished.set()

    def _say_failure(self, error: Exception | None) -> None:
        """Of a write that nobody waits for: nobody else would hear of it."""
        if error is not None:
            log.warning("%s cannot be written: %s", self.path.name, _sentence(error))

    def _transact(self, batch: list[_Write]) -> None:
        """One transaction for all; if that fails, one each, so that a bad one costs no other."""
        error = self._attempt(batch)
        if error is None:
            return
        if len(batch) == 1:
            batch[0].error = error
            return
        for write in batch:
            write.error = self._attempt([write])

    def _attempt(self, batch: list[_Write]) -> Exception | None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for write in batch:
                for sql, values in write.statements:
                    self._connection.execute(sql, tuple(values))
            self._connection.execute("COMMIT")
        except (sqlite3.Error, UnicodeError, OverflowError) as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            return error
        self.commits += 1
        return None


def connect(path: Path, schema: Schema) -> sqlite3.Connection:
    """Open ``path``, made first if it is missing. Blocking.

    Raises: StoreUnreadableError if something is there that is not a sound database of ours.
    """
    try:
        if not path.exists():
            _create(path, schema)
        return _open(path, schema)
    except (OSError, sqlite3.Error) as error:
        raise StoreUnreadableError(f"{path} cannot be used: {_sentence(error)}") from error


def _open(path: Path, schema: Schema) -> sqlite3.Connection:
    if path.stat().st_size < HEADER_BYTES:
        raise StoreUnreadableError(f"{path} is cut short: restore it, or move it away")
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        found = _check(path, connection, schema)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        for version in range(found, schema.version):
            script = f"BEGIN; {schema.upgrades[version]}; PRAGMA user_version={version + 1}; COMMIT"
            connection.executescript(script)
    except BaseException:
        connection.close()
        raise
    return connection


def _check(path: Path, connection: sqlite3.Connection, schema: Schema) -> int:
    """The version found; one that cannot be brought up to ours is refused."""
    found = _pragma(connection, "user_version")
    ours = _pragma(connection, "application_id") == schema.application_id
    if not ours or not isinstance(found, int) or found not in {*schema.upgrades, schema.version}:
        raise StoreUnreadableError(f"{path} is not a database of this version of agentconnect")
    if _pragma(connection, "quick_check") != "ok":
        raise StoreUnreadableError(f"{path} is damaged: restore it, or move it away")
    return found


def _create(path: Path, schema: Schema) -> None:
    """Build it under another name and move it in whole: no half-made file is ever seen."""
    for suffix in ("-wal", "-shm"):
        orphan = path.with_name(path.name + suffix)
        if orphan.exists():
            orphan.replace(orphan.with_name(orphan.name + ".orphan"))
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    try:
        os.fchmod(handle, 0o600)
        connection = sqlite3.connect(name, isolation_level=None)
        try:
            connection.execute(f"PRAGMA application_id={schema.application_id}")
            connection.execute(f"PRAGMA user_version={schema.version}")
            connection.executescript(schema.script)
        finally:
            connection.close()
        os.fsync(handle)
        Path(name).replace(path)
    finally:
        os.close(handle)
        Path(name).unlink(missing_ok=True)
    fsync_folder(path.parent)


def _pragma(connection: sqlite3.Connection, name: str) -> object:
    row = connection.execute(f"PRAGMA {name}").fetchone()
    return row[0] if row else None


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error) or type(error).__name__
