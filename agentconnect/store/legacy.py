"""The reference client's journal, read once: ids it had answered, answers it still owed.

``journal.jsonl`` is one JSON object a line, split on line feeds only: an answer may hold any other
line separator raw (relay-wire.md §14). What is understood goes into the database in one commit,
the file is renamed ``.imported``, and lines that make no sense are kept in ``.bad``.
"""

import json
import logging
import math
from pathlib import Path

import msgspec
import trio

from agentconnect.core.errors import StoreUnreadableError
from agentconnect.core.relay.envelope import is_room_id, is_wire_id
from agentconnect.core.relay.journal import State
from agentconnect.core.relay.prepared import ResultPayload, reject_payload
from agentconnect.core.surrogates import replace_surrogates
from agentconnect.store.atomic import fsync_folder, read_file, write_file
from agentconnect.store.database import Database

log = logging.getLogger("agentconnect.store")

STATES = (State.ACCEPTED, State.PENDING, State.DONE)


class Legacy(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of ``(id, state, room, ts, result)`` in the file's order, and the damaged lines."""

    rows: tuple[tuple[str, str, str, float, str], ...] = ()
    damaged: tuple[bytes, ...] = ()


def read_legacy(path: Path) -> Legacy | None:
    """The file's content, or None where there is none.

    Raises: StoreUnreadableError where it is there and cannot be read.
    """
    raw = read_file(path)
    return None if raw is None else parse_legacy(raw)


def parse_legacy(raw: bytes) -> Legacy:
    """Any bytes: what is no record is a damaged line."""
    rows: dict[str, tuple[str, str, str, float, str]] = {}
    damaged: list[bytes] = []
    for line in raw.split(b"\n"):
        if not line.strip():
            continue
        row = _row(line)
        if row is None:
            damaged.append(line)
        else:
            rows.pop(row[0], None)  # the newer line of an id counts, and is the newer answer
            rows[row[0]] = row
    return Legacy(rows=tuple(rows.values()), damaged=tuple(damaged))


def put_aside(path: Path, damaged: tuple[bytes, ...]) -> None:
    """The import is on disk: it is not done again. Raises: OSError."""
    if damaged:
        bad = path.with_name(path.name + ".bad")
        write_file(bad, b"\n".join(damaged) + b"\n")
        log.warning("%s: %d damaged lines are kept in %s", path, len(damaged), bad.name)
    path.replace(path.with_name(path.name + ".imported"))
    fsync_folder(path.parent)


def _row(line: bytes) -> tuple[str, str, str, float, str] | None:
    try:
        found = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not is_wire_id(found.get("id")):
        return None
    task_id, state, room = str(found["id"]), found.get("state"), found.get("room")
    if state not in STATES:
        return None
    result = ""
    if state == State.PENDING:
        result = _payload(task_id, found.get("result"))
        if not result:
            return None
    return (
        task_id,
        str(state),
        room if isinstance(room, str) and is_room_id(room) else "",
        _stamp(found.get("ts")),
        result,
    )


def _payload(task_id: str, result: object) -> str:
    """The request body to post: an answer or a rejection of this very task, else nothing."""
    if not isinstance(result, dict) or result.get("id") != task_id:
        return ""
    if result.get("status") == "rejected":
        return _encoded(reject_payload(task_id, result.get("error_code")))
    body = result.get("body")
    if not isinstance(body, str) or not body.strip():
        return ""
    return _encoded(ResultPayload(id=task_id, body=replace_surrogates(body)))


def _encoded(payload: ResultPayload) -> str:
    return msgspec.json.encode(payload).decode()


def _stamp(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0.0
    try:
        number = float(value)
    except OverflowError:
        return 0.0
    return number if math.isfinite(number) else 0.0


async def import_legacy(database: Database, path: Path) -> None:
    """Ids that are known already are left as they are, so that a repeat changes nothing."""
    legacy = await trio.to_thread.run_sync(read_legacy, path)
    if legacy is None:
        return
    insert = "INSERT OR IGNORE INTO tasks (id, state, room, ts, result) VALUES (?, ?, ?, ?, ?)"
    await database.write([(insert, row) for row in legacy.rows], lambda: None)
    try:
        await trio.to_thread.run_sync(put_aside, path, legacy.damaged)
    except OSError as error:
        raise StoreUnreadableError(f"{path} cannot be put aside: {error.strerror}") from error
    log.info("%s: %d records of an older client taken over", path, len(legacy.rows))
