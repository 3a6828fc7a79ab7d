"""Server-sent events: the page's stream and the worker's (relay-wire.md §19).

A stream holds no queue: it keeps a cursor into the log of changes and reads on when a bell rings.
A slow reader therefore costs nothing, and a reader that comes back goes on where it was.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
import trio
from starlette.requests import Request

from agentconnect.embedded import auth, rooms, view
from agentconnect.embedded.bodies import Refusal, refused, whole_number
from agentconnect.embedded.house import House
from agentconnect.embedded.records import Event
from agentconnect.embedded.store import Tx
from agentconnect.embedded.wire import only_get

_BATCH = 200
_STREAMS = 4
_WITH_MESSAGE = frozenset({"message", "edit", "react", "redact"})
_SINCE = """SELECT seq, room_id, kind, event_id, sender, ts FROM events WHERE seq > ?
    AND (only_user = ? OR (only_user = '' AND room_id IN
        (SELECT room_id FROM members WHERE user_id = ?)))
    ORDER BY seq LIMIT ?"""

Write = Callable[[bytes], Awaitable[None]]


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """What a stream has to say, and where it stands afterwards."""

    frames: list[bytes]
    cursor: int
    more: bool = False
    reset: bool = False


def head(tx: Tx) -> int:
    """The newest number of the log."""
    return tx.number("SELECT value FROM counters WHERE name = 'seq'")


def cursor_of(request: Request, default: int) -> int:
    """Where a client says it stands; ``Last-Event-ID`` wins."""
    for said in (request.headers.get("last-event-id"), request.query_params.get("cursor")):
        if (number := whole_number(said)) is not None:
            return number
    return default


def frame(event: str, data: object, seq: int | None = None) -> bytes:
    """One frame; ``seq`` moves the client's cursor."""
    lead = b"" if seq is None else b"id: %d\n" % seq
    name = f"event: {event}\n".encode() if event else b""
    return lead + name + b"data: " + msgspec.json.encode(data) + b"\n\n"


def page_batch(tx: Tx, user_id: str, cursor: int, steps_of: Callable[[str], list[str]]) -> Batch:
    """What changed for a person since their cursor."""
    newest = head(tx)
    oldest = tx.number("SELECT MIN(seq) FROM events")
    if cursor > newest or (oldest and cursor < oldest - 1) or (not oldest and cursor < newest):
        return Batch(frames=[frame("reset", {}, newest)], cursor=newest, reset=True)
    found = tx.all(Event, _SINCE, cursor, user_id, user_id, _BATCH)
    frames = []
    for event in found:
        data: dict[str, Any] = {"room_id": event.room_id}
        if event.kind in _WITH_MESSAGE:
            message = rooms.message(tx, event.room_id, event.event_id)
            if message is not None:
                data["message"] = view.messages(tx, [message], steps_of)[0]
        frames.append(frame(event.kind, data, event.seq))
    more = len(found) == _BATCH
    return Batch(frames=frames, cursor=found[-1].seq if more else newest, more=more)


def worker_batch(tx: Tx, user_id: str, cursor: int) -> Batch:
    """What changed in an identity's rooms since its cursor."""
    newest = head(tx)
    found = tx.all(Event, _SINCE, cursor, user_id, user_id, _BATCH)
    frames = [
        frame(
            "",
            {
                "cursor": e.seq,
                "type": e.kind,
                "room_id": e.room_id,
                "event_id": e.event_id,
                "sender": e.sender,
                "ts": e.ts,
            },
            e.seq,
        )
        for e in found
    ]
    more = len(found) == _BATCH
    return Batch(frames=frames, cursor=found[-1].seq if more else newest, more=more)


def _page_step(
    tx: Tx, user_id: str, cursor: int, steps_of: Callable[[str], list[str]]
) -> tuple[Batch, list[str]]:
    return page_batch(tx, user_id, cursor, steps_of), _around(tx, user_id)


class PageEvents:
    """``GET /page/events``."""

    def __init__(self, house: House, origins: auth.Origins) -> None:
        self._house = house
        self._origins = origins

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        house, request = self._house, Request(scope, receive)
        try:
            only_get(request)
            self._origins.check(request, changing=False)
            user_id = auth.visitor(request, house.directory, house.cookie)
        except Refusal as refusal:
            await refused(refusal)(scope, receive, send)
            return
        cursor = cursor_of(request, await house.store.read(head))
        with house.presence.watching(user_id):
            session = request.cookies.get(house.cookie, "")
            await stream(receive, send, partial(self._follow, user_id, session, cursor))

    async def _follow(self, user_id: str, session: str, cursor: int, write: Write) -> None:
        house = self._house
        known: dict[str, bool] | None = None
        while not house.bells.stopping:
            bell = house.bells.of_changes()
            batch, present = await house.store.browse(
                partial(_page_step, user_id=user_id, cursor=cursor, steps_of=house.steps.of)
            )
            cursor = batch.cursor
            frames = list(batch.frames)
            online = {other: house.presence.online(other, house.now()) for other in present}
            frames += [
                frame("presence", {"user_id": other, "online": there})
                for other, there in online.items()
                if known is not None and known.get(other) is not there
            ]
            known = online
            if frames:
                await write(b"".join(frames))
            if not batch.more:
                await _bell_or_comment(bell, house.timing.comment_s, write)
            if house.directory.who("session", session) != user_id:  # signed out, or removed
                return


class WorkerEvents:
    """``GET /v1/events/stream``."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        house, request = self._house, Request(scope, receive)
        try:
            only_get(request)
            agent_id = await house.admit(request)
            self._admit(agent_id)
        except Refusal as refusal:
            await refused(refusal)(scope, receive, send)
            return
        newest = await house.store.read(head)
        cursor = min(cursor_of(request, newest), newest)  # one from nowhere: what is new from here
        self._open[agent_id] += 1
        try:
            await stream(receive, send, lambda write: self._follow(agent_id, cursor, write))
        finally:
            self._open[agent_id] -= 1

    def _admit(self, agent_id: str) -> None:
        if self._open[agent_id] >= _STREAMS:
            raise Refusal(503, "This identity has four streams open already.")

    async def _follow(self, agent_id: str, cursor: int, write: Write) -> None:
        house = self._house
        while not house.bells.stopping:
            bell = house.bells.of_changes()
            batch = await house.store.browse(partial(worker_batch, user_id=agent_id, cursor=cursor))
            cursor = batch.cursor
            if batch.frames:
                await write(b"".join(batch.frames))
            if not batch.more:
                await _bell_or_comment(bell, house.timing.comment_s, write)
            if house.directory.is_gone(agent_id):
                return


async def stream(receive: Any, send: Any, follow: Callable[[Write], Awaitable[None]]) -> None:
    """Answer with an event stream that ends when the client leaves or ``follow`` returns."""
    headers = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})

    async def write(data: bytes) -> None:
        await send({"type": "http.response.body", "body": data, "more_body": True})

    async with trio.open_nursery() as watch:

        async def until_gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            watch.cancel_scope.cancel()

        watch.start_soon(until_gone)
        await write(b": open\n\n")
        await follow(write)
        watch.cancel_scope.cancel()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _bell_or_comment(bell: trio.Event, comment_s: float, write: Write) -> None:
    with trio.move_on_after(comment_s) as silence:
        await bell.wait()
    if silence.cancelled_caught:
        await write(b": keepalive\n\n")


def _around(tx: Tx, user_id: str) -> list[str]:
    return tx.texts(
        "SELECT DISTINCT o.user_id FROM members o JOIN members m ON m.room_id = o.room_id "
        "WHERE m.user_id = ? AND o.user_id <> ?",
        user_id,
        user_id,
    )
