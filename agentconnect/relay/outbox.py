"""The outbox: recorded answers to the relay, on its own clock (relay-wire.md §3.3, §9).

Rooms side by side, in order within a room, a failure delaying only its own answer. Success is the
only thing that retires one; what the relay refuses for good is parked, never dropped. It posts what
the journal recorded and decides nothing about content, but for cutting what is too large to take.
"""

import logging
import random
from collections.abc import Callable

import msgspec
import trio

from agentconnect.core.errors import AuthRejectedError, RelayError, StoreUnreadableError
from agentconnect.core.relay.cadence import jittered
from agentconnect.core.relay.journal import State
from agentconnect.core.relay.prepared import ResultPayload
from agentconnect.core.task import TaskId
from agentconnect.relay.due import NOTHING, Sends
from agentconnect.relay.http import Answer, Call, Http
from agentconnect.store.journal import Journal

log = logging.getLogger("agentconnect.relay")

AT_ONCE = 16
LADDER_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
"""A quick first retry: most failures are one lost response."""

PARK_TRIES, PARK_AFTER_S = 5, 300.0
AUTH_HOLD_S = 30.0
WITHIN_S = 60.0
CUT_CHARS = 30_000
CUT_LINE = "\n\n(The rest of this answer was too long for the relay to take.)"


class _Owed(msgspec.Struct, kw_only=True):
    task_id: TaskId
    room: str
    payload: str
    echo: bool = False
    due: float = 0.0
    tries: int = 0
    first_failure: float | None = None
    sending: bool = False


class Outbox:
    """Owed answers; :meth:`run` posts them."""

    def __init__(
        self,
        http: Http,
        journal: Journal,
        *,
        changed: Callable[[], None],
        mono_now: Callable[[], float] = trio.current_time,
        unit: Callable[[], float] = random.random,
    ) -> None:
        self._http = http
        self._journal = journal
        self._changed = changed
        self._mono_now = mono_now
        self._unit = unit
        self._rooms: dict[str, dict[TaskId, _Owed]] = {}
        self._sending = 0
        self._held_until = float("-inf")
        self._closing = False
        self._sends = Sends(self._start_due)
        for entry in journal.pending():
            self._add(_Owed(task_id=entry.id, room=entry.room or entry.id, payload=entry.result))

    def post(self, task_id: TaskId) -> None:
        """The journal holds a result for this task: post it."""
        entry = self._journal.entry(task_id)
        if entry is None or entry.state is not State.PENDING:
            return
        self._add(_Owed(task_id=task_id, room=entry.room or task_id, payload=entry.result))

    def complete_again(self, task_id: TaskId, payload: str) -> None:
        """A task answered before was served again: close its new lease; nothing is recorded."""
        self._add(_Owed(task_id=task_id, room=f"again:{task_id}", payload=payload, echo=True))

    def resume(self) -> None:
        """The relay takes our bearer again."""
        self._held_until = float("-inf")
        self._sends.go_on()

    def close(self) -> None:
        """No more answers will come: :meth:`run` returns when the last is posted or parked."""
        self._closing = True
        self._sends.wake()

    async def run(self) -> None:
        """Post until closed and empty."""
        await self._sends.run(lambda: bool(self._rooms) or not self._closing)

    def _add(self, owed: _Owed) -> None:
        room = self._rooms.setdefault(owed.room, {})
        old = room.get(owed.task_id)
        if old is None or not old.sending:
            room[owed.task_id] = owed
        self._changed()
        self._sends.go_on()

    def _start_due(self, sending: trio.Nursery) -> float:
        """Start one send per room that has one due; the seconds until another is."""
        now = self._mono_now()
        if self._held_until > now:
            return self._held_until - now
        rest = NOTHING
        for room in list(self._rooms.values()):
            if self._sending >= AT_ONCE:
                return NOTHING  # the end of a send goes on here
            if any(owed.sending for owed in room.values()):
                continue
            first = next((owed for owed in room.values() if owed.due <= now), None)
            if first is None:
                rest = min(rest, min(owed.due for owed in room.values()) - now)
                continue
            first.sending = True
            self._sending += 1
            sending.start_soon(self._send, first)
        return rest

    async def _send(self, owed: _Owed) -> None:
        call = Call(
            method="POST", path="/v1/results", content=owed.payload.encode(), within_s=WITHIN_S
        )
        try:
            answer = await self._http.send(call)
            self._taken(owed, answer)
        except RelayError as error:
            await self._refused(owed, error)
        finally:
            self._sending -= 1
            owed.sending = False
        self._changed()
        self._sends.go_on()
        if self._closing:
            self._sends.wake()

    def _taken(self, owed: _Owed, answer: Answer) -> None:
        """Raises: RelayError where a 2xx is no success after all."""
        fields = answer.fields()
        if fields.get("ok") is False:
            raise RelayError("the relay asks for the result again", status=answer.status)
        undelivered = fields.get("undelivered") is True
        if undelivered:
            log.warning(
                "task %s: the relay no longer knew it, the answer went nowhere", owed.task_id
            )
        else:
            facts = {"event": "posted", "task": owed.task_id}
            log.info("task %s: the relay has its answer", owed.task_id, extra={"facts": facts})
        known = self._journal.entry(owed.task_id)
        if not owed.echo or (known is not None and known.undelivered and not undelivered):
            self._journal.retire(owed.task_id, undelivered=undelivered)
        self._drop(owed)

    async def _refused(self, owed: _Owed, error: RelayError) -> None:
        now = self._mono_now()
        log.warning("task %s: its result was not taken: %s", owed.task_id, error)
        if isinstance(error, AuthRejectedError) and error.status == 401:
            self._held_until = now + AUTH_HOLD_S  # true for every answer; the poll decides
            return
        if error.status == 413 and not owed.echo and await self._cut(owed):
            return
        if owed.first_failure is None:
            owed.first_failure = now
        wait_s = jittered(LADDER_S[min(owed.tries, len(LADDER_S) - 1)], self._unit())
        owed.tries += 1
        owed.due = now + max(wait_s, error.retry_after_s or 0.0)
        if _permanent(error):
            enough = owed.tries >= PARK_TRIES and now - owed.first_failure >= PARK_AFTER_S
            if owed.echo or enough or error.status == 413:
                self._park(owed, error)

    async def _cut(self, owed: _Owed) -> bool:
        """Replace an answer that is too large by its beginning; False where it is that already."""
        payload = msgspec.json.decode(owed.payload, type=ResultPayload)
        if len(payload.body) <= CUT_CHARS + len(CUT_LINE):
            return False
        payload = msgspec.structs.replace(payload, body=payload.body[:CUT_CHARS] + CUT_LINE)
        owed.payload = msgspec.json.encode(payload).decode()
        try:
            await self._journal.record_result(owed.task_id, owed.payload)
        except StoreUnreadableError as error:  # the next start finds the whole answer: as good
            log.warning("task %s: its shorter answer was not written down: %s", owed.task_id, error)
        return True

    def _park(self, owed: _Owed, error: RelayError) -> None:
        if not owed.echo:
            log.error("task %s: the relay refuses its answer for good: kept", owed.task_id)
            self._journal.park(owed.task_id, f"HTTP {error.status}")
        self._drop(owed)

    def _drop(self, owed: _Owed) -> None:
        room = self._rooms.get(owed.room, {})
        if room.get(owed.task_id) is owed:
            del room[owed.task_id]
        if not room:
            self._rooms.pop(owed.room, None)


def _permanent(error: RelayError) -> bool:
    status = error.status
    return status is not None and 400 <= status < 500 and status not in (401, 403, 408, 425, 429)
