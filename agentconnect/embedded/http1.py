"""One HTTP/1.1 connection: requests in, the app's answers out, one after the other.

h11 has the grammar, the app is ASGI; between them this module owns what a connection may cost:
every wait has its limit (stack.md §7), and a head goes out in one piece with the start of its body.
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
from agentconnect.embedded.timing import HEAD_BYTES, Timing

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
        self._wire = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        self._exchange: Exchange | None = None

    async def run(self) -> None:
        """Serve requests until the peer, a limit or the stop ends it."""
        try:
            while await self._one():
                self._wire.start_next_cycle()
        except (Gone, h11.LocalProtocolError):
            pass
        finally:
            self._line.close()

    async def _one(self) -> bool:
        try:
            request = await self._head()
            if request is None:
                return False
            exchange = Exchange(self._line, self._wire, self._timing, self._idle, request)
        except h11.RemoteProtocolError as error:
            await self._refuse(error.error_status_hint)
            return False
        await self._app(exchange.scope, exchange.receive, exchange.send)
        return await exchange.end()

    async def _head(self) -> h11.Request | None:
        with trio.CancelScope(deadline=trio.current_time() + self._timing.idle_s) as limit:
            begun = bool(self._wire.trailing_data[0])
            if begun:
                limit.deadline = trio.current_time() + self._timing.head_s
            else:
                self._idle.waits(self, limit)
            try:
                while True:
                    event = self._wire.next_event()
                    if isinstance(event, h11.Request):
                        return event
                    if event is not h11.NEED_DATA:
                        return None
                    self._wire.receive_data(await self._line.read())
                    if not begun:
                        begun = True
                        self._idle.works(self)
                        limit.deadline = trio.current_time() + self._timing.head_s
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

    def __init__(
        self,
        line: Line,
        wire: h11.Connection,
        timing: Timing,
        idle: Idle,
        request: h11.Request,
    ) -> None:
        self._line = line
        self._wire = wire
        self._timing = timing
        self._idle = idle
        self._parts: list[bytes] = []
        self._whole = False
        self._told = False  # that it is whole
        self._head_only = request.method == b"HEAD"
        self._late = trio.current_time() + timing.body_s
        self._head: h11.Response | None = None
        self._torn = False
        self.scope = scope_of(request)
        self._collect()

    async def receive(self) -> Message:
        """The next part of the body; after the last one, the news that the peer left."""
        if not self._told:
            try:
                if not self._parts and not self._whole:
                    await self._more()
            except (Gone, h11.RemoteProtocolError):
                self._torn = True
                return {"type": "http.disconnect"}
            body = b"".join(self._parts)
            self._parts.clear()
            self._told = self._whole
            return {"type": "http.request", "body": body, "more_body": not self._whole}
        await self._until_gone()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """A part of the answer.

        Raises:
            Gone: nobody takes it any more.
        """
        if message["type"] == "http.response.start":
            await self._settle()
            self._head = self._response(message)
        elif message["type"] == "http.response.body":
            await self._body(message.get("body", b""), more=message.get("more_body", False))
        elif message["type"] == "relay.cut":  # faults alone
            await self._cut(message["data"], reset=message["reset"])

    async def end(self) -> bool:
        """Whether another request may follow on the connection."""
        if self._wire.our_state is h11.DONE and self._wire.their_state is h11.DONE:
            return not self._idle.stopping
        if (
            self._wire.our_state in (h11.DONE, h11.MUST_CLOSE)
            and not self._torn
            and not self._whole
        ):
            with trio.move_on_after(self._timing.linger_s):
                await self._line.linger()
        return False

    def _collect(self) -> None:
        """Take what has arrived of the body."""
        while not self._whole:
            event = self._wire.next_event()
            if isinstance(event, h11.Data):
                self._parts.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                self._whole = True
            elif event is h11.NEED_DATA:
                return
            else:
                raise Gone

    async def _more(self) -> None:
        if self._wire.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=100, headers=[])
            await self._line.write(self._wire.send(go_on), self._timing.gap_s)
        arrived = len(self._parts)
        while len(self._parts) == arrived and not self._whole:
            deadline = min(self._late, trio.current_time() + self._timing.gap_s)
            with trio.move_on_at(deadline) as limit:
                data = await self._line.read()
            if limit.cancelled_caught:
                raise Gone
            self._wire.receive_data(data)
            self._collect()

    async def _until_gone(self) -> None:
        ahead = len(self._wire.trailing_data[0])
        while not self._torn:
            if ahead > _AHEAD:  # what a peer sends ahead stays in its own buffers
                await trio.sleep_forever()
            try:
                data = await self._line.read()
            except Gone:
                return
            if not self._wire.trailing_data[1]:
                self._wire.receive_data(data)
            if not data:
                return
            ahead += len(data)

    def _response(self, message: Message) -> h11.Response:
        headers = [(name, value) for name, value in message.get("headers", ())]
        headers.append((b"date", _date(int(time.time()))))
        if not self._whole or self._idle.stopping:
            headers.append((b"connection", b"close"))
        return h11.Response(status_code=message["status"], headers=headers)

    async def _settle(self) -> None:
        """An answer that comes before the whole request: take the rest if it is short."""
        if self._whole or self._torn or self._wire.they_are_waiting_for_100_continue:
            return
        with trio.move_on_after(_SETTLE_S):
            try:
                self._collect()
                while not self._whole and sum(map(len, self._parts)) < _AHEAD:
                    await self._more()
            except (Gone, h11.RemoteProtocolError):
                self._torn = True

    async def _body(self, body: bytes, *, more: bool) -> None:
        data = b""
        if self._head is not None:
            data = self._wire.send(self._head) or b""
            self._head = None
        if body and not self._head_only:
            data += self._wire.send(h11.Data(data=body)) or b""
        if not more:
            data += self._wire.send(h11.EndOfMessage()) or b""
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


def scope_of(request: h11.Request) -> Message:
    """What ASGI tells an app of a request."""
    target = request.target
    if not target.startswith(b"/"):  # the absolute form, as a proxy is asked
        _, _, rest = target.partition(b"://")
        target = b"/" + rest.partition(b"/")[2]
    path, _, query = target.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": request.http_version.decode("ascii"),
        "method": request.method.decode("ascii"),
        "scheme": "http",
        "path": unquote(path.decode("ascii", "replace")),
        "raw_path": bytes(path),
        "query_string": bytes(query),
        "root_path": "",
        "headers": [(bytes(name), bytes(value)) for name, value in request.headers],
    }


@lru_cache(maxsize=2)
def _date(now: int) -> bytes:
    return formatdate(now, usegmt=True).encode()
