"""The outbox's SQLite file: made whole or not at all, opened only if it is one.

WAL and ``synchronous=FULL``: what is committed survives ``kill -9`` and a power failure, and
several processes use the file at once. It must lie on a local disk.
"""

import contextlib
import fcntl
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from agentconnect.deliver.errors import OutboxError

APPLICATION_ID = 0x61673264  # "ag2d"
VERSION = 1
BUSY_S = 10.0
HEADER_BYTES = 100
"""A shorter file opens as a new, empty database in SQLite: refused before it gets there."""

_SCRIPT = """
CREATE TABLE entry (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  binding TEXT NOT NULL,
  worker TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  parts INTEGER NOT NULL,
  queued REAL NOT NULL,
  deadline REAL NOT NULL,
  due REAL NOT NULL,
  marked REAL NOT NULL,
  first_sent REAL,
  attempts INTEGER NOT NULL DEFAULT 0,
  last TEXT NOT NULL DEFAULT '',
  holder TEXT,
  held_until REAL,
  outcome TEXT,
  reason TEXT NOT NULL DEFAULT '',
  detail TEXT NOT NULL DEFAULT '',
  delivered TEXT NOT NULL DEFAULT '[]',
  ended REAL,
  told INTEGER NOT NULL DEFAULT 0,
  params TEXT -- last, so that the others are found without reading it
) STRICT;
CREATE INDEX waiting_due ON entry(due) WHERE outcome IS NULL;
CREATE INDEX waiting_deadline ON entry(deadline) WHERE outcome IS NULL;
CREATE INDEX untold_due ON entry(due) WHERE outcome IS NOT NULL AND told = 0;
CREATE INDEX held ON entry(held_until) WHERE holder IS NOT NULL;
CREATE INDEX ended ON entry(ended) WHERE outcome IS NOT NULL;
"""


def connect(path: Path) -> sqlite3.Connection:
    """Open the outbox, made first if it is missing.

    Raises: OutboxError, also for a file that is something else.
    """
    with translated(path):
        if not path.exists():
            _create(path)
        if path.stat().st_size < HEADER_BYTES:
            raise OutboxError(f"{path} is cut short: restore it, or move it away")
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=BUSY_S,
        )
        try:
            _check(path, connection)
            connection.execute("PRAGMA synchronous=FULL")
        except BaseException:
            connection.close()
            raise
        return connection


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn what SQLite and the disk raise into one sentence. Raises: OutboxError."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise OutboxError(f"{path} cannot be used: {_why(error)}") from error


def _create(path: Path) -> None:
    """Build it under another name and move it in; the folder's lock lets one process do it."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if path.exists():
            return
        for suffix in ("-wal", "-shm"):  # what a removed file left would be read into the new one
            orphan = path.with_name(path.name + suffix)
            orphan.unlink(missing_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
        try:
            os.fchmod(handle, 0o600)
            _fill(name)
            os.fsync(handle)
            Path(name).replace(path)
        finally:
            os.close(handle)
            for suffix in ("", "-wal", "-shm"):
                Path(name + suffix).unlink(missing_ok=True)
        os.fsync(folder)
    finally:
        os.close(folder)


def _check(path: Path, connection: sqlite3.Connection) -> None:
    found = _pragma(connection, "application_id"), _pragma(connection, "user_version")
    if found != (APPLICATION_ID, VERSION):
        raise OutboxError(f"{path} is not an outbox of this version: move it away")


def _fill(name: str) -> None:
    connection = sqlite3.connect(name, isolation_level=None)
    try:
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={VERSION}")
        connection.executescript(_SCRIPT)
        # kept in the file; the log is written back when this connection closes
        connection.execute("PRAGMA journal_mode=WAL")
    finally:
        connection.close()


def _pragma(connection: sqlite3.Connection, name: str) -> object:
    row = connection.execute(f"PRAGMA {name}").fetchone()
    return row[0] if row else None


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    name = getattr(error, "sqlite_errorname", "")
    if name == "SQLITE_FULL" or name.startswith("SQLITE_IOERR_WRITE"):
        return "the disk is full or the file may not grow; free some space"
    if name.startswith("SQLITE_BUSY"):
        return f"another process kept it locked for {BUSY_S:.0f} seconds"
    return str(error) or type(error).__name__
