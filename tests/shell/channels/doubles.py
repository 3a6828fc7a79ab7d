"""Providers on loopback that speak as much of their API as the adapters use.

Written from the public documents of each; a request that a provider would not take is not taken.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import trio

from agentconnect.channels.contract import Adapter
from agentconnect.channels.http import HttpDoor, trust
from agentconnect.channels.registry import World, build
from agentconnect.core.channels.ipc import Channel
from agentconnect.core.channels.sending import Outgoing
from agentconnect.core.destination import Target
from tests.support.raw_server import Peer, RawServer, raw_server

NOW = 1_750_000_000.0


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(self.body or b"{}")
        return found


Answer = tuple[int, object]
"""A status, and bytes or what becomes JSON."""


def answer_bytes(status: int, value: object) -> bytes:
    """A whole answer."""
    body = value if isinstance(value, bytes) else msgspec.json.encode(value)
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


def read_request(head: bytes, body: bytes) -> Seen:
    """What was asked."""
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ")
    pairs = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    return Seen(method=method, path=path, headers=headers, body=body)


class Provider:
    """A server that answers each request by one function."""

    def __init__(self, answer: Callable[[Seen], Answer]) -> None:
        self.answer = answer
        self.seen: list[Seen] = []
        self.server = RawServer()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Provider]:
        async with raw_server(self._script) as self.server:
            yield self

    async def _script(self, server: RawServer, peer: Peer) -> None:
        while (request := await peer.request())[0]:
            seen = read_request(*request)
            self.seen.append(seen)
            server.note(request)
            await peer.send(answer_bytes(*self.answer(seen)))


@asynccontextmanager
async def running(channel: Channel) -> AsyncIterator[Adapter]:
    """The adapter of a channel on real HTTP, started."""
    context = trust()
    made = build(channel, World(lambda: HttpDoor(context), lambda: context, lambda: NOW))
    async with trio.open_nursery() as standing:
        await standing.start(made.run)
        yield made
        standing.cancel_scope.cancel()


def out(kind: str, target: str, text: str = "hello", *, delivery: str = "d-1") -> Outgoing:
    """One delivery."""
    return Outgoing(
        delivery_id=delivery,
        channel="ops",
        target=msgspec.convert({"type": kind, "id": target}, Target),
        text=text,
    )


class Telegram:
    """The Bot API: one bot, chats that it may write to."""

    def __init__(self, token: str, *chats: int | str) -> None:
        self._token = token
        self._chats = chats
        self.messages: list[tuple[int | str, str]] = []

    def __call__(self, seen: Seen) -> Answer:
        start = f"/bot{self._token}/"
        if not seen.path.startswith(start):
            return self._no(401, "Unauthorized")
        if seen.path == f"{start}getMe":
            return 200, {"ok": True, "result": {"id": 1, "is_bot": True, "username": "ops_bot"}}
        if seen.path != f"{start}sendMessage":
            return self._no(404, "Not Found")
        chat, text = seen.json["chat_id"], seen.json["text"]
        if not text.strip():
            return self._no(400, "Bad Request: message text is empty")
        if sum(2 if c > "\uffff" else 1 for c in text) > 4096:
            return self._no(400, "Bad Request: message is too long")
        if chat not in self._chats:
            return self._no(400, "Bad Request: chat not found")
        self.messages.append((chat, text))
        return 200, {"ok": True, "result": {"message_id": len(self.messages)}}

    def _no(self, code: int, why: str) -> Answer:
        return code, {"ok": False, "error_code": code, "description": why}


class Slack:
    """The Web API: HTTP 200 for nearly everything."""

    def __init__(self, token: str, *channels: str, users: Mapping[str, str]) -> None:
        self._token = token
        self._channels = {*channels, *users.values()}
        self._users = users
        self.messages: list[tuple[str, str]] = []

    def __call__(self, seen: Seen) -> Answer:
        if seen.headers.get("authorization") != f"Bearer {self._token}":
            return 200, {"ok": False, "error": "invalid_auth"}
        if seen.headers.get("content-type") != "application/json; charset=utf-8":
            return 200, {"ok": False, "error": "invalid_post_type"}
        if seen.path == "/api/auth.test":
            return 200, {"ok": True, "user": "opsbot", "team": "Acme", "url": "https://x"}
        if seen.path == "/api/conversations.open":
            channel = self._users.get(seen.json["users"])
            if channel is None:
                return 200, {"ok": False, "error": "user_not_found"}
            return 200, {"ok": True, "channel": {"id": channel}}
        if seen.path != "/api/chat.postMessage":
            return 200, {"ok": False, "error": "unknown_method"}
        if len(seen.json["text"]) > 40_000:
            return 200, {"ok": False, "error": "msg_too_long"}
        if seen.json["channel"] not in self._channels:
            return 200, {"ok": False, "error": "channel_not_found"}
        self.messages.append((seen.json["channel"], seen.json["text"]))
        return 200, {"ok": True, "channel": seen.json["channel"], "ts": "1.2"}


class DingTalk:
    """The robot API: a token first; who is unknown is listed in a good answer."""

    def __init__(self, key: str, secret: str, *people: str, lasts_s: int = 7200) -> None:
        self._login = {"appKey": key, "appSecret": secret}
        self._people = people
        self._lasts_s = lasts_s
        self.logins = 0
        self.messages: list[tuple[str, str]] = []

    def __call__(self, seen: Seen) -> Answer:
        if seen.path == "/v1.0/oauth2/accessToken":
            if seen.json != self._login:
                return 400, {"code": "invalidClientIdOrSecret", "message": "no"}
            self.logins += 1
            return 200, {"accessToken": f"token{self.logins}", "expireIn": self._lasts_s}
        if seen.headers.get("x-acs-dingtalk-access-token") != f"token{self.logins}":
            return 401, {"code": "InvalidAuthentication", "message": "no"}
        text = msgspec.json.decode(seen.json["msgParam"])["content"]
        if seen.path == "/v1.0/robot/groupMessages/send":
            self.messages.append((seen.json["openConversationId"], text))
            return 200, {"processQueryKey": "k"}
        if seen.path != "/v1.0/robot/oToMessages/batchSend":
            return 404, {"code": "InvalidAction.NotFound", "message": "no"}
        unknown = [one for one in seen.json["userIds"] if one not in self._people]
        self.messages += [(one, text) for one in seen.json["userIds"] if one in self._people]
        return 200, {"processQueryKey": "k", "invalidStaffIdList": unknown}


def dingtalk_robot(secret: str) -> Callable[[Seen], Answer]:
    """The signed robot address."""

    def answer(seen: Seen) -> Answer:
        query = parse_qs(urlsplit(seen.path).query)
        if query.get("access_token") != ["T"]:
            return 200, {"errcode": 300001, "errmsg": "token is not exist"}
        stamp = query["timestamp"][0]
        made = hmac.new(secret.encode(), f"{stamp}\n{secret}".encode(), hashlib.sha256)
        if query.get("sign") != [base64.b64encode(made.digest()).decode()]:
            return 200, {"errcode": 310000, "errmsg": "sign not match"}
        return 200, {"errcode": 0, "errmsg": "ok"}

    return answer
