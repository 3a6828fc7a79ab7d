"""A look at a database of ours from outside: never made, brought up to date or written to.

Opening a database in WAL mode makes two files beside it and may put a crash right, even for a
reader. So: beside a worker that has it open we read along with it; a database at rest is read as
it stands; one that a crash left with its log is read as a copy elsewhere. Blocking.
"""

import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeAlias, TypeVar

from agentconnect.core.errors import StoreUnreadableError
from agentconnect.store.sqlite_file import HEADER_BYTES, Schema, check

COPY_BYTES = 256 * 1024 * 1024
WITHIN_S = 8.0
_STEPS = 10_000

T = TypeVar("T")
Read: TypeAlias = Callable[[sqlite3.Connection], T]


def inspect(path: Path, schema: Schema, *, in_use: bool) -> bool:
    """Whether there is one; sound where this returns. ``in_use``: a worker runs here.

    Raises: StoreUnreadableError with what is wrong.
    """
    return reading(path, schema, _is_there, in_use=in_use) is not None


def reading(path: Path, schema: Schema, read: Read[T], *, in_use: bool) -> T | None:
    """What ``read`` makes of it; None where there is none.

    Raises: StoreUnreadableError with what is wrong.
    """
    try:
        if not path.exists():
            return None
        if not path.is_file() or path.stat().st_size < HEADER_BYTES:
            raise StoreUnreadableError(f"{path} is cut short or no file")
        log = path.with_name(path.name + "-wal")
        if in_use and path.with_name(path.name + "-shm").exists():
            return _look(path, "mode=ro", schema, read)
        if log.exists() and log.stat().st_size:
            return _look_at_a_copy(path, log, schema, read)
        return _look(path, "mode=ro&immutable=1", schema, read)
    except (OSError, sqlite3.Error) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise StoreUnreadableError(f"{path} cannot be read: {why}") from error


def _is_there(_: sqlite3.Connection) -> bool:
    return True


def _look_at_a_copy(path: Path, log: Path, schema: Schema, read: Read[T]) -> T:
    if path.stat().st_size + log.stat().st_size > COPY_BYTES:
        raise StoreUnreadableError(f"{path} is too big to be looked at while it is not in use")
    with tempfile.TemporaryDirectory(prefix="agent-connect-") as folder:
        copy = Path(folder) / path.name
        shutil.copyfile(path, copy)
        shutil.copyfile(log, copy.with_name(log.name))
        try:
            return _look(copy, "mode=rw", schema, read)
        except StoreUnreadableError as error:
            raise StoreUnreadableError(str(error).replace(str(copy), str(path))) from None


def _look(path: Path, how: str, schema: Schema, read: Read[T]) -> T:
    until = time.monotonic() + WITHIN_S
    address = f"{path.absolute().as_uri()}?{how}"
    with closing(sqlite3.connect(address, uri=True, timeout=2.0)) as connection:
        connection.set_progress_handler(lambda: int(time.monotonic() > until), _STEPS)
        check(path, connection, schema)
        return read(connection)
