"""The page's endpoints: signing in, rooms, messages and files. People and agents: pagepeople.

Same origin, a cookie, JSON both ways; every failure is one sentence. A room that is not there and
a room that is somebody else's have the same answer.
"""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from agentconnect.embedded import auth, ids, keys, media, people, rooms, talk, view
from agentconnect.embedded.bodies import (
    Refusal,
    answer,
    answered,
    read,
    read_as,
    whole_number,
)
from agentconnect.embedded.house import House, place_file
from agentconnect.embedded.records import Room, User
from agentconnect.embedded.routes import Route
from agentconnect.embedded.store import Tx
from agentconnect.embedded.timing import JSON_BYTES, MEDIA_BYTES, MESSAGE_CHARS

Handler = Callable[[House, User, Request], Awaitable[Response]]
NO_ROOM = "There is no such room."
_SESSION_S = 180 * 86_400
_SESSIONS = 20
_PAGE = 200
_INLINE_CSP = "default-src 'none'; sandbox"


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """The secret of a person's link."""

    token: str


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """A message; ``txn`` makes a repeated send one message."""

    body: str
    reply_to: str | None = None
    txn: str | None = None


class ReadMark(msgspec.Struct, frozen=True, kw_only=True):
    """How far somebody has read."""

    seq: int


class Door:
    """Who may come in: wraps the handlers of page routes."""

    def __init__(self, house: House, origins: auth.Origins) -> None:
        self.house = house
        self.origins = origins

    def open(
        self,
        handler: Callable[[House, Request], Awaitable[Response]],
    ) -> Callable[[Request], Awaitable[Response]]:
        """A route that needs no cookie; host and origin are checked all the same."""

        async def inside(request: Request) -> Response:
            self.origins.check(request, changing=request.method not in ("GET", "HEAD"))
            return await handler(self.house, request)

        async def endpoint(request: Request) -> Response:
            return await answered(inside(request))

        return endpoint

    def member(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """A route for somebody who is signed in."""

        async def inside(house: House, request: Request) -> Response:
            user_id = auth.visitor(request, house.directory, house.cookie)
            me = await house.store.read(lambda tx: people.user(tx, user_id))
            if me is None:
                raise Refusal(401, auth.UNKNOWN_VISITOR)
            return await handler(house, me, request)

        return self.open(inside)


async def login(house: House, request: Request) -> Response:
    """``POST /page/login``."""
    said = await read_as(request, Login, JSON_BYTES)
    user_id = house.directory.who("link", said.token)
    if not user_id:
        raise Refusal(401, "This link is not, or no longer, valid.")

    session = await house.change_secrets(
        lambda tx: people.give_secret(tx, user_id, "session", keep=_SESSIONS - 1)
    )
    response = answer({"user_id": user_id})
    response.set_cookie(
        house.cookie,
        session,
        max_age=_SESSION_S,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https" or house.secure,
    )
    return response


async def logout(house: House, request: Request) -> Response:
    """``POST /page/logout``."""
    session = request.cookies.get(house.cookie, "")
    if session:
        digest = ids.hashed(session)
        await house.change_secrets(lambda tx: people.drop_secret(tx, digest))
    response = answer({"ok": True})
    response.delete_cookie(house.cookie, path="/", httponly=True, samesite="strict")
    return response


async def state(house: House, me: User, _request: Request) -> Response:
    """``GET /page/state``."""
    now = house.now()
    online = lambda user_id: house.presence.online(user_id, now)  # noqa: E731 - one expression
    return answer(await house.store.browse(lambda tx: view.state(tx, me, online)))


def need(tx: Tx, room_id: str, me: User) -> Room:
    """A room of the visitor.

    Raises:
        Refusal: 404, for "not there" and "not yours" alike.
    """
    room = rooms.get(tx, room_id, me.user_id)
    if room is None:
        raise Refusal(404, NO_ROOM)
    return room


async def history(house: House, me: User, request: Request) -> Response:
    """``GET /page/rooms/{room}/messages``."""
    room_id = request.path_params["room"]
    before = _number(request, "before", 2**62)
    limit = max(1, min(_number(request, "limit", 50), _PAGE))

    def unit(tx: Tx) -> dict[str, Any]:
        need(tx, room_id, me)
        found = rooms.page(tx, room_id, before, limit + 1)
        more = len(found) > limit
        return {
            "messages": view.messages(tx, found[1:] if more else found, house.steps.of),
            "more": more,
        }

    return answer(await house.store.browse(unit))


def _number(request: Request, name: str, default: int) -> int:
    number = whole_number(request.query_params.get(name))
    return default if number is None else number


async def send(house: House, me: User, request: Request) -> Response:
    """``POST /page/rooms/{room}/messages``."""
    said = await read_as(request, Text, JSON_BYTES)
    room_id = request.path_params["room"]
    if not said.body.strip():
        raise Refusal(400, "The message is empty.")
    if len(said.body) > MESSAGE_CHARS:
        raise Refusal(413, f"The message is longer than {MESSAGE_CHARS} characters.")

    def post(tx: Tx) -> str:
        room = need(tx, room_id, me)
        reply_to = said.reply_to or ""
        if reply_to and rooms.message(tx, room_id, reply_to) is None:
            raise Refusal(404, "The message it replies to is not in this room.")
        return talk.say(tx, room, me.user_id, said.body, reply_to=reply_to).event_id

    return await _once(house, me, room_id, said.txn or "", post)


async def send_file(house: House, me: User, request: Request) -> Response:
    """``POST /page/rooms/{room}/media``: the raw bytes of one file."""
    room_id, query = request.path_params["room"], request.query_params
    await house.store.read(lambda tx: need(tx, room_id, me))
    data = await read(request, MEDIA_BYTES)
    if not data:
        raise Refusal(400, "The file is empty.")
    name = query.get("name", "")
    caption = query.get("caption", "")[:MESSAGE_CHARS]
    mime = media.mime_of(name, request.headers.get("content-type", ""))
    media_id = await house.shelf.keep(data)

    def post(tx: Tx) -> str:
        need(tx, room_id, me)
        posted = place_file(tx, me.user_id, room_id, media_id, name, mime, len(data), caption)
        return posted.event_id if posted else ""

    return await _once(house, me, room_id, query.get("txn", ""), post)


async def _once(
    house: House, me: User, room_id: str, txn: str, post: Callable[[Tx], str]
) -> Response:
    key = hashlib.sha256(f"page\n{room_id}\n{txn}".encode("utf-8", "replace")).hexdigest()

    def unit(tx: Tx) -> str:
        row = keys.look(tx, me.user_id, key) if txn else None
        if row is not None:
            return row.answer
        event_id = post(tx)
        if txn:
            keys.keep(tx, me.user_id, key, "", state="done", answer=event_id)
        return event_id

    return answer({"event_id": await house.store.write(unit)})


async def fetch(house: House, me: User, request: Request) -> Response:
    """``GET /page/media/{server}/{media_id}``: only pictures are ever shown in place."""
    media_id, server = request.path_params["media_id"], request.path_params["server"]
    found = await house.store.read(lambda tx: media.find(tx, media_id, me.user_id))
    data = await house.shelf.read(media_id) if found and server == house.domain else None
    if found is None or data is None:
        raise Refusal(404, "There is no such file.")
    inline = media.shown_inline(found.mime)
    how = "inline" if inline else "attachment"
    headers = {
        "content-disposition": f"{how}; filename*=UTF-8''{quote(found.name, safe='')}",
        "content-security-policy": _INLINE_CSP,
        "x-content-type-options": "nosniff",
        "cache-control": "private, max-age=3600",
    }
    return Response(data, headers=headers, media_type=found.mime)


async def mark_read(house: House, me: User, request: Request) -> Response:
    """``POST /page/rooms/{room}/read``."""
    said = await read_as(request, ReadMark, JSON_BYTES)
    room_id = request.path_params["room"]

    def unit(tx: Tx) -> None:
        need(tx, room_id, me)
        newest = tx.number("SELECT MAX(seq) FROM messages WHERE room_id = ?", room_id)
        rooms.mark_read(tx, room_id, me.user_id, max(0, min(said.seq, newest)))

    await house.store.write(unit, durable=False)
    return answer({"ok": True})


def routes(door: Door) -> list[Route]:
    """The page's routes but those of :mod:`pagepeople`."""
    room = "/page/rooms/{room}"
    return [
        Route("POST", "/page/login", door.open(login)),
        Route("POST", "/page/logout", door.open(logout)),
        Route("GET", "/page/state", door.member(state)),
        Route("GET", f"{room}/messages", door.member(history)),
        Route("POST", f"{room}/messages", door.member(send)),
        Route("POST", f"{room}/media", door.member(send_file)),
        Route("POST", f"{room}/read", door.member(mark_read)),
        Route("GET", "/page/media/{server}/{media_id}", door.member(fetch)),
    ]
