"""Room ops: messages, edits and uploads that never raise into a turn (relay-wire.md §13).

Each failure belongs to its call or its room. A lost response is asked again where that is safe: an
edit always, a post only under a key. Three calls failing in a row are an outage: then all ops rest,
first 15 s and up to five minutes, until one probing call succeeds.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import trio

from agentconnect.core.errors import RelayError
from agentconnect.core.outcomes import OpResult
from agentconnect.core.relay.envelope import event_id_of, is_room_id, valid_mentions
from agentconnect.core.surrogates import replace_surrogates
from agentconnect.relay.capabilities import Capabilities
from agentconnect.relay.http import Answer, Call, Http, segment, to_json

log = logging.getLogger("agentconnect.relay")

EDIT_CHARS = 4000
RETRIES_S = (0.5, 2.0)
ROOM_COOLS_S = 300.0
BUSY_ROOM_COOLS_S = 30.0
BUSY_MAX_S = 300.0
OUTAGE_FAILURES = 3
OUTAGE_S, OUTAGE_MAX_S = 15.0, 300.0
WITHIN_S = 15.0
UPLOAD_WITHIN_S, UPLOAD_STALL_S = 180.0, 15.0
SERVED = 512
NEVER: Final = float("-inf")


class RoomOps:
    """The room ops of one identity; the cooldowns are by time, on the monotonic clock."""

    def __init__(
        self,
        http: Http,
        capabilities: Capabilities,
        *,
        mono_now: Callable[[], float] = trio.current_time,
    ) -> None:
        self._http = http
        self._capabilities = capabilities
        self._mono_now = mono_now
        self._rooms: dict[str, float] = {}
        self._failures = 0
        self._outage_until = NEVER
        self._outage_s = OUTAGE_S
        self._probing = False
        self._served: dict[str, None] = {}
        self._lines: dict[str, trio.StrictFIFOLock] = {}

    def served(self, event_id: str) -> None:
        """A task came from this message: the broker marks it, a second mark would double it."""
        self._served.pop(event_id, None)
        self._served[event_id] = None
        while len(self._served) > SERVED:
            del self._served[next(iter(self._served))]

    def cooling(self, room_id: str) -> float:
        """Seconds for which ops in this room would be refused without asking; 0.0 = none."""
        now = self._mono_now()
        until = max(self._rooms.get(room_id, NEVER), self._outage_until)
        if until > now:
            return until - now
        self._rooms.pop(room_id, None)
        if self._failures >= OUTAGE_FAILURES and self._probing:
            return 1.0  # the end of an outage is tried by one call
        return 0.0

    async def message(
        self, room_id: str, body: str, *, mentions: Sequence[str] = (), key: str = ""
    ) -> OpResult:
        """Post one message; with ``key`` it is retry-safe where the relay offers keyed posts."""
        if not is_room_id(room_id) or not body.strip():
            return OpResult(ok=False, reason="no room or no text")
        fields = _body(body, mentions)
        keyed = bool(key) and await self._capabilities.keyed_message()
        if keyed:
            call = Call(
                method="POST",
                path=f"/v1/rooms/{segment(room_id)}/messages",
                content=to_json(fields),
                key=self._capabilities.key(key),
                within_s=WITHIN_S,
            )
        else:
            call = _op({"op": "message", "room_id": room_id, **fields})
        return await self._guarded(room_id, call, again=keyed, needs_event=True)

    async def edit(
        self, room_id: str, event_id: str, body: str, *, mentions: Sequence[str] = ()
    ) -> OpResult:
        """Replace a message's text (at most 4000 characters)."""
        if not is_room_id(room_id) or not event_id or not body.strip():
            return OpResult(ok=False, reason="no room, no event or no text")
        fields = _body(body, mentions)
        text = str(fields["body"])
        if len(text) > EDIT_CHARS or len(text.encode("utf-16-le")) // 2 > EDIT_CHARS:
            return OpResult(ok=False, reason="too long to edit")
        call = _op({"op": "edit", "room_id": room_id, "event_id": event_id, **fields})
        return await self._guarded(room_id, call, again=True)

    async def react(self, room_id: str, event_id: str, key: str) -> OpResult:
        """Put a mark on a message; never on one that a task came from."""
        if not is_room_id(room_id) or not event_id or not key.strip():
            return OpResult(ok=False, reason="no room, no event or no mark")
        if event_id in self._served:
            return OpResult(ok=False, reason="the relay marks this message itself")
        fields = {"op": "react", "room_id": room_id, "event_id": event_id}
        call = _op({**fields, "key": replace_surrogates(key)})
        return await self._guarded(room_id, call, again=False)

    async def upload(self, room_id: str, request: bytes, *, key: str = "") -> OpResult:
        """Post one file; ``request`` is the JSON body, ``key`` a finished key or none."""
        if not is_room_id(room_id):
            return OpResult(ok=False, reason="room_unknown")
        call = Call(
            method="POST",
            path=f"/v1/rooms/{segment(room_id)}/media",
            content=request,
            key=key,
            within_s=UPLOAD_WITHIN_S,
            stall_s=UPLOAD_STALL_S,
        )
        return await self._tried(room_id, call, again=bool(key), needs_event=False)

    async def _guarded(
        self, room_id: str, call: Call, *, again: bool, needs_event: bool = False
    ) -> OpResult:
        """One call under the cooldowns, repeated where that is safe; in order within a room."""
        line = self._lines.setdefault(room_id, trio.StrictFIFOLock())
        try:
            line.acquire_nowait()  # nearly always: no turn of the loop then
        except trio.WouldBlock:
            await line.acquire()
        try:
            return await self._tried(room_id, call, again=again, needs_event=needs_event)
        finally:
            line.release()
            if not line.locked():  # else whoever waited has it
                self._lines.pop(room_id, None)

    async def _tried(self, room_id: str, call: Call, *, again: bool, needs_event: bool) -> OpResult:
        cooling = self.cooling(room_id)
        if cooling:
            return OpResult(ok=False, cooling_s=cooling, reason="cooling")
        probing = self._failures >= OUTAGE_FAILURES
        self._probing = self._probing or probing
        try:
            for wait_s in (*RETRIES_S, None):
                try:
                    answer = await self._http.send(call)
                    return self._landed(call, answer, needs_event=needs_event)
                except RelayError as error:
                    safe = again or not error.sent
                    if wait_s is None or not safe or not _transient(error):
                        return self._failed(room_id, error)
                await trio.sleep(wait_s)
            raise AssertionError("the last try returns")
        finally:
            if probing:
                self._probing = False

    def _landed(self, call: Call, answer: Answer, *, needs_event: bool) -> OpResult:
        fields = answer.fields()
        self._failures, self._outage_s, self._outage_until = 0, OUTAGE_S, NEVER
        if fields.get("ok") is False:
            return OpResult(ok=False, status=answer.status, reason="the relay said no")
        if call.key and answer.echo not in ("created", "replayed"):
            self._capabilities.withdraw()
        event_id = event_id_of(fields)
        if needs_event and not event_id:
            return OpResult(
                ok=False, status=answer.status, maybe_sent=True, reason="no event id came back"
            )
        return OpResult(ok=True, status=answer.status, event_id=event_id, echo=answer.echo)

    def _failed(self, room_id: str, error: RelayError) -> OpResult:
        """Cool what has to cool, and say what is known."""
        log.info("room op: %s", error)
        status, now, cooling_s = error.status, self._mono_now(), 0.0
        if status in (400, 403, 404):
            cooling_s = ROOM_COOLS_S
        elif status == 429:
            cooling_s = error.retry_after_s or retry_after_ms(error.body) or BUSY_ROOM_COOLS_S
        if cooling_s:
            self._rooms[room_id] = now + cooling_s
        elif _transient(error) and status != 409:
            self._failures += 1
            if self._failures >= OUTAGE_FAILURES:
                log.warning("room ops rest for %g s: several failed in a row", self._outage_s)
                self._outage_until = now + self._outage_s
                self._outage_s = min(2 * self._outage_s, OUTAGE_MAX_S)
        return OpResult(
            ok=False,
            status=status,
            cooling_s=cooling_s if status == 429 else 0.0,
            maybe_sent=error.sent and (_transient(error) or state_of(error) == "unknown"),
            state=state_of(error),
            reason=str(error),
        )


def _transient(error: RelayError) -> bool:
    """Whether the same call may do better in a moment: no answer, no sense in it, or 5xx."""
    status = error.status
    if status == 409:
        return state_of(error) == "running"
    return status is None or status < 300 or status in (408, 425) or status >= 500


def state_of(error: RelayError) -> str:
    """The word of a 409 (relay-wire.md §3.9)."""
    if error.status != 409:
        return ""
    found = _object(error.body).get("state")
    return found if isinstance(found, str) else ""


def retry_after_ms(body: str) -> float:
    """What a refusal's body asks for, in seconds; 0.0: nothing."""
    found = _object(body).get("retry_after_ms")
    if isinstance(found, (int, float)) and not isinstance(found, bool) and found > 0:
        return min(found / 1000, BUSY_MAX_S)
    return 0.0


def _object(text: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}


def _body(body: str, mentions: Sequence[str]) -> dict[str, object]:
    fields: dict[str, object] = {"body": replace_surrogates(body)}
    known = valid_mentions(list(mentions))
    if len(known) < len(mentions):
        log.info("%d mentions left out", len(mentions) - len(known))
    if known:
        fields["mentions"] = known
    return fields


def _op(fields: dict[str, object]) -> Call:
    return Call(method="POST", path="/v1/room", content=to_json(fields), within_s=WITHIN_S)
