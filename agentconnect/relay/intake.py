"""Intake: what a poll brought, each item on its row of the table (relay-wire.md §7).

One commit per batch before anything is handed over; a task whose commit fails is not handed over
and comes again. Handing over is a plain call: it never waits for a consumer, a download or an ack.
"""

import logging
from collections.abc import Callable

import msgspec
import trio

from agentconnect.core.errors import RelayError
from agentconnect.core.relay.envelope import INVALID_TASK_SCHEMA, Batch
from agentconnect.core.relay.journal import State
from agentconnect.core.relay.prepared import NO_SEND, ResultPayload
from agentconnect.core.task import Task, TaskId
from agentconnect.relay.acks import Acks
from agentconnect.relay.http import Call, Http, to_json
from agentconnect.relay.media import Media
from agentconnect.relay.outbox import Outbox
from agentconnect.store.journal import Journal
from agentconnect.store.rows import Entry

log = logging.getLogger("agentconnect.relay")

REJECT_WITHIN_S = 10.0
MAX_REJECTS = 64

HandOver = Callable[[Task], None]


class Intake:
    """Sorts a batch; ``fetching`` is where downloads and rejections run beside the poll."""

    def __init__(
        self,
        http: Http,
        journal: Journal,
        acks: Acks,
        outbox: Outbox,
        media: Media,
        hand_over: HandOver,
        fetching: trio.Nursery,
        *,
        on_source: Callable[[str], None] = lambda event_id: None,
    ) -> None:
        self._http = http
        self._journal = journal
        self._acks = acks
        self._outbox = outbox
        self._media = media
        self._hand_over = hand_over
        self._fetching = fetching
        self._on_source = on_source

    async def take_up(self) -> None:
        """The accepted, unanswered tasks of an earlier run, before the first poll.

        Their leases may still be ours, so each is acked once more.
        """
        for task in await self._journal.take_up():
            log.info("task %s: taken up from the journal", task.id)
            self._served(task)
            self._deliver(task)
            self._acks.owe(task.id, task.lease_id, urgent=False)

    async def take(self, batch: Batch) -> bool:
        """Sort a batch; whether it held anything new.

        Raises: StoreUnreadableError where the new tasks could not be recorded.
        """
        if batch.unusable:
            log.warning("%d items of a poll have no usable id", batch.unusable)
        for name in batch.rejects[:MAX_REJECTS]:
            self._fetching.start_soon(self._reject, name)
        fresh: dict[TaskId, Task] = {}
        again: list[Task] = []
        for task in batch.tasks:
            self._served(task)
            entry = self._journal.entry(task.id)
            if task.id in fresh:
                again.append(task)
            elif entry is not None and not self._journal.stranded(task.id):
                self._known(task, entry)
            else:
                fresh[task.id] = task
        if fresh:
            await self._journal.accept(list(fresh.values()))
        for task in fresh.values():
            self._deliver(task)
            self._acks.owe(task.id, task.lease_id, urgent=False)
        for task in again:
            self._journal.leased(task.id, task.lease_id)
            self._acks.owe(task.id, task.lease_id, urgent=True)
        return bool(fresh)

    def _served(self, task: Task) -> None:
        """The message behind a task carries the broker's own mark: nobody reacts to it."""
        if task.source_message_id:
            self._on_source(task.source_message_id)

    def _known(self, task: Task, entry: Entry) -> None:
        """A task served again: nothing is run twice."""
        if entry.state is State.DONE:
            log.info("task %s was answered before: closed again", task.id)
            payload = entry.result if entry.undelivered else ""
            self._outbox.complete_again(task.id, payload or _silence(task.id))
            return
        log.info("task %s is served again while %s", task.id, entry.state)
        self._journal.leased(task.id, task.lease_id)
        if entry.state is State.PARKED:
            self._journal.unpark(task.id)
            self._outbox.post(task.id)
            return
        self._acks.owe(task.id, task.lease_id, urgent=True)

    def _deliver(self, task: Task) -> None:
        """Hand over now, or when its bytes are there."""
        if task.media:
            self._fetching.start_soon(self._fetch, task)
        else:
            self._give(task)

    async def _fetch(self, task: Task) -> None:
        attachments = await self._media.fetch(task)
        self._give(msgspec.structs.replace(task, attachments=attachments))

    def _give(self, task: Task) -> None:
        try:
            self._hand_over(task)
        except Exception:  # one task never ends the poller
            log.exception("task %s could not be handed over", task.id)

    async def _reject(self, name: str) -> None:
        """Best effort: an id that breaks the rules cannot be kept or answered otherwise."""
        body = {"id": name, "status": "rejected", "error_code": INVALID_TASK_SCHEMA}
        call = Call(
            method="POST", path="/v1/results", content=to_json(body), within_s=REJECT_WITHIN_S
        )
        try:
            await self._http.send(call)
        except RelayError as error:
            log.warning("an unusable task could not be rejected: %s", error)


def _silence(task_id: TaskId) -> str:
    return msgspec.json.encode(ResultPayload(id=task_id, body=NO_SEND)).decode()
