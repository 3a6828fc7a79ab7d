"""The adapter ``dingtalk`` (§15.5)."""

from collections.abc import Callable

import trio

from agentconnect.channels.contract import Door, Wired, in_order
from agentconnect.core.channels import chunking, dingtalk
from agentconnect.core.channels.dingtalk import DingTalk
from agentconnect.core.channels.sending import Outgoing

EARLY_S = 300.0


class DingTalkAdapter(Wired):
    """One robot. Its token is renewed before a send, never after a failed one."""

    def __init__(
        self,
        settings: DingTalk,
        door: Door,
        *,
        mono_now: Callable[[], float] = trio.current_time,
    ) -> None:
        super().__init__(door)
        self._settings = settings
        self._mono_now = mono_now
        self._token = ""
        self._until = 0.0
        self._renewing = trio.Lock()

    async def check(self) -> str:
        """As ``Adapter``."""
        await self._current()
        return "the app's key and secret are good"

    async def send(self, outgoing: Outgoing) -> None:
        """As ``Adapter``."""
        target = dingtalk.checked(outgoing.target)

        async def send(_number: int, text: str) -> None:
            ask = self._settings.message(target, text, await self._current())
            dingtalk.judge(await self.door.ask(ask), target.id).require()

        chunks = chunking.sendable(outgoing.text, dingtalk.CUT_BYTES, chunking.json_bytes)
        await in_order(chunks, send)

    async def _current(self) -> str:
        async with self._renewing:
            if not self._token or self._mono_now() >= self._until - EARLY_S:
                reply = await self.door.ask(self._settings.login())
                self._token, lasts_s = dingtalk.logged_in(reply)
                self._until = self._mono_now() + lasts_s
            return self._token
