"""The tables of ``deliveries.db``, and rows to values and back (deferred-delivery.md §8).

Blocking; every function works on a connection inside the caller's transaction.
"""

import sqlite3
from collections.abc import Iterable

import msgspec

from agentconnect.core.delivery.bindings import Binding
from agentconnect.core.delivery.ledger import Entry, Part
from agentconnect.store.sqlite_file import Schema

SCHEMA = Schema(
    application_id=0x41474344,
    version=1,
    script="""
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE deliveries (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        worker_id TEXT NOT NULL,
        binding TEXT NOT NULL,
        room TEXT NOT NULL,
        sender TEXT NOT NULL,
        tier TEXT NOT NULL,
        folder TEXT NOT NULL,
        first_seen REAL NOT NULL,
        aged_s REAL NOT NULL,
        fingerprint TEXT NOT NULL,
        text TEXT,
        attempts INTEGER NOT NULL,
        outcome TEXT,
        reason TEXT,
        detail TEXT NOT NULL,
        finished_at REAL,
        notice TEXT NOT NULL
    );
    CREATE TABLE parts (
        seq INTEGER NOT NULL,
        part INTEGER NOT NULL,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        mime TEXT NOT NULL,
        uri TEXT NOT NULL,
        size INTEGER NOT NULL,
        sha256 TEXT NOT NULL,
        state TEXT NOT NULL,
        event_id TEXT NOT NULL,
        status TEXT NOT NULL,
        PRIMARY KEY (seq, part)
    ) WITHOUT ROWID;
    CREATE TABLE bindings (
        id TEXT PRIMARY KEY,
        purpose TEXT NOT NULL,
        room TEXT NOT NULL,
        tier TEXT NOT NULL,
        sender TEXT NOT NULL,
        created REAL NOT NULL,
        last_turn REAL NOT NULL,
        expires REAL NOT NULL,
        folder TEXT NOT NULL,
        dropped_at REAL,
        dropped_why TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX deliveries_open ON deliveries (folder) WHERE outcome IS NULL;
    CREATE INDEX deliveries_owed ON deliveries (seq) WHERE notice = 'owed';
    CREATE INDEX deliveries_ended ON deliveries (finished_at) WHERE outcome IS NOT NULL;
    CREATE INDEX deliveries_seen ON deliveries (first_seen) WHERE outcome IS NOT NULL;
    CREATE INDEX deliveries_well ON deliveries (finished_at) WHERE outcome = 'delivered';
    CREATE UNIQUE INDEX bindings_key ON bindings (purpose, room, tier, sender)
        WHERE dropped_at IS NULL;
    CREATE INDEX bindings_folder ON bindings (folder);
    """,
)

_PART_FIELDS = Part.__struct_fields__
_ENTRY_FIELDS = tuple(name for name in Entry.__struct_fields__ if name != "parts")
_BINDING_FIELDS = Binding.__struct_fields__

_SELECT = f"SELECT seq, {', '.join(_ENTRY_FIELDS)} FROM deliveries"  # noqa: S608 - ours
_BARE_FIELDS = tuple("NULL AS text" if name == "text" else name for name in _ENTRY_FIELDS)
_SELECT_BARE = f"SELECT seq, {', '.join(_BARE_FIELDS)} FROM deliveries"  # noqa: S608
_SELECT_PARTS = f"SELECT {', '.join(_PART_FIELDS)} FROM parts WHERE seq = ? ORDER BY part"  # noqa: S608
_SELECT_BINDING = f"SELECT {', '.join(_BINDING_FIELDS)} FROM bindings"  # noqa: S608


def _insert(table: str, fields: Iterable[str], verb: str = "INSERT") -> str:
    names = tuple(fields)
    return f"{verb} INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


_INSERT = _insert("deliveries", _ENTRY_FIELDS)
_PUT_PART = _insert("parts", ("seq", "part", *_PART_FIELDS), "INSERT OR REPLACE")
_PUT_BINDING = _insert("bindings", _BINDING_FIELDS, "INSERT OR REPLACE")
_SET = ", ".join(
    "text = CASE WHEN ? THEN text END" if name == "text" else f"{name} = ?"
    for name in _ENTRY_FIELDS
)
_UPDATE = f"UPDATE deliveries SET {_SET} WHERE id = ?"  # noqa: S608


def worker_id(connection: sqlite3.Connection) -> str:
    """The name every key is made under. Raises: sqlite3.Error, ValueError where it is gone."""
    row = connection.execute("SELECT value FROM meta WHERE name = 'worker_id'").fetchone()
    if row is None:
        raise ValueError("it holds no worker id")
    return str(row[0])


def put_meta(connection: sqlite3.Connection, name: str, value: str) -> None:
    connection.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", (name, value))


def has_meta(connection: sqlite3.Connection, name: str) -> bool:
    return connection.execute("SELECT 1 FROM meta WHERE name = ?", (name,)).fetchone() is not None


def find(connection: sqlite3.Connection, delivery_id: str) -> Entry | None:
    """One entry by its id."""
    found = _entries(connection, f"{_SELECT} WHERE id = ?", (delivery_id,))
    return found[0] if found else None


def text(connection: sqlite3.Connection, delivery_id: str) -> str | None:
    """What a delivery in progress says; None: there is no such entry, or it says nothing."""
    sql = "SELECT text FROM deliveries WHERE id = ?"
    row = connection.execute(sql, (delivery_id,)).fetchone()
    return None if row is None or row[0] is None else str(row[0])


def is_there(connection: sqlite3.Connection, delivery_id: str) -> bool:
    sql = "SELECT 1 FROM deliveries WHERE id = ?"
    return connection.execute(sql, (delivery_id,)).fetchone() is not None


def unfinished(connection: sqlite3.Connection) -> tuple[Entry, ...]:
    """In progress, or with a notice owed; oldest first. Their texts are not read: they are many."""
    found = _entries(connection, f"{_SELECT_BARE} WHERE outcome IS NULL")
    found += _entries(connection, f"{_SELECT_BARE} WHERE notice = 'owed'")
    return tuple(sorted(found, key=lambda entry: entry.first_seen))


def everything(connection: sqlite3.Connection) -> tuple[Entry, ...]:
    """The whole ledger, oldest first."""
    return tuple(_entries(connection, f"{_SELECT} ORDER BY seq"))


def insert(connection: sqlite3.Connection, entry: Entry) -> None:
    """A new entry with its parts. Raises: sqlite3.IntegrityError for an id that is there."""
    seq = connection.execute(_INSERT, _values(entry)).lastrowid
    _put_parts(connection, seq, entry)


def update(connection: sqlite3.Connection, entry: Entry) -> bool:
    """The entry's present state; its text stays until the end. False: there is no such entry."""
    row = connection.execute("SELECT seq FROM deliveries WHERE id = ?", (entry.id,)).fetchone()
    if row is None:
        return False
    kept = msgspec.structs.asdict(entry) | {"text": entry.in_progress}
    values = (kept[name] for name in _ENTRY_FIELDS)
    connection.execute(_UPDATE, (*values, entry.id))
    _put_parts(connection, row[0], entry)
    return True


def drop_lapsed(connection: sqlite3.Connection, seen_before: float, ended_before: float) -> int:
    """Entries first seen before that moment go, if they ended before the other. → how many."""
    return _drop(
        connection,
        "SELECT seq FROM deliveries"
        " WHERE outcome IS NOT NULL AND first_seen < ? AND finished_at < ?",
        seen_before,
        ended_before,
    )


def drop_oldest_ended(connection: sqlite3.Connection, ended_before: float) -> int:
    """The oldest finished entry goes, if it ended before that moment. → 0 or 1."""
    return _drop(
        connection,
        "SELECT seq FROM deliveries WHERE outcome IS NOT NULL AND finished_at < ?"
        " ORDER BY finished_at LIMIT 1",
        ended_before,
    )


def count(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM deliveries").fetchone()[0])


def count_open(connection: sqlite3.Connection) -> int:
    sql = "SELECT count(*) FROM deliveries WHERE outcome IS NULL"
    return int(connection.execute(sql).fetchone()[0])


def last_delivered_at(connection: sqlite3.Connection) -> float | None:
    sql = "SELECT max(finished_at) FROM deliveries WHERE outcome = 'delivered'"
    found = connection.execute(sql).fetchone()[0]
    return None if found is None else float(found)


def folder_in_use(connection: sqlite3.Connection, folder: str) -> bool:
    """An entry in progress names it."""
    sql = "SELECT 1 FROM deliveries WHERE outcome IS NULL AND folder = ? LIMIT 1"
    return connection.execute(sql, (folder,)).fetchone() is not None


def put_binding(connection: sqlite3.Connection, binding: Binding) -> None:
    values = msgspec.to_builtins(msgspec.structs.asdict(binding))
    connection.execute(_PUT_BINDING, tuple(values[name] for name in _BINDING_FIELDS))


def bindings(
    connection: sqlite3.Connection, where: str = "", values: tuple[object, ...] = ()
) -> list[Binding]:
    """Rows of bindings; ``where`` is SQL of ours. Raises: msgspec.ValidationError."""
    rows = connection.execute(f"{_SELECT_BINDING} {where}", values).fetchall()
    return [msgspec.convert(dict(zip(_BINDING_FIELDS, row, strict=True)), Binding) for row in rows]


def _entries(
    connection: sqlite3.Connection, sql: str, values: tuple[object, ...] = ()
) -> list[Entry]:
    found = []
    for seq, *row in connection.execute(sql, values).fetchall():
        parts = connection.execute(_SELECT_PARTS, (seq,)).fetchall()
        fields = dict(zip(_ENTRY_FIELDS, row, strict=True))
        fields["parts"] = [dict(zip(_PART_FIELDS, part, strict=True)) for part in parts]
        found.append(msgspec.convert(fields, Entry))
    return found


def _values(entry: Entry) -> tuple[object, ...]:
    return tuple(getattr(entry, name) for name in _ENTRY_FIELDS)


def _put_parts(connection: sqlite3.Connection, seq: int | None, entry: Entry) -> None:
    connection.executemany(
        _PUT_PART,
        [
            (seq, index, *(getattr(part, name) for name in _PART_FIELDS))
            for index, part in enumerate(entry.parts)
        ],
    )


def _drop(connection: sqlite3.Connection, chosen: str, *moments: float) -> int:
    rows = connection.execute(chosen, moments).fetchall()
    connection.executemany("DELETE FROM parts WHERE seq = ?", rows)
    connection.executemany("DELETE FROM deliveries WHERE seq = ?", rows)
    return len(rows)
