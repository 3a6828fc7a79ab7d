"""What every request passes before a route is looked at: rows 2 to 5 of §2.2, in their order.

Plain ASGI. The path that goes on is the undecoded one, so that ``%2F`` does not split a segment;
the body is read here, within its limit, and travels beside it.
"""

import math
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

import msgspec
import trio

from agentconnect.core.daemon.body import MAX_BODY_BYTES, MAX_WEBHOOK_BODY_BYTES
from agentconnect.core.daemon.guard import (
    Bound,
    check_bearer,
    check_host,
    check_origin,
    origin_headers,
)
from agentconnect.core.daemon.refusals import TOO_LARGE, WEBHOOK_UNAUTHORIZED, Refusal
from agentconnect.daemon.asking import Answer, refused

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
CheckHook = Callable[[bytes, bytes, tuple[str, ...]], bool]
"""Whether the secret is that of a channel's source; both segments undecoded."""

BODY = "agentconnect.body"
HEADERS = "agentconnect.headers"
MAX_HEAD_BYTES = 64 * 1024
DRAIN_BYTES, DRAIN_S = 4 * MAX_BODY_BYTES, 5.0
"""Of a body that is too long: so much is read and dropped before the refusal."""
MAX_OPEN = 512
"""Requests at once, streams included."""

BUSY = Refusal(
    status=503,
    error="Too many requests are open.",
    code="too_many_requests",
    headers=(("Retry-After", "1"),),
)
TOO_LONG_HEAD = Refusal(
    status=431,
    error="The request's headers are too long.",
    code="headers_too_large",
    headers=(("Connection", "close"),),
)
_HOOK = re.compile(rb"/channels/([^/]+)/webhooks/([^/]+)")
_PREFLIGHT = (
    ("Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE"),
    ("Access-Control-Allow-Headers", "Authorization, Content-Type, Last-Event-ID"),
)
SECRET_HEADER = "x-agentconnect-webhook-secret"  # noqa: S105 - a header's name


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What the checks compare with."""

    bound: Bound
    digest: bytes
    """Of the bearer token."""
    origins: frozenset[str]
    hook: CheckHook


class Edge:
    """The checks, in front of ``app``."""

    def __init__(self, app: App, rules: Callable[[], Rules]) -> None:
        self._app = app
        self._rules = rules
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection of the server's."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _headers(scope)
        rules = self._rules()
        path: bytes = scope["raw_path"]
        answer, limit = _checked(rules, scope["method"], path, headers)
        origin = (
            () if answer and answer.status == 403 else origin_headers(headers.get("origin", ()))
        )
        if answer is None and self._open >= MAX_OPEN:
            answer = refused(BUSY)
        self._open += 1
        try:
            if answer is None:
                body = await _body(headers, receive, limit)
                if body is None:
                    return  # it left
                scope[BODY], scope[HEADERS] = body, headers
                if len(body) > limit:
                    answer = refused(TOO_LARGE)
            if answer is not None:
                await reply(send, answer, origin)
                return
            scope["path"] = path.decode("latin-1")
            await self._app(scope, receive, _with(send, origin))
        finally:
            self._open -= 1


def _checked(
    rules: Rules, method: str, path: bytes, headers: Mapping[str, tuple[str, ...]]
) -> tuple[Answer | None, int]:
    """The answer of the first check that fails; how long the body may be."""
    if len(path) + sum(len(k) + len(v) for k in headers for v in headers[k]) > MAX_HEAD_BYTES:
        return refused(TOO_LONG_HEAD), 0
    refusal = check_host(rules.bound, headers.get("host", ()))
    origin = headers.get("origin", ())
    refusal = refusal or check_origin(origin, rules.origins)
    preflight = method == "OPTIONS" and "access-control-request-method" in headers
    if refusal is None and origin and preflight:
        return Answer(status=204, headers=_PREFLIGHT), 0
    if refusal is None and (found := _HOOK.fullmatch(path)):
        if not rules.hook(found[1], found[2], headers.get(SECRET_HEADER, ())):
            refusal = WEBHOOK_UNAUTHORIZED
        return (refused(refusal) if refusal else None), MAX_WEBHOOK_BODY_BYTES
    if refusal is None and not (path == b"/health" and rules.bound.loopback):
        refusal = check_bearer(headers.get("authorization", ()), rules.digest)
    return (refused(refusal) if refusal else None), MAX_BODY_BYTES


async def _body(
    headers: Mapping[str, tuple[str, ...]], receive: Receive, limit: int
) -> bytes | None:
    """The body; one byte too long where it is too long; None where the client has left."""
    stated = next(iter(headers.get("content-length", ())), "")
    told = stated.isascii() and stated.isdigit() and (len(stated) > 18 or int(stated) > limit)
    parts, size, more = list[bytes](), 0, True
    with trio.move_on_after(DRAIN_S if told else math.inf) as reading:
        while more and size <= DRAIN_BYTES:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part = message.get("body", b"")
            size += len(part)
            more = message.get("more_body", False)
            if size <= limit and not told:
                parts.append(part)
            else:  # the rest is let go: who still writes would not read the answer
                parts.clear()
                reading.deadline = min(reading.deadline, trio.current_time() + DRAIN_S)
    return bytes(limit + 1) if told or size > limit else b"".join(parts)


async def reply(send: Send, answer: Answer, extra: tuple[tuple[str, str], ...] = ()) -> None:
    """Send a whole answer."""
    fixed = [("Cache-Control", "no-store"), ("Content-Length", str(len(answer.body)))]
    if answer.body:
        fixed.append(("Content-Type", "application/json"))
    if answer.status == 204:
        fixed = fixed[:1]  # it has no body, and says no length
    named = [(k.lower().encode(), v.encode()) for k, v in (*fixed, *answer.headers, *extra)]
    start = {"type": "http.response.start", "status": answer.status, "headers": named}
    await send(start)
    await send({"type": "http.response.body", "body": answer.body, "more_body": False})


def _with(send: Send, extra: tuple[tuple[str, str], ...]) -> Send:
    if not extra:
        return send

    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            more = [(k.lower().encode(), v.encode()) for k, v in extra]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sending


def _headers(scope: Scope) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        found[key] = (*found.get(key, ()), value.decode("latin-1"))
    return found
