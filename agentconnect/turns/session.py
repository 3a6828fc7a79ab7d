"""One session key's line of turns, one at a time (worker.md §13).

Owns the order within a key and the log line at each task's end. It lives while its line holds a
ticket: a silent room costs no task. Invariant: one turn's failure never reaches the next one.
"""

import logging
from collections.abc import Callable

import trio

from agentconnect.core.errors import first_cause
from agentconnect.core.task import SessionKey
from agentconnect.core.turns import wording
from agentconnect.core.turns.queueing import Queue
from agentconnect.turns.reporter import Reporter, post_key
from agentconnect.turns.turn import Ports, Ticket, Turn, guard_of, tier_name

log = logging.getLogger("agentconnect.turns")

ANNOUNCE_WAIT_S = 5.0


class Session:
    """The turns of one key, from the first waiting ticket to the last."""

    def __init__(
        self,
        key: SessionKey,
        queue: Queue[Ticket],
        ports: Ports,
        *,
        on_reporter: Callable[[Reporter], None],
        on_end: Callable[[SessionKey], None],
    ) -> None:
        self.key = key
        self.turn: Turn | None = None
        self.ended = trio.Event()
        self._queue = queue
        self._ports = ports
        self._on_reporter = on_reporter
        self._on_end = on_end

    def __repr__(self) -> str:
        return f"<Session {self.key.room} {self.key.tier}>"

    async def run(self) -> None:
        """Serve until nobody waits. Cancellation: the running ticket stays in the journal."""
        try:
            while (ticket := self._queue.begin(self.key)) is not None:
                ticket.begun = True
                try:
                    await self._serve(ticket)
                finally:
                    self.turn = None
                    self._queue.leave(ticket.id)
        finally:
            self._on_end(self.key)  # with the last look at the line: nothing falls between
            self.ended.set()

    async def _serve(self, ticket: Ticket) -> None:
        """The failure boundary of one turn."""
        began = trio.current_time()
        how = "failed"
        try:
            self.turn = Turn(ticket, self._ports, on_reporter=self._on_reporter)
            how = await self.turn.run()
        except Exception as error:
            log.exception("task=%s the turn could not be finished", ticket.id)
            await self._give_up(ticket, error)
        finally:
            self._report(ticket, trio.current_time() - began, how)

    async def _give_up(self, ticket: Ticket, error: Exception) -> None:
        if self.turn is not None:
            self.turn.give_up()
        body = wording.worker_error(str(first_cause(error)))
        if (guard := guard_of(ticket, self._ports)) is not None:
            body = guard.text("The answer", body)
        base_dir = self._ports.settings.cwd
        try:
            await self._ports.results.complete(ticket.task, body, base_dir=base_dir)
        except Exception:
            log.exception("task=%s is left to be served again", ticket.id)

    def _report(self, ticket: Ticket, seconds: float, how: str) -> None:
        facts = {
            "task": ticket.id,
            "room": ticket.task.room_id,
            "tier": tier_name(ticket),
            "adapter": self._ports.adapter.name,
            "waited_s": round(max(trio.current_time() - ticket.arrived - seconds, 0.0), 3),
            "seconds": round(seconds, 3),
            "reason": how,
        }
        text = " ".join(f"{name}={value}" for name, value in facts.items())
        log.info("%s", text, extra={"facts": {"event": "turn", **facts}})


async def announce(ticket: Ticket, ahead: int, after: trio.Event | None, ports: Ports) -> None:
    """Say that a message waits; dropped where its turn has come or the room cannot be spoken to.

    ``after`` is what stands in front of it (an announcement, the placeholder of the running turn),
    so that the room reads them in order.
    """
    announced = ticket.announced
    assert announced is not None
    room = ticket.task.room_id
    try:
        if after is not None:
            with trio.move_on_after(ANNOUNCE_WAIT_S):  # order is worth no more than this
                await after.wait()
        if not ticket.begun and room and not ports.rooms.cooling(room):
            body = wording.queued(ahead)
            key = post_key(ticket.id, "queued", body)
            await ports.rooms.message(room, body, key=key)
    except Exception:
        log.exception("task=%s the queue message could not be posted", ticket.id)
    finally:
        announced.set()
