"""The record of deliveries for another process: read beside a running worker, nothing touched."""

import sqlite3
from pathlib import Path

import msgspec

from agentconnect.core.delivery.founding import record
from agentconnect.core.errors import StoreUnreadableError
from agentconnect.store import delivery_rows as rows
from agentconnect.store.inspect import reading


def read_record(path: Path, *, in_use: bool = True) -> bytes:
    """The whole record as JSON; without entries where there is no store. Blocking.

    ``in_use``: a worker runs with it. Raises: StoreUnreadableError.
    """
    try:
        return reading(path, rows.SCHEMA, _read, in_use=in_use) or record("", ())
    except (ValueError, msgspec.MsgspecError) as error:
        raise StoreUnreadableError(f"{path} holds something that cannot be read") from error


def _read(connection: sqlite3.Connection) -> bytes:
    return record(rows.worker_id(connection), rows.everything(connection))
