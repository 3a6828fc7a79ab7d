"""A database file of ours: made whole, opened fail closed. Blocking.

A file that is there but is not ours, damaged, empty or of another version raises; it is never taken
for a new database (stack.md §6).
"""

import os
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from agentconnect.core.errors import StoreUnreadableError
from agentconnect.store.atomic import fsync_folder

HEADER_BYTES = 100
"""A shorter file opens as a new, empty database in SQLite: refused before it gets there."""


class Schema(msgspec.Struct, frozen=True, kw_only=True):
    """What makes a database file ours. ``upgrades``: older version → script to the next one."""

    application_id: int
    version: int
    script: str
    upgrades: dict[int, str] = {}


def connect(path: Path, schema: Schema) -> sqlite3.Connection:
    """Open ``path``, made first if it is missing. Blocking.

    Raises: StoreUnreadableError if something is there that is not a sound database of ours.
    """
    try:
        if not path.exists():
            _create(path, schema)
        return _open(path, schema)
    except (OSError, sqlite3.Error) as error:
        raise StoreUnreadableError(f"{path} cannot be used: {sentence(error)}") from error


def open_existing(path: Path, schema: Schema) -> sqlite3.Connection:
    """Open ``path``; a missing file is not made. Blocking. Raises: StoreUnreadableError."""
    try:
        return _open(path, schema)
    except (OSError, sqlite3.Error) as error:
        raise StoreUnreadableError(f"{path} cannot be used: {sentence(error)}") from error


def create(path: Path, schema: Schema, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Make ``path`` with what ``fill`` puts into it, whole or not at all. Blocking.

    Raises: StoreUnreadableError.
    """
    try:
        _create(path, schema, fill)
    except (OSError, sqlite3.Error) as error:
        raise StoreUnreadableError(f"{path} cannot be made: {sentence(error)}") from error


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


def sentence(error: Exception) -> str:
    """What an error of the disk or of SQLite says."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error) or type(error).__name__
