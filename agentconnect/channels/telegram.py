"""The adapter ``telegram`` (§15.3)."""

from agentconnect.channels.contract import Door, Wired, in_order
from agentconnect.core.channels import chunking, telegram
from agentconnect.core.channels.sending import Outgoing
from agentconnect.core.channels.telegram import Telegram


class TelegramAdapter(Wired):
    """One bot."""

    def __init__(self, settings: Telegram, door: Door) -> None:
        super().__init__(door)
        self._settings = settings

    async def check(self) -> str:
        """As ``Adapter``."""
        reply = await self.door.ask(self._settings.me())
        telegram.judge(reply).require()
        result = reply.fields.get("result")
        name = result.get("username") if isinstance(result, dict) else None
        return f"@{name}" if isinstance(name, str) else "the token is good"

    async def send(self, outgoing: Outgoing) -> None:
        """As ``Adapter``."""
        chat = telegram.chat_id(outgoing.target)

        async def send(_number: int, text: str) -> None:
            telegram.judge(await self.door.ask(self._settings.message(chat, text))).require()

        chunks = chunking.sendable(outgoing.text, telegram.CUT_UNITS, chunking.units)
        await in_order(chunks, send)
