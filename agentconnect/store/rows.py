"""What a row of the journal is: the table, and the values that stand for it in memory.

The whole task is in the row until it is answered; in memory it is not kept a second time.
"""

import secrets

import msgspec

from agentconnect.core.errors import StoreUnreadableError
from agentconnect.core.relay.journal import State
from agentconnect.core.task import TaskId
from agentconnect.store.database import Database
from agentconnect.store.sqlite_file import Schema

SCHEMA = Schema(
    application_id=0x4147434A,
    version=3,
    upgrades={
        1: """
        ALTER TABLE tasks ADD COLUMN starts INTEGER NOT NULL DEFAULT 0;
        CREATE TABLE debts (
            event_id TEXT PRIMARY KEY, room TEXT NOT NULL, text TEXT NOT NULL, ts REAL NOT NULL
        ) WITHOUT ROWID;
        """,
        2: "ALTER TABLE tasks ADD COLUMN files TEXT NOT NULL DEFAULT ''",
    },
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
        uploads TEXT NOT NULL DEFAULT '',
        starts INTEGER NOT NULL DEFAULT 0,
        files TEXT NOT NULL DEFAULT ''
    );
    CREATE TABLE debts (
        event_id TEXT PRIMARY KEY, room TEXT NOT NULL, text TEXT NOT NULL, ts REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX tasks_state ON tasks (state, seq);
    """,
)

COLUMNS = (
    "id, state, room, lease_id, ts, result, error, undelivered, placeholder, prompted, answer,"
    " edited, uploads, starts, files, task IS NOT NULL AS whole"
)


class Upload(msgspec.Struct, frozen=True, kw_only=True):
    """One outgoing file of a task. ``sent`` is false while its post may be under way."""

    path: str
    sha256: str
    name: str
    sent: bool = False
    event_id: str = ""


class Entry(msgspec.Struct, kw_only=True):
    """A row as the memory holds it: everything but the task itself.

    ``whole``: the task is in the row, so it can be run. ``starts``: runs that ended with their
    process. ``files``: JSON, those that the answer brings beside its markers. ``taken_up``: this
    run found it in the journal.
    """

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
    starts: int = 0
    files: str = ""
    whole: bool = False
    taken_up: bool = False


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
    names = [name.split()[-1] for name in COLUMNS.split(",")]
    values = dict(zip(names, row, strict=True))
    uploads = values["uploads"]
    values["uploads"] = _uploads.decode(uploads) if isinstance(uploads, str) and uploads else ()
    return msgspec.convert(values, Entry, strict=False)


async def load_entries(database: Database) -> dict[TaskId, Entry]:
    """Every row, oldest first. Raises: StoreUnreadableError."""
    rows = await database.read(f"SELECT {COLUMNS} FROM tasks ORDER BY seq")  # noqa: S608 - ours
    entries: dict[TaskId, Entry] = {}
    for row in rows:
        try:
            entry = read_entry(row)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise StoreUnreadableError(
                f"{database.path} holds a row this version cannot read"
            ) from error
        entries[entry.id] = entry
    return entries


async def worker_id(database: Database) -> str:
    """The random name that keyed posts are made under; minted with the journal itself."""
    rows = await database.read("SELECT value FROM meta WHERE name = 'worker_id'")
    if rows and isinstance(rows[0][0], str):
        return rows[0][0]
    minted = secrets.token_hex(16)
    await database.write(
        [("INSERT INTO meta (name, value) VALUES ('worker_id', ?)", (minted,))], lambda: None
    )
    return minted
