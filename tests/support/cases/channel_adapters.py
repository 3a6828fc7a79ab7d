"""Cases of the adapters: one send against the answer of a provider that a line gives (§15, §18)."""

from functools import partial
from typing import Any

import msgspec
import trio

from agentconnect.channels.contract import Adapter
from agentconnect.channels.registry import World, build
from agentconnect.core.channels.ipc import Channel
from agentconnect.core.channels.sending import Ask, DeliveryError, Outgoing, Reply
from agentconnect.core.destination import Target
from tests.support.cases.case import Given

_FIXED = {"ops": {"url": "https://hooks.invalid/h"}}
CHANNELS = {
    "matrix": Channel(
        type="matrix",
        options={"homeserver": "https://hs.invalid", "msgtype": "m.text"},
        secrets={"token": "t0k"},
    ),
    "telegram": Channel(
        type="telegram", options={"base_url": "https://tg.invalid"}, secrets={"token": "1:t0k"}
    ),
    "slack": Channel(
        type="slack", options={"base_url": "https://sl.invalid"}, secrets={"token": "t0k"}
    ),
    "dingtalk": Channel(
        type="dingtalk",
        options={"base_url": "https://dt.invalid", "robot_code": "r"},
        secrets={"app_key": "k", "app_secret": "s"},
    ),
    "webhook": Channel(
        type="webhook", options={"url": "https://wh.invalid/in"}, secrets={"secret": "s"}
    ),
    "slack-webhook": Channel(type="slack-webhook", targets=_FIXED),
    "mattermost-webhook": Channel(type="mattermost-webhook", targets=_FIXED),
    "feishu-webhook": Channel(type="feishu-webhook", targets=_FIXED),
    "dingtalk-webhook": Channel(type="dingtalk-webhook", targets=_FIXED),
}


class ScriptedDoor:
    """A provider: every preparatory request succeeds, each message gets the same answer."""

    def __init__(self, http: dict[str, Any]) -> None:
        self._http = http
        self.messages: list[Ask] = []

    async def ask(self, ask: Ask) -> Reply:
        await trio.lowlevel.checkpoint()
        prepared = _prepared(ask)
        if prepared is not None:
            return prepared
        self.messages.append(ask)
        failure = self._http.get("error")
        if failure == "no_request_expected":
            raise AssertionError("a request was made")
        if failure is not None:
            raise DeliveryError("transient", str(failure))
        if "json" in self._http:
            body = msgspec.json.encode(self._http["json"])
        else:
            body = self._http["text"].encode()
        return Reply(status=self._http["status"], body=body)

    async def knock(self, url: str) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def _prepared(ask: Ask) -> Reply | None:
    if ask.url.endswith("/state/m.room.encryption"):
        return Reply(status=404, body=b"{}")
    if ask.url.endswith("/oauth2/accessToken"):
        return Reply(status=200, body=b'{"accessToken":"a","expireIn":7200}')
    if ask.url.endswith("/conversations.open"):
        return Reply(status=200, body=b'{"ok":true,"channel":{"id":"D1"}}')
    return None


def made(channel: Channel, door: ScriptedDoor) -> Adapter:
    """The adapter with this provider."""
    return build(channel, World(lambda: door, _no_trust, lambda: 1_750_000_000.0))


def _no_trust() -> Any:
    raise AssertionError("no TLS here")


def disposition(line: Given) -> object:
    """``delivered``, ``permanent`` or ``transient``."""
    door = ScriptedDoor(line["http"])
    outgoing = Outgoing(
        delivery_id="d1",
        channel="c",
        target=msgspec.convert(line["target"], Target),
        text="hello",
    )
    try:
        trio.run(partial(made(CHANNELS[line["adapter"]], door).send, outgoing))
    except DeliveryError as error:
        return {"disposition": error.disposition}
    return {"disposition": "delivered"}
