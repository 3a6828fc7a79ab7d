"""The webhook adapters: fixed destinations by label, and the signed generic one (§15.4–15.6)."""

from collections.abc import Callable, Mapping

import msgspec

from agentconnect.channels.contract import Door, Wired, in_order
from agentconnect.core.channels import chunking, hooks
from agentconnect.core.channels.chunking import Measure
from agentconnect.core.channels.sending import Ask, Outgoing, Reply, Verdict, bad_target


class Hook(msgspec.Struct, frozen=True):
    """One provider's way: the request for address, secret, text and time; the verdict."""

    ask: Callable[[str, str, str, float], Ask]
    judge: Callable[[Reply], Verdict]
    limit: int
    measure: Measure


SLACK = Hook(
    lambda url, _secret, text, _now: hooks.slack(url, text),
    hooks.judge_slack,
    hooks.SLACK_UNITS,
    chunking.units,
)
MATTERMOST = Hook(
    lambda url, _secret, text, _now: hooks.mattermost(url, text),
    hooks.judge_mattermost,
    hooks.MATTERMOST_CHARS,
    chunking.characters,
)
FEISHU = Hook(hooks.feishu, hooks.judge_feishu, hooks.SIGNED_BYTES, chunking.json_bytes)
DINGTALK = Hook(hooks.dingtalk, hooks.judge_dingtalk, hooks.SIGNED_BYTES, chunking.json_bytes)
DINGTALK_MARKDOWN = msgspec.structs.replace(
    DINGTALK,
    ask=lambda url, secret, text, now: hooks.dingtalk(url, secret, text, now, markdown=True),
)


class HookAdapter(Wired):
    """Destinations that the file fixes; a target's id is the label of one."""

    def __init__(
        self,
        hook: Hook,
        targets: Mapping[str, Mapping[str, str]],
        door: Door,
        wall_clock: Callable[[], float],
    ) -> None:
        super().__init__(door)
        self._hook = hook
        self._targets = targets
        self._wall_clock = wall_clock

    async def check(self) -> str:
        """As ``Adapter``: connects to each, since any request would be a message."""
        for target in self._targets.values():
            await self.door.knock(target["url"])
        return f"{len(self._targets)} destinations can be reached; nothing more can be tried"

    async def send(self, outgoing: Outgoing) -> None:
        """As ``Adapter``."""
        target = self._targets.get(outgoing.target.id)
        if outgoing.target.type != "chat" or target is None:
            raise bad_target("this channel has no such destination")
        url, secret = target["url"], target.get("secret", "")

        async def send(_number: int, text: str) -> None:
            ask = self._hook.ask(url, secret, text, self._wall_clock())
            self._hook.judge(await self.door.ask(ask)).require()

        await in_order(chunking.sendable(outgoing.text, self._hook.limit, self._hook.measure), send)


class WebhookAdapter(Wired):
    """The generic webhook: everything in one signed request, never in pieces."""

    def __init__(self, url: str, secret: str, door: Door) -> None:
        super().__init__(door)
        self._url = url
        self._secret = secret

    async def check(self) -> str:
        """As ``Adapter``: connects, since any request would be a message."""
        await self.door.knock(self._url)
        return "it can be reached; nothing more can be tried"

    async def send(self, outgoing: Outgoing) -> None:
        """As ``Adapter``."""
        ask = hooks.generic(self._url, self._secret, outgoing)
        hooks.judge_generic(await self.door.ask(ask)).require()
