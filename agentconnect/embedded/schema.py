"""The relay's tables and how the file that holds them is opened: fail closed (stack.md §6).

Plain SQL that PostgreSQL takes too: no implicit row ids, no SQLite functions. *Must not lose*:
a file that is damaged, empty or somebody else's is never taken for a new one.
"""

import os
import sqlite3
from pathlib import Path

from agentconnect.core.errors import StoreUnreadableError
from agentconnect.embedded.syncs import sync_folder

_APPLICATION_ID = 0x41474352
_VERSION = 1

_TABLES = (
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE counters (name TEXT PRIMARY KEY, value BIGINT NOT NULL)",
    """CREATE TABLE users (user_id TEXT PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL,
        owner_id TEXT NOT NULL, admin INTEGER NOT NULL, removed INTEGER NOT NULL,
        created DOUBLE PRECISION NOT NULL, heartbeat TEXT NOT NULL)""",
    # role: bearer (an agent's), link (a person's page link), session (a browser's cookie)
    """CREATE TABLE secrets (hash TEXT PRIMARY KEY, user_id TEXT NOT NULL, role TEXT NOT NULL,
        created DOUBLE PRECISION NOT NULL)""",
    """CREATE TABLE rooms (room_id TEXT PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL,
        sensitive INTEGER NOT NULL, created DOUBLE PRECISION NOT NULL, creator TEXT NOT NULL)""",
    """CREATE TABLE members (room_id TEXT NOT NULL, user_id TEXT NOT NULL, tier TEXT NOT NULL,
        moderator INTEGER NOT NULL, joined DOUBLE PRECISION NOT NULL, read_seq BIGINT NOT NULL,
        PRIMARY KEY (room_id, user_id))""",
    "CREATE INDEX members_by_user ON members (user_id)",
    """CREATE TABLE trust (owner_id TEXT NOT NULL, user_id TEXT NOT NULL, level TEXT NOT NULL,
        PRIMARY KEY (owner_id, user_id))""",
    """CREATE TABLE messages (event_id TEXT PRIMARY KEY, room_id TEXT NOT NULL,
        seq BIGINT NOT NULL, sender TEXT NOT NULL, ts DOUBLE PRECISION NOT NULL,
        kind TEXT NOT NULL, body TEXT NOT NULL, reply_to TEXT NOT NULL, media_id TEXT NOT NULL,
        edited INTEGER NOT NULL, redacted INTEGER NOT NULL, task_id TEXT NOT NULL,
        placeholder INTEGER NOT NULL)""",
    "CREATE UNIQUE INDEX messages_by_room ON messages (room_id, seq)",
    "CREATE INDEX messages_by_task ON messages (task_id)",
    """CREATE TABLE reactions (event_id TEXT NOT NULL, key TEXT NOT NULL, sender TEXT NOT NULL,
        seq BIGINT NOT NULL, PRIMARY KEY (event_id, key, sender))""",
    """CREATE TABLE events (seq BIGINT PRIMARY KEY, room_id TEXT NOT NULL, kind TEXT NOT NULL,
        event_id TEXT NOT NULL, sender TEXT NOT NULL, only_user TEXT NOT NULL,
        ts DOUBLE PRECISION NOT NULL)""",
    """CREATE TABLE media (media_id TEXT PRIMARY KEY, room_id TEXT NOT NULL, name TEXT NOT NULL,
        mime TEXT NOT NULL, size BIGINT NOT NULL, created DOUBLE PRECISION NOT NULL)""",
    """CREATE TABLE tasks (id TEXT PRIMARY KEY, agent_id TEXT NOT NULL, room_id TEXT NOT NULL,
        source TEXT NOT NULL, body TEXT NOT NULL, seq BIGINT NOT NULL, state TEXT NOT NULL,
        until DOUBLE PRECISION NOT NULL, acked INTEGER NOT NULL, extended INTEGER NOT NULL,
        attempt INTEGER NOT NULL, lease_id TEXT NOT NULL, greeted INTEGER NOT NULL,
        served_seq BIGINT NOT NULL, placeholder TEXT NOT NULL, rejected INTEGER NOT NULL,
        answer TEXT NOT NULL, finished DOUBLE PRECISION NOT NULL)""",
    "CREATE INDEX tasks_by_agent ON tasks (agent_id, state, seq)",
    "CREATE INDEX tasks_by_state ON tasks (state, finished)",
    "CREATE INDEX tasks_by_source ON tasks (source)",
    """CREATE TABLE post_keys (user_id TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL,
        state TEXT NOT NULL, answer TEXT NOT NULL, created DOUBLE PRECISION NOT NULL,
        until DOUBLE PRECISION NOT NULL, PRIMARY KEY (user_id, key))""",
    "CREATE INDEX post_keys_by_age ON post_keys (created)",
    "INSERT INTO counters (name, value) VALUES ('seq', 0)",
)


def open_database(
    path: Path, *, must_exist: bool = False, checked: bool = False
) -> sqlite3.Connection:
    """Open the relay's database, creating it only where there is none.

    ``checked``: this process has looked through it already.

    Raises:
        StoreUnreadableError: the file is there and is not a whole database of this version.
    """
    try:
        if not must_exist and not path.exists():
            _create(path)
        return _open(path, checked=checked)
    except (sqlite3.Error, OSError) as error:
        raise StoreUnreadableError(f"the relay's database {path.name} cannot be read") from error


def _create(path: Path) -> None:
    fresh = path.with_name(path.name + ".new")
    for leftover in (fresh, fresh.with_name(fresh.name + "-journal")):
        leftover.unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    connection = sqlite3.connect(fresh, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={_VERSION}")
        connection.execute("COMMIT")
    finally:
        connection.close()
    # renamed whole: a crash before this line leaves no half-made database behind
    fresh.rename(path)
    sync_folder(path.parent)


def _open(path: Path, *, checked: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=512,
    )
    try:
        if not checked:
            _check(connection, path.name)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA busy_timeout=0")
        connection.row_factory = sqlite3.Row
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection, name: str) -> None:
    if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
        raise StoreUnreadableError(f"{name} is not a database of this relay")
    if connection.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
        raise StoreUnreadableError(f"{name} was written by another version of this relay")
    if connection.execute("PRAGMA quick_check").fetchone()[0] != "ok":
        raise StoreUnreadableError(f"the relay's database {name} is damaged")
