"""The adapter ``matrix``: rooms, aliases and direct rooms over the client API (§15.2)."""

from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

import trio

from agentconnect.channels.contract import Door, Wired, in_order
from agentconnect.core.channels import chunking, matrix
from agentconnect.core.channels.markdown import html
from agentconnect.core.channels.matrix import Matrix
from agentconnect.core.channels.sending import DeliveryError, Outgoing

REMEMBER_S = 600.0
START_S = 10.0
_DIRECT_ROOMS = 5
_MOST_REMEMBERED = 1000

T = TypeVar("T")


class MatrixAdapter(Wired):
    """One bot account. It joins nothing, and writes to no encrypted room."""

    def __init__(
        self,
        settings: Matrix,
        door: Door,
        *,
        markdown: bool = False,
        mono_now: Callable[[], float] = trio.current_time,
    ) -> None:
        super().__init__(door)
        self._settings = settings
        self._markdown = markdown
        self._aliases = _Memory[str](mono_now)
        self._encrypted = _Memory[bool](mono_now)
        self._me = ""
        self._founding = trio.Lock()

    async def start(self) -> None:
        """Who we are; only a refused token keeps the channel from starting."""
        with trio.move_on_after(START_S):
            try:
                await self._who()
            except DeliveryError as error:
                if error.disposition == "permanent":
                    raise

    async def check(self) -> str:
        """As ``Adapter``."""
        return await self._who()

    async def send(self, outgoing: Outgoing) -> None:
        """As ``Adapter``."""
        target = self._settings.checked(outgoing.target)
        if target.type == "user":
            room = await self._direct_room(target.id)
        else:
            room = await self._room(target.id)
        if await self._is_encrypted(room):
            raise DeliveryError("permanent", "the room is encrypted")

        async def send(number: int, text: str) -> None:
            shown = html(text) if self._markdown else ""
            txn = matrix.txn(outgoing.delivery_id, number)
            reply = await self.door.ask(self._settings.message(room, txn, text, shown))
            matrix.judge(reply).require()

        chunks = chunking.sendable(outgoing.text, matrix.CUT_BYTES, chunking.json_bytes)
        await in_order(chunks, send)

    async def _who(self) -> str:
        reply = await self.door.ask(self._settings.whoami())
        matrix.judge(reply, "user_id").require()
        self._me = str(reply.fields["user_id"])
        return self._me

    async def _room(self, room: str) -> str:
        if not room.startswith("#"):
            return room
        known = self._aliases.get(room)
        if known is None:
            reply = await self.door.ask(self._settings.resolve(room))
            matrix.judge(reply, "room_id").require()
            known = self._aliases.keep(room, str(reply.fields["room_id"]))
        return known

    async def _is_encrypted(self, room: str) -> bool:
        known = self._encrypted.get(room)
        if known is None:
            reply = await self.door.ask(self._settings.encryption(room))
            known = self._encrypted.keep(room, matrix.encrypted(reply))
        return known

    async def _direct_room(self, user: str) -> str:
        """The room that we share with ``user`` alone; made where there is none."""
        me = self._me or await self._who()
        found = await self._find_direct(me, user)
        if found:
            return found
        async with self._founding:  # one document holds all of them
            return await self._find_direct(me, user) or await self._found(me, user)

    async def _find_direct(self, me: str, user: str) -> str:
        rooms = matrix.direct_rooms(await self.door.ask(self._settings.direct(me))).get(user, [])
        for room in reversed(rooms[-_DIRECT_ROOMS:]):
            ours = await self.door.ask(self._settings.member(room, me))
            if matrix.membership(ours) != "join":
                continue
            theirs = await self.door.ask(self._settings.member(room, user))
            if matrix.membership(theirs) in ("join", "invite"):
                return room
        return ""

    async def _found(self, me: str, user: str) -> str:
        rooms = matrix.direct_rooms(await self.door.ask(self._settings.direct(me)))
        reply = await self.door.ask(self._settings.create_direct(user))
        matrix.judge(reply, "room_id").require()
        room = str(reply.fields["room_id"])
        rooms[user] = [*rooms.get(user, []), room]
        with suppress(DeliveryError):  # the room is there: at worst the next one is made anew
            await self.door.ask(self._settings.remember_direct(me, rooms))
        return room


class _Memory(Generic[T]):
    """What was asked lately."""

    def __init__(self, mono_now: Callable[[], float]) -> None:
        self._mono_now = mono_now
        self._known: dict[str, tuple[float, T]] = {}

    def get(self, key: str) -> T | None:
        until, value = self._known.get(key, (0.0, None))
        return value if until > self._mono_now() else None

    def keep(self, key: str, value: T) -> T:
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        self._known[key] = self._mono_now() + REMEMBER_S, value
        return value
