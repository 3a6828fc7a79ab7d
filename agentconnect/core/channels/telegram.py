"""Telegram's Bot API: requests and what the answers mean (channel-delivery.md §15.3)."""

import re

import msgspec

from agentconnect.core.channels.sending import (
    DELIVERED,
    Ask,
    Reply,
    Verdict,
    bad_target,
    json_ask,
    refused,
)
from agentconnect.core.destination import Target

PUBLIC = "https://api.telegram.org"
CUT_UNITS = 4096

_NUMBER = re.compile(r"-?[0-9]{1,20}")
_NAME = re.compile(r"@[A-Za-z0-9_]{1,64}")
_LARGEST = 2**63 - 1


class Telegram(msgspec.Struct, frozen=True, kw_only=True):
    """One bot."""

    token: str
    base_url: str = PUBLIC

    def __repr__(self) -> str:
        return "Telegram()"

    def me(self) -> Ask:
        return Ask(method="GET", url=self._url("getMe"))

    def message(self, chat: int | str, text: str) -> Ask:
        content = {"chat_id": chat, "text": text, "link_preview_options": {"is_disabled": True}}
        return json_ask(self._url("sendMessage"), content)

    def _url(self, method: str) -> str:
        return f"{self.base_url.rstrip('/')}/bot{self.token}/{method}"


def chat_id(target: Target) -> int | str:
    """The id as Telegram wants it. Raises: DeliveryError."""
    if _NUMBER.fullmatch(target.id):
        number = int(target.id)
        if number and abs(number) <= _LARGEST and (number > 0 or target.type == "chat"):
            return number
    elif target.type == "chat" and _NAME.fullmatch(target.id):
        return target.id
    raise bad_target("the id is no Telegram id of this type")


def judge(reply: Reply) -> Verdict:
    """By the code in the body, else by the status."""
    fields = reply.fields
    if fields.get("ok") is True:
        return DELIVERED
    stated = fields.get("error_code")
    code = stated if isinstance(stated, int) and not isinstance(stated, bool) else reply.status
    return refused(reply, "permanent" if code in (400, 401, 403, 404) else "transient", stated)
