"""DingTalk's robot API: requests and what the answers mean (channel-delivery.md §15.5)."""

import re

import msgspec

from agentconnect.core.channels.sending import (
    DELIVERED,
    Ask,
    DeliveryError,
    Reply,
    Verdict,
    bad_target,
    json_ask,
    refused,
)
from agentconnect.core.destination import Target

PUBLIC = "https://api.dingtalk.com"
CUT_BYTES = 15_000
TITLE = "Message"

_ID = re.compile(r"[^\s\x00-\x20\x7f]{1,256}")
_TOO_FAST = ("QpsLimit", "Throttling")


class DingTalk(msgspec.Struct, frozen=True, kw_only=True):
    """One robot of one app."""

    app_key: str
    app_secret: str
    robot_code: str
    base_url: str = PUBLIC
    markdown: bool = False

    def __repr__(self) -> str:
        return "DingTalk()"

    def login(self) -> Ask:
        content = {"appKey": self.app_key, "appSecret": self.app_secret}
        return json_ask(self._url("oauth2/accessToken"), content)

    def message(self, target: Target, text: str, token: str) -> Ask:
        """``msgParam`` is JSON inside JSON."""
        if self.markdown:
            key, param = "sampleMarkdown", {"title": TITLE, "text": text}
        else:
            key, param = "sampleText", {"content": text}
        content: dict[str, object] = {
            "robotCode": self.robot_code,
            "msgKey": key,
            "msgParam": msgspec.json.encode(param).decode(),
        }
        if target.type == "user":
            path, content["userIds"] = "robot/oToMessages/batchSend", [target.id]
        else:
            path, content["openConversationId"] = "robot/groupMessages/send", target.id
        return json_ask(self._url(path), content, {"x-acs-dingtalk-access-token": token})

    def _url(self, path: str) -> str:
        return f"{self.base_url.rstrip('/')}/v1.0/{path}"


def checked(target: Target) -> Target:
    """Raises: DeliveryError for an id that DingTalk cannot have given."""
    if not _ID.fullmatch(target.id):
        raise bad_target("the id is no DingTalk id")
    return target


def judge(reply: Reply, target_id: str) -> Verdict:
    """200 is not success by itself: the user may be on one of three lists."""
    fields = reply.fields
    if reply.status == 200:
        for name in ("invalidStaffIdList", "filteredStaffIdList"):
            if _listed(fields.get(name), target_id):
                return refused(reply, "permanent", name)
        if _listed(fields.get("flowControlledStaffIdList"), target_id):
            return refused(reply, "transient", "flowControlledStaffIdList")
        key = fields.get("processQueryKey")
        if isinstance(key, str) and key:
            return DELIVERED
        return refused(reply, "transient", "no_processQueryKey")
    return _refusal(reply)


def logged_in(reply: Reply) -> tuple[str, float]:
    """The token and for how many seconds it holds. Raises: DeliveryError."""
    token, lasts = reply.fields.get("accessToken"), reply.fields.get("expireIn")
    if reply.status != 200:
        _refusal(reply).require()
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise DeliveryError("transient", f"HTTP {reply.status} without a token")
    usable = isinstance(lasts, int | float) and not isinstance(lasts, bool) and lasts > 0
    return token, float(lasts) if usable and isinstance(lasts, int | float) else 0.0


def _refusal(reply: Reply) -> Verdict:
    word = reply.fields.get("code")
    too_fast = isinstance(word, str) and any(mark in word for mark in _TOO_FAST)
    permanent = reply.status in (400, 401, 404) or (reply.status == 403 and not too_fast)
    return refused(reply, "permanent" if permanent else "transient", word)


def _listed(names: object, target_id: str) -> bool:
    return isinstance(names, list) and target_id in names
