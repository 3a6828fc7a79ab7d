"""One HTTP/1.1 connection: requests in, the app's answers out, one after the other.

:mod:`wires` has the grammar, the app is ASGI; between them this module owns what a connection may
cost: every wait has its limit (stack.md §7), and a head goes out together with its body's start.
It never knows what is served. A peer that is gone is :class:`Gone` to whoever writes, and
``http.disconnect`` to whoever reads.
"""

import time
from collections.abc import Awaitable, Callable, MutableMapping
from email.utils import formatdate
from functools import lru_cache
from typing import Any, Protocol
from urllib.parse import unquote

import h11
import trio

from agentconnect.embedded.line import Gone, Line
from agentconnect.embedded.timing import Timing
from agentconnect.embedded.wires import Headers, Wire, begin

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
_AHEAD = 65_536  # bytes of a next request kept while this one is answered
_SETTLE_S = 0.1  # a short body that nobody asked for is on its way: wait, and keep the connection


class Idle(Protocol):
    """Where a connection says that it waits for a request, and may be ended."""

    stopping: bool

    def waits(self, connection: "Connection", scope: trio.CancelScope) -> None:
        """It waits; cancelling the scope closes it."""

    def works(self, connection: "Connection") -> None:
        """It no longer waits."""


class Connection:
    """One accepted connection until it closes."""

    def __init__(self, line: Line, app: App, timing: Timing, idle: Idle) -> None:
        self._line = line
        self._app = app
        self._timing = timing
        self._idle = idle
        self._arrived = bytearray()  # and not part of an earlier request

    async def run(self) -> None:
        """Serve requests until the peer, a limit or the stop ends it."""
        try:
            while await self._one():
                pass
        except (Gone, h11.LocalProtocolError):
            pass
        finally:
            self._line.close()

    async def _one(self) -> bool:
        try:
            wire = await self._head()
        except h11.RemoteProtocolError as error:
            await self._refuse(error.error_status_hint)
            return False
        if wire is None:
            return False
        exchange = Exchange(self._line, wire, self._timing, self._idle)
        await self._app(exchange.scope, exchange.receive, exchange.send)
        if not await exchange.end():
            return False
        self._arrived = bytearray(wire.ahead) + exchange.ahead
        return True

    async def _head(self) -> Wire | None:
        with trio.CancelScope(deadline=trio.current_time() + self._timing.idle_s) as limit:
            begun = bool(self._arrived)
            if begun:
                limit.deadline = trio.current_time() + self._timing.head_s
            else:
                self._idle.waits(self, limit)
            try:
                while (wire := begin(self._arrived)) is None:
                    data = await self._line.read()
                    if not data:
                        return None
                    self._arrived += data
                    if not begun:
                        begun = True
                        self._idle.works(self)
                        limit.deadline = trio.current_time() + self._timing.head_s
                return wire
            finally:
                self._idle.works(self)
        return None

    async def _refuse(self, status: int) -> None:
        """What is not HTTP gets one answer and no second request."""
        body = b'{"error":"This is not a request that can be read."}'
        with trio.move_on_after(self._timing.linger_s):
            head = b"HTTP/1.1 %d \r\ncontent-type: application/json\r\n" % status
            tail = b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
            await self._line.write(head + tail + body, self._timing.linger_s)
            await self._line.linger()


class Exchange:
    """One request with its answer: the two callables that ASGI hands an app."""

    def __init__(self, line: Line, wire: Wire, timing: Timing, idle: Idle) -> None:
        self._line = line
        self._wire = wire
        self._timing = timing
        self._idle = idle
        self._told = False  # that the request is whole
        self._late = trio.current_time() + timing.body_s
        self._head = b""  # of the answer, until there is some body to go with it
        self._torn = False
        self.ahead = bytearray()  # what came of the next request meanwhile
        self.scope = scope_of(wire)

    async def receive(self) -> Message:
        """The next part of the body; after the last one, the news that the peer left."""
        wire = self._wire
        if not self._told:
            try:
                if not wire.parts and not wire.whole:
                    await self._more()
            except (Gone, h11.RemoteProtocolError):
                self._torn = True
                return {"type": "http.disconnect"}
            body = b"".join(wire.parts)
            wire.parts.clear()
            self._told = wire.whole
            return {"type": "http.request", "body": body, "more_body": not wire.whole}
        await self._until_gone()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """A part of the answer.

        Raises:
            Gone: nobody takes it any more.
        """
        if message["type"] == "http.response.start":
            if not self._wire.whole:
                await self._settle()
            self._head = self._wire.head(message["status"], self._headers(message))
        elif message["type"] == "http.response.body":
            await self._body(message.get("body", b""), more=message.get("more_body", False))
        elif message["type"] == "relay.cut":  # faults alone
            await self._cut(message["data"], reset=message["reset"])

    async def end(self) -> bool:
        """Whether another request may follow on the connection."""
        if self._torn or not self._wire.finished:
            return False
        if not self._wire.whole:
            with trio.move_on_after(self._timing.linger_s):
                await self._line.linger()
        return self._wire.again and not self._idle.stopping

    async def _more(self) -> None:
        wire = self._wire
        if wire.asks:
            await self._line.write(wire.go_on(), self._timing.gap_s)
        arrived = len(wire.parts)
        while len(wire.parts) == arrived and not wire.whole:
            deadline = min(self._late, trio.current_time() + self._timing.gap_s)
            with trio.move_on_at(deadline) as limit:
                data = await self._line.read()
            if limit.cancelled_caught:
                raise Gone
            wire.feed(data)

    async def _until_gone(self) -> None:
        while not self._torn:
            if len(self.ahead) > _AHEAD:  # what a peer sends ahead stays in its own buffers
                await trio.sleep_forever()
            try:
                data = await self._line.read()
            except Gone:
                return
            if not data:
                return
            self.ahead += data

    def _headers(self, message: Message) -> Headers:
        headers = [*message.get("headers", ()), (b"date", _date(int(time.time())))]
        if not self._wire.whole or self._idle.stopping:
            headers.append((b"connection", b"close"))
        return headers

    async def _settle(self) -> None:
        """An answer that comes before the whole request: take the rest if it is short."""
        if self._torn or self._wire.asks:
            return
        with trio.move_on_after(_SETTLE_S):
            try:
                while not self._wire.whole and sum(map(len, self._wire.parts)) < _AHEAD:
                    await self._more()
            except (Gone, h11.RemoteProtocolError):
                self._torn = True

    async def _body(self, body: bytes, *, more: bool) -> None:
        data = self._head + self._wire.body(body)
        self._head = b""
        if not more:
            data += self._wire.end()
        if data:
            await self._write(data)

    async def _write(self, data: bytes) -> None:
        try:
            await self._line.write(data, self._timing.gap_s)
        except Gone:
            self._torn = True
            raise

    async def _cut(self, data: bytes, *, reset: bool) -> None:
        self._torn = True
        if data:
            await self._line.write(data, self._timing.gap_s)
        if reset:
            self._line.break_off()
        raise Gone


def scope_of(wire: Wire) -> Message:
    """What ASGI tells an app of a request."""
    target = wire.target
    if not target.startswith(b"/"):  # the absolute form, as a proxy is asked
        _, _, rest = target.partition(b"://")
        target = b"/" + rest.partition(b"/")[2]
    path, _, query = target.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": wire.version.decode("ascii"),
        "method": wire.method.decode("ascii"),
        "scheme": "http",
        "path": unquote(path.decode("ascii", "replace")),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": wire.headers,
    }


@lru_cache(maxsize=2)
def _date(now: int) -> bytes:
    return formatdate(now, usegmt=True).encode()
