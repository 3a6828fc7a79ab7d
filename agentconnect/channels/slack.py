"""The adapter ``slack`` (§15.4)."""

from agentconnect.channels.contract import Door, Wired, in_order
from agentconnect.core.channels import chunking, slack
from agentconnect.core.channels.sending import Outgoing
from agentconnect.core.channels.slack import Slack

_MOST_REMEMBERED = 1000


class SlackAdapter(Wired):
    """One app's bot."""

    def __init__(self, settings: Slack, door: Door) -> None:
        super().__init__(door)
        self._settings = settings
        self._direct: dict[str, str] = {}  # a direct channel of a user stays the same

    async def check(self) -> str:
        """As ``Adapter``."""
        reply = await self.door.ask(self._settings.who())
        slack.judge(reply).require()
        user, team = reply.fields.get("user"), reply.fields.get("team")
        return f"{user} in {team}"

    async def send(self, outgoing: Outgoing) -> None:
        """As ``Adapter``."""
        target = slack.checked(outgoing.target)
        channel = await self._opened(target.id) if target.type == "user" else target.id

        async def send(_number: int, text: str) -> None:
            slack.judge(await self.door.ask(self._settings.message(channel, text))).require()

        chunks = chunking.sendable(outgoing.text, slack.CUT_UNITS, chunking.units)
        await in_order(chunks, send)

    async def _opened(self, user: str) -> str:
        channel = self._direct.get(user)
        if channel is None:
            channel = slack.opened(await self.door.ask(self._settings.open(user)))
            if len(self._direct) >= _MOST_REMEMBERED:
                self._direct.clear()
            self._direct[user] = channel
        return channel
