"""What an agent posts after its turn: marked when it is posted, shown with what it came after.

The relay sees it by itself where the agent has no open task in the room. During another turn there
only the worker can say: ``told``, from whoever started relay and worker together.
"""

from collections.abc import Sequence

import msgspec

from agentconnect.embedded.store import Tx

_TABLE = "CREATE TABLE IF NOT EXISTS late_posts (event_id TEXT PRIMARY KEY, after TEXT NOT NULL)"
_FOUND = """SELECT l.event_id, l.after, COALESCE(u.name, '') AS sender,
    COALESCE(m.body, '') AS text FROM late_posts l LEFT JOIN messages m ON m.event_id = l.after
    LEFT JOIN users u ON u.user_id = m.sender"""
_CHARS = 120


class Late(msgspec.Struct, frozen=True, kw_only=True):
    """A mark as it is shown. ``after``: the request whose turn ended last before it, if any."""

    event_id: str
    after: str
    sender: str
    text: str


def prepare(tx: Tx) -> None:
    """Make room for marks; a database from before has none."""
    tx.run(_TABLE)


def mark(tx: Tx, agent_id: str, room_id: str, event_id: str, *, told: bool) -> None:
    """Mark a keyed post of an agent, if it comes after its turn."""
    open_tasks = tx.number(
        "SELECT COUNT(*) FROM tasks WHERE agent_id = ? AND room_id = ? "
        "AND state IN ('queued', 'leased')",
        agent_id,
        room_id,
    )
    if open_tasks and not told:
        return
    after = tx.text(
        "SELECT source FROM tasks WHERE agent_id = ? AND room_id = ? "
        "AND state NOT IN ('queued', 'leased') ORDER BY finished DESC, seq DESC LIMIT 1",
        agent_id,
        room_id,
    )
    tx.run("INSERT INTO late_posts (event_id, after) VALUES (?, ?)", event_id, after)


def found(tx: Tx, event_ids: Sequence[str]) -> dict[str, Late]:
    """The marks of these messages."""
    if not event_ids:
        return {}
    marks = ", ".join("?" * len(event_ids))
    rows = tx.all(Late, f"{_FOUND} WHERE l.event_id IN ({marks})", *event_ids)
    return {row.event_id: msgspec.structs.replace(row, text=_short(row.text)) for row in rows}


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _CHARS else f"{line[: _CHARS - 1]}…"
