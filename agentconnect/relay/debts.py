"""Pays what an earlier run owed: placeholders that still say "on it" under a finished answer.

Runs once, beside the poller, over the debts the journal held at its start (worker.md §11). Debts of
this run are their turn's to pay. One that the relay refuses for good is given up; others are tried
again, later and later.
"""

import logging

import trio

from agentconnect.relay.roomops import RoomOps
from agentconnect.store.debts import Debt
from agentconnect.store.journal import Journal

log = logging.getLogger("agentconnect.relay")

WAITS_S = (5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0)
TRIES = 300
"""About a day of one run; the next start tries again."""

REFUSED_FOR_GOOD = frozenset({400, 404, 413})


async def pay_debts(journal: Journal, rooms: RoomOps) -> None:
    """Edit every owed message; returns when all are paid or given up."""
    open_debts = list(journal.debts.earlier)
    for turn in range(TRIES):
        open_debts = [debt for debt in open_debts if not await _paid(debt, journal, rooms)]
        if not open_debts:
            return
        await trio.sleep(WAITS_S[min(turn, len(WAITS_S) - 1)])
    log.warning("%d messages could not be brought up to date", len(open_debts))


async def _paid(debt: Debt, journal: Journal, rooms: RoomOps) -> bool:
    result = await rooms.edit(debt.room, debt.event_id, debt.text)
    if not result.ok and result.status not in REFUSED_FOR_GOOD:
        return False
    journal.paid(debt.event_id)
    return True
