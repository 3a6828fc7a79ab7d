"""Slack's Web API: requests and what the answers mean (channel-delivery.md §15.4)."""

import re

import msgspec

from agentconnect.core.channels.sending import (
    DELIVERED,
    Ask,
    Reply,
    Verdict,
    bad_target,
    bearer,
    json_ask,
    refused,
)
from agentconnect.core.destination import Target

PUBLIC = "https://slack.com/api"
CUT_UNITS = 4000

_ID = re.compile(r"[A-Z][A-Z0-9]{1,31}")
_NAME = re.compile(r"#?[a-z0-9][a-z0-9_-]{0,79}")

_PERMANENT = frozenset(
    [
        "channel_not_found",
        "not_in_channel",
        "is_archived",
        "msg_too_long",
        "no_text",
        "restricted_action",
        "restricted_action_read_only_channel",
        "restricted_action_thread_only_channel",
        "restricted_action_non_threadable_channel",
        "user_not_found",
        "users_not_found",
        "user_not_visible",
        "user_disabled",
        "cannot_dm_bot",
        "messages_tab_disabled",
        "invalid_auth",
        "not_authed",
        "account_inactive",
        "token_revoked",
        "token_expired",
        "no_permission",
        "missing_scope",
        "not_allowed_token_type",
        "ekm_access_denied",
        "access_denied",
        "enterprise_is_restricted",
        "team_access_not_granted",
        "invalid_arguments",
        "invalid_arg_name",
        "invalid_blocks",
        "channel_type_not_supported",
        "method_deprecated",
        "deprecated_endpoint",
    ]
)


class Slack(msgspec.Struct, frozen=True, kw_only=True):
    """One app's bot."""

    token: str
    base_url: str = PUBLIC

    def __repr__(self) -> str:
        return "Slack()"

    def who(self) -> Ask:
        return self._call("auth.test", {})

    def open(self, user: str) -> Ask:
        return self._call("conversations.open", {"users": user})

    def message(self, channel: str, text: str) -> Ask:
        """Words as they stand: Slack's own marks are escaped or off."""
        content = {
            "channel": channel,
            "text": escaped(text),
            "mrkdwn": False,
            "unfurl_links": False,
            "unfurl_media": False,
        }
        return self._call("chat.postMessage", content)

    def _call(self, method: str, content: object) -> Ask:
        url = f"{self.base_url.rstrip('/')}/{method}"
        headers = {**bearer(self.token), "Content-Type": "application/json; charset=utf-8"}
        return json_ask(url, content, headers)


def checked(target: Target) -> Target:
    """Raises: DeliveryError for an id that Slack cannot have given."""
    forms = (_ID,) if target.type == "user" else (_ID, _NAME)
    if not any(form.fullmatch(target.id) for form in forms):
        raise bad_target("the id is no Slack id of this type")
    return target


def escaped(text: str) -> str:
    """The three characters that Slack reads."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def judge(reply: Reply) -> Verdict:
    """200 with ``ok`` false is how Slack refuses."""
    fields = reply.fields
    if reply.status == 200 and fields.get("ok") is True:
        return DELIVERED
    word = fields.get("error")
    for_good = reply.status == 200 and isinstance(word, str) and word in _PERMANENT
    return refused(reply, "permanent" if for_good else "transient", word)


def opened(reply: Reply) -> str:
    """The direct channel of a ``conversations.open``. Raises: DeliveryError."""
    judge(reply).require()
    channel = reply.fields.get("channel")
    found = channel.get("id") if isinstance(channel, dict) else None
    if not isinstance(found, str) or not found:
        refused(reply, "transient", "no_channel").require()
    return str(found)
