"""Keyed posts of deferred deliveries, and the files they send (deferred-delivery.md §5, §10).

Each call is tried once: what its answer means and when it is tried again is the courier's to say.
These posts respect the cooldowns of the room ops and never cause one: they have retries of their
own. The same part is the same bytes in every run, since the relay binds a key to them.
"""

import base64
import hashlib
from collections.abc import Callable, Sequence

import trio

from agentconnect.core.delivery.effects import Judged
from agentconnect.core.delivery.ledger import Part
from agentconnect.core.delivery.posting import Reply
from agentconnect.core.delivery.request import FileRef
from agentconnect.core.errors import RelayError
from agentconnect.core.relay.envelope import event_id_of, upload_filename
from agentconnect.core.relay.refusals import refusal_words
from agentconnect.core.surrogates import replace_surrogates
from agentconnect.relay.egress import Outgoing, Refusal
from agentconnect.relay.exports import Exports
from agentconnect.relay.http import Answer, Call, Http, segment, to_json
from agentconnect.relay.roomops import (
    UPLOAD_STALL_S,
    UPLOAD_WITHIN_S,
    WITHIN_S,
    RoomOps,
    retry_after_ms,
    state_of,
)

TEXTS_AT_ONCE, FILES_AT_ONCE = 8, 4
"""So many at most of the connections that turns need too; a file is also held in memory."""
READS_AT_ONCE = 2

CHANGED = "it is not the file that was accepted"

Inspect = Callable[[str, bytes], str]
"""Why a file (its name, its content) may not go out; "": it may."""


class KeyedPosts:
    """The posts of deliveries. None of its calls raises for a failure of relay or disk."""

    def __init__(self, http: Http, rooms: RoomOps, exports: Exports) -> None:
        self._http = http
        self._rooms = rooms
        self._exports = exports
        self._texts = trio.CapacityLimiter(TEXTS_AT_ONCE)
        self._files = trio.CapacityLimiter(FILES_AT_ONCE)
        self._reads = trio.CapacityLimiter(READS_AT_ONCE)

    async def text(self, room: str, key: str, text: str) -> Reply:
        """Post a text, once."""
        async with self._texts:
            return await self._post(
                room,
                Call(
                    method="POST",
                    path=f"/v1/rooms/{segment(room)}/messages",
                    content=to_json({"body": replace_surrogates(text)}),
                    key=key,
                    once=True,
                    within_s=WITHIN_S,
                ),
            )

    async def file(self, room: str, key: str, folder: str, part: Part) -> Reply:
        """Judge a file again and post it, once; ``unfit`` unless its bytes are those accepted."""
        async with self._files:
            found = await trio.to_thread.run_sync(self._wrapped, folder, part, limiter=self._reads)
            if isinstance(found, str):
                return Reply(unfit=found, sent=False)
            return await self._post(
                room,
                Call(
                    method="POST",
                    path=f"/v1/rooms/{segment(room)}/media",
                    content=found,
                    key=key,
                    once=True,
                    within_s=UPLOAD_WITHIN_S,
                    stall_s=UPLOAD_STALL_S,
                ),
            )

    async def judge(
        self, folder: str, parts: Sequence[Part], inspect: Inspect | None = None
    ) -> Judged:
        """Open and judge files below one binding's folder, and ``inspect`` each, in a thread."""
        return await trio.to_thread.run_sync(
            self._judge, folder, tuple(parts), inspect, limiter=self._reads
        )

    def _judge(self, folder: str, parts: tuple[Part, ...], inspect: Inspect | None) -> Judged:
        found: list[tuple[int, str]] = []
        for at, part in enumerate(parts):
            file = self._read(folder, part)
            why = file if isinstance(file, str) else ""
            if isinstance(file, Outgoing):
                why = inspect(part.name, file.content) if inspect else ""
                found.append((len(file.content), hashlib.sha256(file.content).hexdigest()))
            if why:
                return Judged(found=tuple(found[:at]), unfit=why, at=at)
        return Judged(found=tuple(found))

    def _wrapped(self, folder: str, part: Part) -> bytes | str:
        """The request's body, or why the file is not sent."""
        file = self._read(folder, part)
        if isinstance(file, str):
            return file
        if hashlib.sha256(file.content).hexdigest() != part.sha256:
            return CHANGED
        content = base64.b64encode(file.content).decode("ascii")
        return to_json({"content_b64": content, "filename": upload_filename(part.name)})

    def _read(self, folder: str, part: Part) -> Outgoing | str:
        found = self._exports.read(folder, FileRef(uri=part.uri).path)
        return _words(found) if isinstance(found, Refusal) else found

    async def _post(self, room: str, call: Call) -> Reply:
        cooling_s = self._rooms.cooling(room)
        if cooling_s:
            return Reply(sent=False, cooling_s=cooling_s)
        try:
            return _landed(await self._http.send(call))
        except RelayError as error:
            if not error.sent:
                return Reply(sent=False)
            return Reply(
                status=error.status,
                state=state_of(error),
                retry_after_s=error.retry_after_s or retry_after_ms(error.body),
            )


def _landed(answer: Answer) -> Reply:
    """A 2xx; one without an event id, or that says no, is no answer to go by."""
    try:
        fields = answer.fields()
    except RelayError:
        fields = {}
    said_no = fields.get("ok") is False
    return Reply(
        status=answer.status,
        event_id="" if said_no else event_id_of(fields),
        echo=answer.echo.strip().lower(),
    )


def _words(refusal: Refusal) -> str:
    match refusal.code:
        case "missing":
            return "it is not there"
        case "outside":
            return "it is not in the export folder of this binding"
    return refusal_words(refusal.code, size=refusal.size, limit=refusal.limit)
