"""The worker's room endpoints (relay-wire.md §3.6-§3.9): ops, messages and files, keyed or not."""

from collections.abc import Callable
from typing import Any

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import Response

from agentconnect.embedded import answers, keys, late, media, rooms, talk
from agentconnect.embedded.bodies import Refusal, answer, decode, raw_json, read, read_as
from agentconnect.embedded.house import House, place_file
from agentconnect.embedded.keys import Claim
from agentconnect.embedded.records import Message, Room
from agentconnect.embedded.routes import Route
from agentconnect.embedded.store import Tx
from agentconnect.embedded.timing import (
    EDIT_CHARS,
    JSON_BYTES,
    LATE_CHARS,
    MEDIA_BYTES,
    MEDIA_REQUEST_BYTES,
    MESSAGE_CHARS,
)
from agentconnect.embedded.wire import bearer

_MENTIONS = 10
_KEY_CHARS = 64
_NO_ROOM = "There is no such room for this identity."
_NO_EVENT = "There is no such message in this room."


class RoomOp(msgspec.Struct, frozen=True, kw_only=True):
    """One room op; which members it needs depends on ``op``."""

    op: str
    room_id: str
    body: str = ""
    event_id: str = ""
    key: str = ""
    mentions: list[str] = []
    reason: str = ""


class KeyedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of ``POST /v1/rooms/{room}/messages``."""

    body: str
    mentions: list[str] = []


class Upload(msgspec.Struct, frozen=True, kw_only=True):
    """A file of ``POST /v1/rooms/{room}/media``."""

    content_b64: str
    filename: str = ""
    caption: str = ""


async def room_op(house: House, agent_id: str, request: Request) -> Response:
    """``POST /v1/room``."""
    said = await read_as(request, RoomOp, JSON_BYTES)
    handle = _OPS.get(said.op)
    if handle is None:
        raise Refusal(400, "The op is not known.")

    def unit(tx: Tx) -> dict[str, Any]:
        room = rooms.get(tx, said.room_id, agent_id)
        if room is None:
            raise Refusal(404, _NO_ROOM)
        return handle(tx, room, agent_id, said)

    step = said.op in ("edit", "react") or said.body.strip() == answers.PLACEHOLDER
    done = await house.store.write(unit, durable=not step)
    if said.op == "edit" and said.body.startswith(answers.PLACEHOLDER[0]):
        house.steps.note(said.event_id, said.body)
    return answer(done)


def _message(tx: Tx, room: Room, agent_id: str, said: RoomOp) -> dict[str, Any]:
    check_body(said.body, MESSAGE_CHARS)
    posted = talk.say(tx, room, agent_id, said.body, also=tuple(said.mentions[:_MENTIONS]))
    return {"ok": True, "event_id": posted.event_id}


def _edit(tx: Tx, room: Room, agent_id: str, said: RoomOp) -> dict[str, Any]:
    check_body(said.body, EDIT_CHARS)
    rooms.edit(tx, _own(tx, room, agent_id, said), said.body)
    return {"ok": True, "event_id": said.event_id}


def _react(tx: Tx, room: Room, agent_id: str, said: RoomOp) -> dict[str, Any]:
    if not said.key.strip() or len(said.key) > _KEY_CHARS:
        raise Refusal(400, "A reaction needs a short key.")
    if rooms.message(tx, room.room_id, said.event_id) is None:
        raise Refusal(404, _NO_EVENT)
    rooms.react(tx, room.room_id, said.event_id, said.key.strip(), agent_id)
    return {"ok": True}


def _redact(tx: Tx, room: Room, agent_id: str, said: RoomOp) -> dict[str, Any]:
    rooms.redact(tx, _own(tx, room, agent_id, said))
    return {"ok": True}


def _members(tx: Tx, room: Room, _agent_id: str, _said: RoomOp) -> dict[str, Any]:
    found = rooms.members(tx, room.room_id)
    return {"ok": True, "members": [{"user_id": m.user_id, "name": m.name} for m in found]}


_OPS: dict[str, Callable[[Tx, Room, str, RoomOp], dict[str, Any]]] = {
    "message": _message,
    "edit": _edit,
    "react": _react,
    "redact": _redact,
    "members": _members,
}


def _own(tx: Tx, room: Room, agent_id: str, said: RoomOp) -> Message:
    found = rooms.message(tx, room.room_id, said.event_id)
    if found is None or found.redacted:
        raise Refusal(404, _NO_EVENT)
    if found.sender != agent_id:
        raise Refusal(400, "The message is somebody else's.")
    return found


def check_body(body: str, limit: int) -> None:
    """Refuse a blank or an overlong text.

    Raises:
        Refusal: 400 or 413.
    """
    if not body.strip():
        raise Refusal(400, "The body is blank.")
    if len(body) > limit:
        raise Refusal(413, f"The body is longer than {limit} characters.")


async def post_message(house: House, agent_id: str, request: Request) -> Response:
    """``POST /v1/rooms/{room}/messages``."""
    raw = await read(request, JSON_BYTES)
    said = decode(raw, KeyedMessage)
    check_body(said.body, LATE_CHARS)

    def post(tx: Tx, room: Room) -> dict[str, Any]:
        also = tuple(said.mentions[:_MENTIONS])
        return {"ok": True, "event_id": talk.say(tx, room, agent_id, said.body, also=also).event_id}

    return await _keyed(house, agent_id, request, keys.ROUTES[0], raw, post)


async def upload(house: House, agent_id: str, request: Request) -> Response:
    """``POST /v1/rooms/{room}/media``."""
    raw = await read(request, MEDIA_REQUEST_BYTES)
    said = decode(raw, Upload)
    data = media.decode(said.content_b64)
    if data is None:
        raise Refusal(400, "The content is not base64.")
    if len(data) > MEDIA_BYTES:
        raise Refusal(413, f"The file is larger than {MEDIA_BYTES} bytes.")
    room_id, key = request.path_params["room"], _key_of(request)

    def may(tx: Tx) -> bool:  # what a key remembers is told, whatever became of the room
        known = key and keys.look(tx, agent_id, key)
        return bool(known) or rooms.get(tx, room_id, agent_id) is not None

    if not await house.store.read(may):
        raise Refusal(404, _NO_ROOM)
    media_id = await house.shelf.keep(data)
    name, mime = said.filename, media.mime_of(said.filename)
    placed = False

    def post(tx: Tx, room: Room) -> dict[str, Any]:
        posted = place_file(
            tx, agent_id, room.room_id, media_id, name, mime, len(data), said.caption
        )
        nonlocal placed
        placed = posted is not None
        event_id = posted.event_id if posted else ""
        return {"ok": True, "mxc": f"mxc://{tx.domain}/{media_id}", "event_id": event_id}

    try:
        return await _keyed(house, agent_id, request, keys.ROUTES[1], raw, post)
    finally:
        if not placed:  # a repeat, a conflict, a room that went away
            with trio.CancelScope(shield=True):
                await house.shelf.drop(media_id)


def _key_of(request: Request) -> str:
    """The key of a post, "" for none.

    Raises:
        Refusal: 400 for what is none.
    """
    key = request.headers.get("idempotency-key", "")
    if key and not keys.is_key(key):
        raise Refusal(400, "The key is not 64 lower-case hexadecimal digits.")
    return key


async def _keyed(
    house: House,
    agent_id: str,
    request: Request,
    route: str,
    raw: bytes,
    post: Callable[[Tx, Room], dict[str, Any]],
) -> Response:
    key, room_id = _key_of(request), request.path_params["room"]
    wanted = keys.digest(route, room_id, raw)
    told = await house.told_late(key)

    def unit(tx: Tx) -> tuple[Claim, bytes]:
        claim = Claim.FRESH
        if key:
            row = keys.look(tx, agent_id, key)
            claim = keys.judge(row, wanted, tx.now, house.timing)
            if claim is Claim.REPLAY and row is not None:
                return claim, row.answer.encode()
        if claim is not Claim.FRESH:
            return claim, b""
        room = rooms.get(tx, room_id, agent_id)
        if room is None:
            raise Refusal(404, _NO_ROOM)
        posted = post(tx, room)
        body = msgspec.json.encode(posted)
        if key:
            late.mark(tx, agent_id, room_id, posted["event_id"], told=told)
            keys.keep(tx, agent_id, key, wanted, state="done", answer=body.decode())
        return claim, body

    claim, body = await house.store.write(unit)
    if claim in (Claim.FRESH, Claim.REPLAY):
        status = "created" if claim is Claim.FRESH else "replayed"
        return raw_json(body, headers={"idempotency-status": status} if key else None)
    return answer({"state": str(claim)}, 409)


async def capabilities(house: House, _agent_id: str, _request: Request) -> Response:
    """``GET /v1/capabilities``: no side effect."""
    return answer(keys.capabilities(house.timing))


def routes(house: House) -> list[Route]:
    """The room routes, under the base."""

    return [
        Route("POST", "/v1/room", bearer(house, room_op)),
        Route("POST", "/v1/rooms/{room}/messages", bearer(house, post_message)),
        Route("POST", "/v1/rooms/{room}/media", bearer(house, upload)),
        Route("GET", "/v1/capabilities", bearer(house, capabilities)),
    ]
