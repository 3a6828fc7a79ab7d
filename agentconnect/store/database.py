"""SQLite for what must not be lost: opened fail closed, written by one writer that shares commits.

A file that is there but is not ours, damaged, empty or of another version raises; it is never taken
for a new database (stack.md §6). Callers that write at the same time share one transaction and one
fsync. Every statement runs in a worker thread, one at a time; a started write always finishes.
"""

import contextlib
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

LINGER_S = 0.05
"""How long a write nobody waits for may be held back for company; a crash costs only a repeat."""

CLOSE_WITHIN_S = 5.0
HEADER_BYTES = 100
"""A shorter file opens as a new, empty database in SQLite: refused before it gets there."""

Statements = Sequence[tuple[str, tuple[object, ...]]]


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
        self.rows: list[tuple[object, ...]] = []
        self.error: Exception | None = None
        self.finished = trio.Event()


class Database:
    """An open database. :meth:`run` must be running for writes to happen.

    A commit runs in a thread and starts the moment a caller needs it; whatever is asked for
    meanwhile goes with the next one.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._queue: list[_Write] = []
        self._awaited = False  # somebody waits for the queue
        self._busy = False  # a commit is running
        self._wake = trio.Event()
        self._closing = trio.Event()
        self._shield = trio.CancelScope(shield=True)
        self.commits = 0

    @property
    def busy(self) -> bool:
        """A commit is running."""
        return self._busy

    async def write(self, statements: Statements, applied: Callable[[], None]) -> None:
        """Commit ``statements``; ``applied`` is called once they are on disk, then this returns.

        Raises: StoreUnreadableError if they are not. Cancellation: the write still happens.
        """
        write = _Write(statements, applied)
        await self._commit_with(write)
        if write.error is not None:
            raise StoreUnreadableError(
                f"{self.path} cannot be written: {_sentence(write.error)}"
            ) from write.error

    def write_later(self, statements: Statements) -> None:
        """Commit with the next write, or a little later where none comes.

        Nobody waits for it, and a failure is only a repeat.
        """
        self._queue.append(_Write(statements, None))
        self._wake.set()

    async def read(self, sql: str) -> list[tuple[object, ...]]:
        """All rows of a query, behind every write before it. Raises: StoreUnreadableError."""
        query = _Write([(sql, ())], _nothing)
        await self._commit_with(query)
        if query.error is not None:
            raise StoreUnreadableError(
                f"{self.path} cannot be read: {_sentence(query.error)}"
            ) from query.error
        return query.rows

    async def run(self) -> None:
        """Write until :meth:`close`, then finish what is queued and close the file."""
        with self._shield:
            while self._busy or self._queue or not self._closing.is_set():
                await self._wake.wait()
                self._wake = trio.Event()
                if self._queue and not self._busy:
                    with trio.move_on_after(LINGER_S):  # may end: nobody else came
                        await self._closing.wait()
                self._begin()
        if not self._busy:  # a disk that hangs keeps its connection
            self._connection.close()

    def close(self) -> None:
        """Let :meth:`run` end, within a bound."""
        self._closing.set()
        self._shield.deadline = trio.current_time() + CLOSE_WITHIN_S
        self._wake.set()

    async def _commit_with(self, write: _Write) -> None:
        if self._closing.is_set():
            raise StoreUnreadableError(f"{self.path} is closed")
        self._queue.append(write)
        self._awaited = True
        self._begin()
        await write.finished.wait()

    def _begin(self) -> None:
        """Start a commit of all that is queued, unless one is running: its end starts the next."""
        if self._busy or not self._queue:
            return
        batch, self._queue = self._queue, []
        self._busy, self._awaited = True, False
        token = trio.lowlevel.current_trio_token()

        def landed(outcome: object) -> None:
            with contextlib.suppress(trio.RunFinishedError):  # too late to tell anybody
                token.run_sync_soon(self._landed, batch, getattr(outcome, "error", None))

        # at half the price of to_thread, which also waits for a place and minds cancellation
        trio.lowlevel.start_thread_soon(lambda: self._transact(batch), landed)

    def _landed(self, batch: list[_Write], broke: Exception | None) -> None:
        self._busy = False
        for write in batch:
            write.error = write.error or broke
            if write.applied is None:
                self._say_failure(write.error)
            elif write.error is None:
                write.applied()
            write.finished.set()
        if self._awaited:
            self._begin()
        elif self._queue or self._closing.is_set():
            self._wake.set()

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
                    write.rows = self._connection.execute(sql, values).fetchall()
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


def open_existing(path: Path, schema: Schema) -> sqlite3.Connection:
    """Open ``path``; a missing file is not made. Blocking. Raises: StoreUnreadableError."""
    try:
        return _open(path, schema)
    except (OSError, sqlite3.Error) as error:
        raise StoreUnreadableError(f"{path} cannot be used: {_sentence(error)}") from error


def create(path: Path, schema: Schema, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Make ``path`` with what ``fill`` puts into it, whole or not at all. Blocking.

    Raises: StoreUnreadableError.
    """
    try:
        _create(path, schema, fill)
    except (OSError, sqlite3.Error) as error:
        raise StoreUnreadableError(f"{path} cannot be made: {_sentence(error)}") from error


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
        found = check(path, connection, schema)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        for version in range(found, schema.version):
            script = f"BEGIN; {schema.upgrades[version]}; PRAGMA user_version={version + 1}; COMMIT"
            connection.executescript(script)
    except BaseException:
        connection.close()
        raise
    return connection


def check(path: Path, connection: sqlite3.Connection, schema: Schema) -> int:
    """The version found; one that cannot be brought up to ours is refused.

    Raises: StoreUnreadableError, sqlite3.Error.
    """
    found = _pragma(connection, "user_version")
    ours = _pragma(connection, "application_id") == schema.application_id
    if not ours or not isinstance(found, int) or found not in {*schema.upgrades, schema.version}:
        raise StoreUnreadableError(f"{path} is not a database of this version of agentconnect")
    if _pragma(connection, "quick_check") != "ok":
        raise StoreUnreadableError(f"{path} is damaged: restore it, or move it away")
    return found


def _create(
    path: Path, schema: Schema, fill: Callable[[sqlite3.Connection], None] | None = None
) -> None:
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
            if fill is not None:
                fill(connection)
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


def _nothing() -> None:
    pass
