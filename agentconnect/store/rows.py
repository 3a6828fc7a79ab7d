"""What a row of the journal is: the table, and the values that stand for it in memory.

The whole task is in the row until it is answered; in memory it is not kept a second time.
"""

import msgspec

from agentconnect.core.relay.journal import State
from agentconnect.core.task import TaskId
from agentconnect.store.database import Schema

SCHEMA = Schema(
    application_id=0x4147434A,
    version=1,
    script="""
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE tasks (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        state TEXT NOT NULL,
        room TEXT NOT NULL DEFAULT '',
        lease_id TEXT NOT NULL DEFAULT '',
        ts REAL NOT NULL,
        task BLOB,
        result TEXT NOT NULL DEFAULT '',
        error TEXT NOT NULL DEFAULT '',
        undelivered INTEGER NOT NULL DEFAULT 0,
        placeholder TEXT NOT NULL DEFAULT '',
        prompted INTEGER NOT NULL DEFAULT 0,
        answer TEXT,
        edited INTEGER NOT NULL DEFAULT 0,
        uploads TEXT NOT NULL DEFAULT ''
    );
    CREATE INDEX tasks_state ON tasks (state, seq);
    """,
)

COLUMNS = (
    "id, state, room, lease_id, ts, result, error, undelivered, placeholder, prompted, answer,"
    " edited, uploads"
)


class Upload(msgspec.Struct, frozen=True, kw_only=True):
    """One outgoing file of a task. ``sent`` is false while its post may be under way."""

    path: str
    sha256: str
    name: str
    sent: bool = False
    event_id: str = ""


class Entry(msgspec.Struct, kw_only=True):
    """A row as the memory holds it: everything but the task itself."""

    id: TaskId
    state: State
    room: str = ""
    lease_id: str = ""
    ts: float = 0.0
    result: str = ""
    error: str = ""
    undelivered: bool = False
    placeholder: str = ""
    prompted: bool = False
    answer: str | None = None
    edited: bool = False
    uploads: tuple[Upload, ...] = ()


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How many tasks stand where; ``inflight`` is accepted and pending together."""

    inflight: int
    pending: int
    parked: int
    undelivered: int
    done: int


_uploads = msgspec.json.Decoder(tuple[Upload, ...])


def read_entry(row: tuple[object, ...]) -> Entry:
    """A row as selected by ``COLUMNS``. Raises: msgspec.ValidationError, msgspec.DecodeError."""
    names = [name.strip() for name in COLUMNS.split(",")]
    values = dict(zip(names, row, strict=True))
    uploads = values["uploads"]
    values["uploads"] = _uploads.decode(uploads) if isinstance(uploads, str) and uploads else ()
    return msgspec.convert(values, Entry, strict=False)
