"""The adapter ``room``: the relay's own rooms, by a token of the owner's choice (§15.7)."""

from agentconnect.channels.contract import Door, Wired, in_order
from agentconnect.core.channels import chunking, room
from agentconnect.core.channels.room import Room
from agentconnect.core.channels.sending import Outgoing


class RoomAdapter(Wired):
    """One identity. It posts and does nothing else: no task is taken here."""

    def __init__(self, settings: Room, door: Door) -> None:
        super().__init__(door)
        self._settings = settings

    async def check(self) -> str:
        """As ``Adapter``."""
        reply = await self.door.ask(self._settings.capabilities())
        if reply.status in (401, 403):
            room.judge(reply).require()
            return ""
        if 200 <= reply.status < 300:
            return "the relay takes the token"
        return f"the relay answers (HTTP {reply.status}); whether it takes the token is not known"

    async def send(self, outgoing: Outgoing) -> None:
        """As ``Adapter``."""
        target = room.checked(outgoing.target)

        async def send(_number: int, text: str) -> None:
            room.judge(await self.door.ask(self._settings.message(target.id, text))).require()

        await in_order(chunking.sendable(outgoing.text, room.CUT_CHARS, chunking.characters), send)
