"""Placeholders that are owed a last text: kept until they have it, restarts included.

A turn whose answer went out as a result leaves its first message saying "on it" until an edit
succeeds (worker.md §11). The task's own row is gone by then, so the debt has a table of its own.
Losing a row costs a stale line in a room, never an answer.
"""

from collections.abc import Callable

import msgspec

from agentconnect.core.surrogates import replace_surrogates
from agentconnect.store.database import Database, Statements

KEEP_S = 7 * 86_400.0
"""An older one is given up: nobody reads that far back."""


class Debt(msgspec.Struct, frozen=True, kw_only=True):
    """A message, its room, and the text that it is to show."""

    event_id: str
    room: str
    text: str


class Debts:
    """The table. ``earlier`` holds what the runs before this one left unpaid."""

    def __init__(
        self, database: Database, earlier: tuple[Debt, ...], wall_now: Callable[[], float]
    ) -> None:
        self.earlier = earlier
        self._database = database
        self._wall_now = wall_now

    async def owe(self, room: str, event_id: str, text: str) -> None:
        """A message is owed this text. Raises: StoreUnreadableError."""
        values = (event_id, room, replace_surrogates(text), self._wall_now())
        statements: Statements = [
            (
                "INSERT OR REPLACE INTO debts (event_id, room, text, ts) VALUES (?, ?, ?, ?)",
                values,
            )
        ]
        await self._database.write(statements, lambda: None)

    def paid(self, event_id: str) -> None:
        """It shows it, or never will."""
        self._database.write_later([("DELETE FROM debts WHERE event_id = ?", (event_id,))])


async def load_debts(database: Database, wall_now: Callable[[], float]) -> Debts:
    """Raises: StoreUnreadableError."""
    rows = await database.read("SELECT event_id, room, text, ts FROM debts ORDER BY ts")
    found = [
        (Debt(event_id=str(event_id), room=str(room), text=str(text)), ts)
        for event_id, room, text, ts in rows
    ]
    oldest = wall_now() - KEEP_S
    debts = Debts(
        database,
        tuple(debt for debt, ts in found if isinstance(ts, float) and ts >= oldest),
        wall_now,
    )
    for debt, _ in found:
        if debt not in debts.earlier:
            debts.paid(debt.event_id)
    return debts
