"""``deliveries.db`` as a file: founded, opened, and known again when it has been tampered with.

Blocking. A store that is missing though it was there, cut short, foreign or damaged is unreadable
until it opens soundly again; nothing is ever minted over one (deferred-delivery.md §8).
"""

import logging
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from agentconnect.core.delivery.bindings import RANDOM_BYTES, new_worker_id
from agentconnect.core.delivery.founding import Founding, Older, founding, read_older
from agentconnect.core.delivery.ledger import WorkerId
from agentconnect.core.errors import StoreUnreadableError
from agentconnect.store import delivery_rows as rows
from agentconnect.store.atomic import fsync_folder, read_file
from agentconnect.store.sqlite_file import HEADER_BYTES, create, open_existing

log = logging.getLogger("agentconnect.store")

IMPORTED = "imported"
T = TypeVar("T")

_DAMAGE = (sqlite3.Error, OSError, ValueError, UnicodeError, OverflowError, msgspec.MsgspecError)
"""What a file that is not sound can raise on its way to a value."""


class DeliveryFile:
    """The open file. Used by one thread at a time."""

    def __init__(
        self,
        path: Path,
        older: tuple[Path, Path, Path],
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.path = path
        self.worker_id = WorkerId("")
        self.count = 0
        self._older = older
        self._random = random
        self._connection: sqlite3.Connection | None = None
        self._seen = False
        self._identity = (0, 0)
        self._size = 0

    def work(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Do ``act`` in one transaction, on disk when this returns.

        Raises: StoreUnreadableError, and nothing was changed; the next call opens the file anew.
        """
        connection = self._sound()
        try:
            connection.execute("BEGIN IMMEDIATE")
            value = act(connection)
            connection.execute("COMMIT")
        except _DAMAGE as error:
            self.close()
            self._say(error)
            raise StoreUnreadableError(
                f"{self.path.name} cannot be used: {_word(error)}"
            ) from error
        except BaseException:
            self.close()  # which rolls back
            raise
        return value

    def close(self) -> None:
        """Close it; :meth:`work` opens it again."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            try:
                connection.close()
            except sqlite3.Error as error:
                self._say(error)

    def _sound(self) -> sqlite3.Connection:
        """The connection, if the file is still the one that was opened; else it is opened anew."""
        if self._connection is not None and not self._same():
            # before another is opened: two write-ahead logs of one name destroy each other
            self.close()
        if self._connection is None:
            self._connection = self._open()
        return self._connection

    def _same(self) -> bool:
        try:
            found = self.path.stat()
        except OSError:
            return False
        same = (found.st_dev, found.st_ino) == self._identity and found.st_size >= self._size
        self._size = max(self._size, found.st_size)  # it is never made smaller by us
        return same

    def _open(self) -> sqlite3.Connection:
        older = [path for path in self._older if path.exists()]
        there = self.path.exists()
        seen, self._seen = self._seen, self._seen or there
        match founding(database=there, older=bool(older), seen=seen):
            case Founding.REFUSE:
                raise StoreUnreadableError(
                    f"{self.path} was taken away while it was in use: put it back, or restart to"
                    " begin a new one"
                )
            case Founding.IMPORT:
                create(self.path, rows.SCHEMA, _filling(self._read_older()))
            case Founding.MINT:
                mine = Older(worker_id=new_worker_id(self._random(RANDOM_BYTES)))
                create(self.path, rows.SCHEMA, _filling(mine))
        connection = open_existing(self.path, rows.SCHEMA)
        self._seen = True
        try:
            self.worker_id = WorkerId(rows.worker_id(connection))
            self.count = rows.count(connection)
            imported = bool(older) and rows.has_meta(connection, IMPORTED)
            found = self.path.stat()
        except _DAMAGE as error:
            connection.close()
            raise StoreUnreadableError(f"{self.path} cannot be used: {_word(error)}") from error
        self._identity, self._size = (found.st_dev, found.st_ino), HEADER_BYTES
        if imported:
            self._put_aside(older)
        return connection

    def _read_older(self) -> Older:
        name, ledger, bindings = (read_file(path) for path in self._older)
        found = read_older(name, ledger, bindings)
        if isinstance(found, str):
            raise StoreUnreadableError(
                f"the older record in {self.path.parent} is not taken over: {found}"
            )
        return found

    def _put_aside(self, older: list[Path]) -> None:
        """The older files are in the database: they are not read again."""
        try:
            for path in older:
                path.replace(path.with_name(f"{path.name}.{IMPORTED}"))
            fsync_folder(self.path.parent)
        except OSError as error:  # the database counts, wherever they lie
            log.warning("the older delivery files stay where they are: %s", error.strerror)

    def _say(self, error: Exception) -> None:
        log.warning("%s cannot be used: %s", self.path.name, _word(error))


def _filling(older: Older) -> Callable[[sqlite3.Connection], None]:
    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN")
        rows.put_meta(connection, "worker_id", older.worker_id)
        for entry in older.entries:
            rows.insert(connection, entry)
        for binding in older.bindings:
            rows.put_binding(connection, binding)
        if older.entries or older.bindings:
            log.info("%d deliveries of an older worker taken over", len(older.entries))
        rows.put_meta(connection, IMPORTED, "1")
        connection.execute("COMMIT")

    return fill


def _word(error: Exception) -> str:
    """What is wrong, without anything that a row holds."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    if isinstance(error, sqlite3.Error):
        return str(error) or type(error).__name__
    return "a row in it cannot be read"
