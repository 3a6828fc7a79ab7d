"""What each type of channel may have in its entry (channel-delivery.md §15.1): a table."""

from collections.abc import Callable, Mapping
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec

from agentconnect.core.channels.irc import is_nick

Plain: TypeAlias = str | int | bool
Check: TypeAlias = Callable[[object], str]
"""Says what a value must be; "" where it is."""

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_MAX_URL_CHARS = 4096


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One key with a plain value."""

    check: Check
    default: Plain | None = None
    """None: the key is needed."""


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of one type. Secrets are named without their ``_env`` or ``_file``; the value says
    whether one is needed.
    """

    options: Mapping[str, Option] = {}
    secrets: Mapping[str, bool] = {}
    targets: Mapping[str, bool] | None = None
    """The secrets of each of its fixed destinations; None where it has none."""
    markdown: bool = False


def address(value: object) -> str:
    """Why ``value`` is no address to send to; "" where it is one."""
    if not isinstance(value, str) or len(value) > _MAX_URL_CHARS or not value.isascii():
        return "must be an https address"
    if not value.isprintable() or any(mark in value for mark in ' "<>\\^`{|}'):
        return "must be an https address"
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return "must be an https address"
    if parts.scheme not in ("https", "http") or not host:
        return "must be an https address"
    if parts.username is not None or parts.password is not None or parts.fragment:
        return "must have no user, password or fragment"
    if parts.scheme == "http" and host not in LOOPBACK:
        return "must be an https address: http is for this machine only"
    return ""


def _base(value: object) -> str:
    if problem := address(value):
        return problem
    return "must have no query" if urlsplit(str(value)).query else ""


def _one_of(*choices: str) -> Check:
    return lambda value: "" if value in choices else f"must be {' or '.join(choices)}"


def _text(value: object) -> str:
    fine = isinstance(value, str) and 0 < len(value) <= 512 and value.isprintable()
    return "" if fine and str(value).strip() else "must be a text of 1 to 512 characters"


def _host(value: object) -> str:
    fine = isinstance(value, str) and 0 < len(value) <= 253 and value.isascii()
    return (
        ""
        if fine and str(value).replace(" ", "/").isprintable() and "/" not in str(value)
        else "must be a host name"
    )


def _port(value: object) -> str:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return "" if whole and 0 < int(str(value)) < 65536 else "must be a port, 1 to 65535"


def _flag(value: object) -> str:
    return "" if isinstance(value, bool) else "must be true or false"


def _nick(value: object) -> str:
    return "" if isinstance(value, str) and is_nick(value) else "must be an IRC nick"


_URL = {"url": True}
_SIGNED_URL = {"url": True, "secret": False}

FORMS: Mapping[str, Form] = {
    "matrix": Form(
        options={
            "homeserver": Option(check=_base),
            "msgtype": Option(check=_one_of("m.text", "m.notice"), default="m.text"),
        },
        secrets={"token": True},
        markdown=True,
    ),
    "telegram": Form(
        options={"base_url": Option(check=_base, default="https://api.telegram.org")},
        secrets={"token": True},
    ),
    "slack": Form(
        options={"base_url": Option(check=_base, default="https://slack.com/api")},
        secrets={"token": True},
    ),
    "dingtalk": Form(
        options={
            "robot_code": Option(check=_text),
            "base_url": Option(check=_base, default="https://api.dingtalk.com"),
        },
        secrets={"app_key": True, "app_secret": True},
        markdown=True,
    ),
    "slack-webhook": Form(targets=_URL),
    "mattermost-webhook": Form(targets=_URL, markdown=True),
    "feishu-webhook": Form(targets=_SIGNED_URL),
    "dingtalk-webhook": Form(targets=_SIGNED_URL, markdown=True),
    "webhook": Form(
        options={"url": Option(check=address, default="")},
        secrets={"url": False, "secret": True},
    ),
    "room": Form(secrets={"token": False}),
    "irc": Form(
        options={
            "host": Option(check=_host),
            "port": Option(check=_port, default=6697),
            "tls": Option(check=_flag, default=True),
            "nick": Option(check=_nick),
        },
        secrets={"password": False},
    ),
    "apprise": Form(targets=_URL),
}
