"""SQLite with one writer that shares commits (stack.md §6).

Callers that write at the same time share one transaction and one fsync. Every statement runs in a
worker thread, one at a time; a started write always finishes.
"""

import contextlib
import logging
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import trio

from agentconnect.core.errors import StoreUnreadableError
from agentconnect.store.sqlite_file import sentence

log = logging.getLogger("agentconnect.store")

LINGER_S = 0.05
"""How long a write nobody waits for may be held back for company; a crash costs only a repeat."""

CLOSE_WITHIN_S = 5.0
Statements = Sequence[tuple[str, tuple[object, ...]]]


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
                f"{self.path} cannot be written: {sentence(write.error)}"
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
                f"{self.path} cannot be read: {sentence(query.error)}"
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
            log.warning("%s cannot be written: %s", self.path.name, sentence(error))

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


def _nothing() -> None:
    pass
