"""Stranded tasks: accepted by a run that kept nothing to run them by (relay-wire.md §14).

Only an import from an older client, or a damaged row, leaves such an id. It counts as in flight,
and what is in flight must be able to fall: an id that is still stranded at a second look, a minute
after the first, is rejected, so that its room is told. Served again meanwhile, it is run.
"""

import logging
from collections.abc import Callable

import msgspec
import trio

from agentconnect.core.errors import StoreUnreadableError
from agentconnect.core.relay.journal import reconcile
from agentconnect.core.relay.prepared import reject_payload
from agentconnect.core.task import TaskId
from agentconnect.relay.outbox import Outbox
from agentconnect.store.journal import Journal

log = logging.getLogger("agentconnect.relay")

EVERY_S = 60.0
REASON = "LOST_IN_A_RESTART"


class Strandings:
    """The sweeper."""

    def __init__(self, journal: Journal, outbox: Outbox, *, allowed: Callable[[], bool]) -> None:
        self._journal = journal
        self._outbox = outbox
        self._allowed = allowed
        self._seen: frozenset[str] = frozenset()

    async def run(self) -> None:
        """Look every minute, until cancelled."""
        while True:
            if self._allowed():
                await self.look()
            await trio.sleep(EVERY_S)

    async def look(self) -> None:
        """One pass. Never raises for the disk."""
        entries = self._journal.accepted()
        live = {entry.id for entry in entries if entry.whole}
        sweep = reconcile(
            ((entry.id, entry.state) for entry in entries), live=live, seen=self._seen
        )
        self._seen = sweep.seen
        for name in sweep.dropped:
            task_id = TaskId(name)
            log.warning("task %s: nothing is left to run it by: rejected", task_id)
            payload = msgspec.json.encode(reject_payload(task_id, REASON)).decode()
            try:
                await self._journal.record_result(task_id, payload)
            except StoreUnreadableError as error:
                log.warning("%s", error)
                return
            self._outbox.post(task_id)
