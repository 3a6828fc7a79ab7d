"""Webhooks: requests and what the answers mean (channel-delivery.md §15.4, §15.5, §15.6)."""

import base64
import hashlib
import hmac
from urllib.parse import quote, urlsplit, urlunsplit

import msgspec

from agentconnect.core.channels.dingtalk import TITLE
from agentconnect.core.channels.sending import (
    DELIVERED,
    Ask,
    Outgoing,
    Reply,
    Verdict,
    json_ask,
    refused,
)
from agentconnect.core.channels.slack import escaped

SLACK_UNITS = 4000
MATTERMOST_CHARS = 4000
SIGNED_BYTES = 15_000

_DINGTALK_PERMANENT = frozenset(
    (
        *(310000, 300001, 400101, 400102, 400013, 400105, 400106),
        *(430101, 430102, 430103, 430104, 460101, 40035),
    )
)
_FEISHU_PERMANENT = frozenset((9499, 19001, 19021, 19022, 19024))
_WEBHOOK_PERMANENT = frozenset((400, 401, 403, 404, 405, 410, 413, 415, 422))


def slack(url: str, text: str) -> Ask:
    """An incoming webhook of Slack."""
    return json_ask(url, {"text": escaped(text), "mrkdwn": False})


def judge_slack(reply: Reply) -> Verdict:
    if reply.status == 200 and reply.text.strip() == "ok":
        return DELIVERED
    permanent = reply.status in (400, 403, 404, 410)
    return refused(reply, "permanent" if permanent else "transient", reply.text.strip())


def mattermost(url: str, text: str) -> Ask:
    """An incoming webhook of Mattermost."""
    return json_ask(url, {"text": text})


def judge_mattermost(reply: Reply) -> Verdict:
    if reply.status == 200:
        return DELIVERED
    return refused(reply, "permanent" if reply.status in (400, 403, 404, 413) else "transient")


def feishu(url: str, secret: str, text: str, wall_now: float) -> Ask:
    """A custom bot of Feishu; ``secret`` may be ""."""
    content: dict[str, object] = {"msg_type": "text", "content": {"text": text}}
    if secret:
        stamp = str(int(wall_now))
        made = hmac.new(f"{stamp}\n{secret}".encode(), digestmod=hashlib.sha256).digest()
        content |= {"timestamp": stamp, "sign": base64.b64encode(made).decode()}
    return json_ask(url, content)


def judge_feishu(reply: Reply) -> Verdict:
    return _by_code(reply, "code", _FEISHU_PERMANENT)


def dingtalk(url: str, secret: str, text: str, wall_now: float, *, markdown: bool = False) -> Ask:
    """A robot address of DingTalk; ``secret`` may be ""."""
    content: dict[str, object] = {"msgtype": "text", "text": {"content": text}}
    if markdown:
        content = {"msgtype": "markdown", "markdown": {"title": TITLE, "text": text}}
    if secret:
        stamp = str(int(wall_now * 1000))
        made = hmac.new(secret.encode(), f"{stamp}\n{secret}".encode(), hashlib.sha256).digest()
        sign = quote(base64.b64encode(made), safe="")
        parts = urlsplit(url)
        query = "&".join(part for part in (parts.query, f"timestamp={stamp}&sign={sign}") if part)
        url = urlunsplit(parts._replace(query=query))
    return json_ask(url, content)


def judge_dingtalk(reply: Reply) -> Verdict:
    return _by_code(reply, "errcode", _DINGTALK_PERMANENT)


def generic(url: str, secret: str, outgoing: Outgoing) -> Ask:
    """The signed generic webhook: the receiver can check who posted, and post once."""
    body = msgspec.json.encode(
        {
            "deliveryId": outgoing.delivery_id,
            "channelName": outgoing.channel,
            "target": {"type": outgoing.target.type, "id": outgoing.target.id},
            "text": outgoing.text,
        }
    )
    signed = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "Content-Type": "application/json",
        "Idempotency-Key": outgoing.delivery_id,
        "X-AgentConnect-Signature": f"sha256={signed}",
    }
    return Ask(url=url, headers=headers, content=body)


def judge_generic(reply: Reply) -> Verdict:
    if 200 <= reply.status < 300:
        return DELIVERED
    permanent = 300 <= reply.status < 400 or reply.status in _WEBHOOK_PERMANENT
    return refused(reply, "permanent" if permanent else "transient")


def _by_code(reply: Reply, member: str, permanent: frozenset[int]) -> Verdict:
    """Providers that answer 200 whatever happens."""
    code = reply.fields.get(member)
    whole = isinstance(code, int) and not isinstance(code, bool)
    if reply.status == 200 and whole and code == 0:
        return DELIVERED
    return refused(reply, "permanent" if whole and code in permanent else "transient", code)
