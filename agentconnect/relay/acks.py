"""Acks: sent beside everything else, owed until they arrive (relay-wire.md §3.2, §8).

An ack keeps a lease alive, so a failed one is repeated within the lease. A relay without the route
pauses ordinary acks for five minutes; urgent ones (a re-serve proves a lease about to die) go out
all the same and are the probe that ends the pause.
"""

import logging
from collections.abc import Callable
from urllib.parse import quote

import msgspec
import trio

from agentconnect.core.errors import RelayError
from agentconnect.core.relay.cadence import remaining_s
from agentconnect.core.relay.envelope import is_not_leased
from agentconnect.core.task import TaskId
from agentconnect.relay.due import NOTHING, Sends
from agentconnect.relay.http import Call, Http, to_json

log = logging.getLogger("agentconnect.relay")

PAUSE_S = 300.0
BACKLOG = 1024
AT_ONCE = 8
FIRST_RETRY_S = 0.5
RETRIES_S = (2.0, 4.0, 8.0, 16.0, 30.0)
CALL_WITHIN_S = 10.0
LEASE_ID_CHARS = 256


class _Owed(msgspec.Struct, kw_only=True):
    task_id: TaskId
    lease_id: str
    urgent: bool
    due: float = 0.0
    tries: int = 0
    sending: bool = False


class Acks:
    """The owed acks and their sender."""

    def __init__(
        self,
        http: Http,
        *,
        wanted: Callable[[TaskId], bool],
        changed: Callable[[], None],
        mono_now: Callable[[], float] = trio.current_time,
    ) -> None:
        self._http = http
        self._wanted = wanted
        self._changed = changed
        self._mono_now = mono_now
        self._owed: dict[TaskId, _Owed] = {}
        self._paused_until: float | None = None
        self._sending = 0
        self._sends = Sends(self._start_due)

    def owe(self, task_id: TaskId, lease_id: str, *, urgent: bool) -> None:
        """Send an ack for this serve as soon as may be; a newer serve replaces an older one."""
        lease_id = lease_id if len(lease_id) <= LEASE_ID_CHARS else ""
        self._owed.pop(task_id, None)
        self._owed[task_id] = _Owed(task_id=task_id, lease_id=lease_id, urgent=urgent)
        while len(self._owed) > BACKLOG:
            del self._owed[next(iter(self._owed))]
        self._sends.go_on()

    def paused_s(self) -> float:
        """What is left of the pause for a missing route."""
        return remaining_s(self._paused_until, mono_now=self._mono_now())

    async def run(self) -> None:
        """Send what is owed, oldest first, several side by side, until cancelled."""
        await self._sends.run(lambda: True)

    def _start_due(self, sending: trio.Nursery) -> float:
        """Start the sends that are due; the seconds until another one is."""
        now, paused = self._mono_now(), self.paused_s()
        rest = NOTHING
        for owed in list(self._owed.values()):
            if self._sending >= AT_ONCE:
                return NOTHING  # the end of a send goes on here
            if owed.sending:
                continue
            if not self._wanted(owed.task_id):
                del self._owed[owed.task_id]
                continue
            due = owed.due if owed.urgent else max(owed.due, now + paused)
            if due > now:
                rest = min(rest, due - now)
                continue
            owed.sending = True
            self._sending += 1
            sending.start_soon(self._send, owed)
        return rest

    async def _send(self, owed: _Owed) -> None:
        try:
            if self._owed.get(owed.task_id) is owed:  # else the same batch had a newer serve
                await self._http.send(_call(owed))
                self._resume()
                self._settle(owed)
        except RelayError as error:
            self._failed(owed, error)
        finally:
            self._sending -= 1
            owed.sending = False
        self._sends.go_on()

    def _failed(self, owed: _Owed, error: RelayError) -> None:
        if error.status == 404 and is_not_leased(error.body):
            log.info("task %s: its lease is gone", owed.task_id)
            self._settle(owed)
            return
        if error.status in (404, 405):
            log.warning("the relay takes no acks: paused for %g s", PAUSE_S)
            self._paused_until = self._mono_now() + PAUSE_S
            self._changed()
        wait = FIRST_RETRY_S if not owed.tries else RETRIES_S[min(owed.tries, len(RETRIES_S)) - 1]
        owed.tries += 1
        owed.due = self._mono_now() + max(wait, error.retry_after_s or 0.0)

    def _settle(self, owed: _Owed) -> None:
        """Forget it, unless a newer serve of the same task is owed by now."""
        if self._owed.get(owed.task_id) is owed:
            del self._owed[owed.task_id]

    def _resume(self) -> None:
        if self._paused_until is not None:
            self._paused_until = None
            self._changed()


def _call(owed: _Owed) -> Call:
    body: dict[str, object] = {"id": owed.task_id, "durable": True}
    if owed.lease_id:
        body["lease_id"] = owed.lease_id
    return Call(
        method="POST",
        path=f"/v1/tasks/{quote(owed.task_id, safe='')}/ack",
        content=to_json(body),
        within_s=CALL_WITHIN_S,
    )
