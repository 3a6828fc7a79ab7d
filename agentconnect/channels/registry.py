"""From a configured channel to its adapter; the one place that knows them all."""

import ssl
from collections.abc import Callable, Mapping
from typing import TypeAlias

from agentconnect.channels import hooks
from agentconnect.channels.apprise import AppriseAdapter
from agentconnect.channels.contract import Adapter, Door
from agentconnect.channels.dingtalk import DingTalkAdapter
from agentconnect.channels.hooks import HookAdapter, WebhookAdapter
from agentconnect.channels.irc import IrcAdapter, IrcSettings
from agentconnect.channels.matrix import MatrixAdapter
from agentconnect.channels.room import RoomAdapter
from agentconnect.channels.slack import SlackAdapter
from agentconnect.channels.telegram import TelegramAdapter
from agentconnect.core.channels.dingtalk import DingTalk
from agentconnect.core.channels.ipc import Channel
from agentconnect.core.channels.matrix import Matrix
from agentconnect.core.channels.room import Room
from agentconnect.core.channels.sending import DeliveryError
from agentconnect.core.channels.slack import Slack
from agentconnect.core.channels.telegram import Telegram

RELAY_USER_AGENT = "sutando-gateway-client/1.0"
"""The relay's edge refuses others (relay-wire.md §1.1)."""


class World:
    """What adapters get from outside: doors, trust, the clock."""

    def __init__(
        self,
        door: Callable[[], Door],
        trust: Callable[[], ssl.SSLContext],
        wall_clock: Callable[[], float],
    ) -> None:
        self.door = door
        self.trust = trust
        self.wall_clock = wall_clock


Maker: TypeAlias = Callable[[Channel, World], Adapter]


def build(channel: Channel, world: World) -> Adapter:
    """Raises: DeliveryError where there is no such type, or the entry cannot be used."""
    maker = _MAKERS.get(channel.type)
    if maker is None:
        raise DeliveryError("permanent", "the type is not known")
    try:
        return maker(channel, world)
    except KeyError as error:
        raise DeliveryError("permanent", f"{error.args[0]} is missing") from None


def _text(channel: Channel, name: str) -> str:
    return str(channel.options[name])


def _matrix(channel: Channel, world: World) -> Adapter:
    settings = Matrix(
        homeserver=_text(channel, "homeserver"),
        token=channel.secrets["token"],
        msgtype=_text(channel, "msgtype"),
    )
    return MatrixAdapter(settings, world.door(), markdown=channel.markdown)


def _telegram(channel: Channel, world: World) -> Adapter:
    settings = Telegram(token=channel.secrets["token"], base_url=_text(channel, "base_url"))
    return TelegramAdapter(settings, world.door())


def _slack(channel: Channel, world: World) -> Adapter:
    settings = Slack(token=channel.secrets["token"], base_url=_text(channel, "base_url"))
    return SlackAdapter(settings, world.door())


def _dingtalk(channel: Channel, world: World) -> Adapter:
    settings = DingTalk(
        app_key=channel.secrets["app_key"],
        app_secret=channel.secrets["app_secret"],
        robot_code=_text(channel, "robot_code"),
        base_url=_text(channel, "base_url"),
        markdown=channel.markdown,
    )
    return DingTalkAdapter(settings, world.door())


def _fixed(hook: hooks.Hook, markdown: hooks.Hook | None = None) -> Maker:
    def make(channel: Channel, world: World) -> Adapter:
        chosen = markdown if channel.markdown and markdown is not None else hook
        return HookAdapter(chosen, channel.targets, world.door(), world.wall_clock)

    return make


def _webhook(channel: Channel, world: World) -> Adapter:
    url = channel.secrets.get("url") or _text(channel, "url")
    return WebhookAdapter(url, channel.secrets["secret"], world.door())


def _room(channel: Channel, world: World) -> Adapter:
    settings = Room(
        base=_text(channel, "base"), secret=channel.secrets["secret"], user_agent=RELAY_USER_AGENT
    )
    return RoomAdapter(settings, world.door())


def _irc(channel: Channel, world: World) -> Adapter:
    settings = IrcSettings(
        host=_text(channel, "host"),
        port=int(channel.options["port"]),
        tls=bool(channel.options["tls"]),
        nick=_text(channel, "nick"),
        password=channel.secrets.get("password", ""),
    )
    return IrcAdapter(settings, world.trust)


_MAKERS: Mapping[str, Maker] = {
    "matrix": _matrix,
    "telegram": _telegram,
    "slack": _slack,
    "dingtalk": _dingtalk,
    "slack-webhook": _fixed(hooks.SLACK),
    "mattermost-webhook": _fixed(hooks.MATTERMOST),
    "feishu-webhook": _fixed(hooks.FEISHU),
    "dingtalk-webhook": _fixed(hooks.DINGTALK, hooks.DINGTALK_MARKDOWN),
    "webhook": _webhook,
    "room": _room,
    "irc": _irc,
    "apprise": lambda channel, _world: AppriseAdapter(channel.targets),
}
