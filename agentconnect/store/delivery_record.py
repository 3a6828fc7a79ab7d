"""The record of deliveries for another process: read beside a running worker, nothing touched."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from agentconnect.core.delivery.founding import record
from agentconnect.core.delivery.keys import NOTICE, key_of
from agentconnect.core.errors import StoreUnreadableError
from agentconnect.store import delivery_rows as rows
from agentconnect.store.inspect import reading


def read_record(path: Path, *, in_use: bool = True) -> bytes:
    """The whole record as JSON. Blocking.

    ``in_use``: a worker runs with it. Raises: StoreUnreadableError, also where there is none.
    """
    try:
        found = reading(path, rows.SCHEMA, _read, in_use=in_use)
    except (ValueError, msgspec.MsgspecError) as error:
        raise StoreUnreadableError(f"{path} holds something that cannot be read") from error
    if found is None:
        raise StoreUnreadableError(f"there is no record of deliveries in {path.parent}")
    return found


def posting_keys(path: Path) -> frozenset[str]:
    """The keys under which the worker beside us may be posting right now. Blocking, cheap.

    Raises: StoreUnreadableError.
    """
    if not path.exists():
        return frozenset()
    address = f"{path.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=1.0)) as connection:
            return _keys(connection)
    except (sqlite3.Error, ValueError, msgspec.MsgspecError) as error:
        raise StoreUnreadableError(f"{path} holds something that cannot be read") from error


def _keys(connection: sqlite3.Connection) -> frozenset[str]:
    found = rows.unfinished(connection)
    return frozenset(
        key_of(entry, part) for entry in found for part in (*range(len(entry.parts)), NOTICE)
    )


def _read(connection: sqlite3.Connection) -> bytes:
    return record(rows.worker_id(connection), rows.everything(connection))
