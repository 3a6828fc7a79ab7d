"""The page's endpoints on one message: putting a reaction, taking it back, removing one's own.

Who is in a room may react to whatever it reads; a message is removed by whoever wrote it and by
nobody else. A removed message that no agent has been given yet asks nothing any more.
"""

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from agentconnect.embedded import rooms, tasks
from agentconnect.embedded.bodies import Refusal, answer, read_as
from agentconnect.embedded.house import House
from agentconnect.embedded.pageapi import Door, need
from agentconnect.embedded.records import Message, User
from agentconnect.embedded.routes import Route
from agentconnect.embedded.store import Tx
from agentconnect.embedded.timing import JSON_BYTES

_KEY_CHARS = 16
_KEYS_OF_ONE = 12  # different reactions of one person on one message
_NO_MESSAGE = "There is no such message."


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A reaction to put (``on``) or to take back."""

    key: str
    on: bool = True


def _standing(tx: Tx, request: Request, me: User) -> Message:
    room = need(tx, request.path_params["room"], me)
    found = rooms.message(tx, room.room_id, request.path_params["event"])
    if found is None or found.redacted:
        raise Refusal(404, _NO_MESSAGE)
    return found


async def react(house: House, me: User, request: Request) -> Response:
    """``POST /page/rooms/{room}/messages/{event}/reaction``: the same one twice is one."""
    said = await read_as(request, Mark, JSON_BYTES)
    key = said.key.strip()
    if not key or len(key) > _KEY_CHARS or not key.isprintable():
        raise Refusal(400, "A reaction is one short sign.")

    def unit(tx: Tx) -> None:
        found = _standing(tx, request, me)
        if not said.on:
            rooms.unreact(tx, found, key, me.user_id)
            return
        mine = [put for put, sender in rooms.reactions(tx, found.event_id) if sender == me.user_id]
        if len(mine) >= _KEYS_OF_ONE and key not in mine:
            raise Refusal(400, "These are enough reactions of yours on one message.")
        rooms.react(tx, found.room_id, found.event_id, key, me.user_id)

    await house.store.write(unit)
    return answer({"ok": True})


async def remove(house: House, me: User, request: Request) -> Response:
    """``DELETE /page/rooms/{room}/messages/{event}``."""

    def unit(tx: Tx) -> None:
        found = _standing(tx, request, me)
        if found.sender != me.user_id:
            raise Refusal(403, "Only who wrote a message can remove it.")
        tasks.withdraw(tx, found.event_id)
        rooms.redact(tx, found)

    await house.store.write(unit)
    return answer({"ok": True})


def routes(door: Door) -> list[Route]:
    """The routes on one message."""
    message = "/page/rooms/{room}/messages/{event}"
    return [
        Route("POST", f"{message}/reaction", door.member(react)),
        Route("DELETE", message, door.member(remove)),
    ]
