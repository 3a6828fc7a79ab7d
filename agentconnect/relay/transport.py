"""Our transport behind httpx's interface: a small pool of kept connections, and nothing else.

It opens connections, reuses them, and closes what must not be used again. No proxy, no redirect, no
cookie and no HTTP/2 exist here. A request is sent a second time only where a kept connection turned
out to be closed and either not all of it was written or repeating it changes nothing. Whatever ends
an exchange early (an error, a cancel, an answer not read to its end) closes its connection.
"""

import ssl
from collections.abc import Callable
from typing import Self, TypeAlias

import httpx
import trio

from agentconnect.httpbody import Body
from agentconnect.relay.connection import Connection, Limits, StaleError
from agentconnect.relay.plain import Headers
from agentconnect.relay.resolver import Resolver, connect

KEEP_S = 30.0
REPEATABLE = "repeatable"
"""The request extension that says whether sending twice does no more than once; a GET: yes."""

Origin: TypeAlias = tuple[bool, str, int]
"""Whether over TLS, the host, the port."""


class Transport(httpx.AsyncBaseTransport):
    """At most ``connections`` open at a time, all of which may be kept for the next request."""

    def __init__(
        self,
        *,
        connections: int,
        tls: Callable[[], ssl.SSLContext],
        resolver: Resolver | None = None,
        keep_s: float = KEEP_S,
        mono_now: Callable[[], float] = trio.current_time,
    ) -> None:
        self._limit = connections
        self._slots = trio.Semaphore(connections, max_value=connections)
        self._tls = tls
        self._resolver = resolver or Resolver()
        self._keep_s = keep_s
        self._mono_now = mono_now
        self._idle: list[Connection] = []  # the one used last is at the end, and used next
        self._busy: set[Connection] = set()
        self._closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One exchange up to the head of the answer; the rest is read from the response's stream.

        Raises: httpx.TransportError. Cancellation: closes the connection.
        """
        url = request.url
        secure = url.scheme == "https"
        origin = secure, url.raw_host.decode("ascii"), url.port or (443 if secure else 80)
        timeout = request.extensions.get("timeout") or {}
        limits = Limits(timeout.get("read"), timeout.get("write"))
        body = _body_of(request)
        await self._take_slot(timeout.get("pool"))
        connection: Connection | None = None
        try:
            connection = self._kept(origin) or await self._open(origin, timeout.get("connect"))
            try:
                status, headers = await connection.begin(request, body, limits)
            except StaleError as stale:
                if not isinstance(body, bytes) or not (stale.unsent or _repeatable(request)):
                    raise httpx.RemoteProtocolError("a kept connection was closed") from stale
                self._drop(connection)
                connection = await self._open(origin, timeout.get("connect"))
                status, headers = await connection.begin(request, body, limits)
            return self._response(connection, status, headers)
        except BaseException:
            self._release(connection)
            raise

    async def aclose(self) -> None:
        """Close every connection, those in use too."""
        self._closed = True
        for connection in (*self._idle, *self._busy):
            connection.close()
        self._idle.clear()
        await trio.lowlevel.checkpoint()

    # --- the pool ---------------------------------------------------------------------------

    async def _take_slot(self, within_s: float | None) -> None:
        if self._closed:
            raise httpx.ConnectError("the transport is closed")
        try:
            self._slots.acquire_nowait()
        except trio.WouldBlock:
            with trio.move_on_after(float("inf") if within_s is None else within_s) as waiting:
                await self._slots.acquire()
            if waiting.cancelled_caught:
                raise httpx.PoolTimeout("all connections are in use") from None

    def _kept(self, origin: Origin) -> Connection | None:
        """An idle connection that still stands; those past their time are closed on the way."""
        now = self._mono_now()
        while self._idle and self._idle[0].idle_until <= now:
            self._idle.pop(0).close()
        for index in range(len(self._idle) - 1, -1, -1):
            if self._idle[index].origin != origin:
                continue
            connection = self._idle.pop(index)
            if connection.alive():
                self._busy.add(connection)
                return connection
            connection.close()
        return None

    async def _open(self, origin: Origin, within_s: float | None) -> Connection:
        while self._idle and len(self._idle) + len(self._busy) >= self._limit:
            self._idle.pop(0).close()
        try:
            with trio.fail_after(float("inf") if within_s is None else within_s):
                connection = await self._connect(origin)
        except trio.TooSlowError as error:
            raise httpx.ConnectTimeout("no connection in time") from error
        except (OSError, ValueError, trio.BrokenResourceError) as error:
            raise httpx.ConnectError("no connection") from error
        if self._closed:
            connection.close()
            raise httpx.ConnectError("the transport is closed")
        self._busy.add(connection)
        return connection

    async def _connect(self, origin: Origin) -> Connection:
        secure, host, port = origin
        link = await connect(await self._resolver.addresses(host, port))
        if not secure:
            return Connection(origin, link)
        try:
            wrapped = trio.SSLStream(
                link.stream, self._tls(), server_hostname=host, https_compatible=True
            )
            await wrapped.do_handshake()
        except BaseException:
            link.close()
            raise
        return Connection(origin, link, wrapped)

    def _drop(self, connection: Connection) -> None:
        self._busy.discard(connection)
        connection.close()

    def _release(self, connection: Connection | None) -> None:
        """The exchange is over without a whole answer."""
        if connection is not None:
            self._drop(connection)
        self._slots.release()

    def _keep(self, connection: Connection) -> None:
        """The exchange is over, the answer was read to its end."""
        if self._closed or not connection.recycle():
            self._release(connection)
            return
        self._busy.discard(connection)
        connection.idle_until = self._mono_now() + self._keep_s
        self._idle.append(connection)
        self._slots.release()

    # --- the answer -------------------------------------------------------------------------

    def _response(self, connection: Connection, status: int, headers: Headers) -> httpx.Response:
        blocks, whole = connection.at_hand()
        if whole:
            self._keep(connection)
        return httpx.Response(
            status, headers=headers, stream=_Answer(self, None if whole else connection, blocks)
        )


class _Answer(httpx.AsyncByteStream):
    """The body of one answer: what came with the head, then what the connection brings."""

    def __init__(
        self, transport: Transport, connection: Connection | None, blocks: list[bytes]
    ) -> None:
        self._transport = transport
        self._connection = connection
        self._blocks = blocks
        self._blocks.reverse()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._blocks:
            return self._blocks.pop()
        if self._connection is None:
            raise StopAsyncIteration
        try:
            block = await self._connection.more()
        except BaseException:
            await self.aclose()
            raise
        if block:
            return block
        connection, self._connection = self._connection, None
        self._transport._keep(connection)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Give the rest up, and the connection with it. Never waits."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._transport._release(connection)


def trust() -> ssl.SSLContext:
    """The system's trust, and HTTP/1.1 as the one protocol offered. Blocking: it reads files."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _body_of(request: httpx.Request) -> bytes | httpx.AsyncByteStream:
    stream = request.stream
    if isinstance(stream, Body):
        return stream.content
    try:
        return request.content
    except httpx.RequestNotRead:
        pass
    if not isinstance(stream, httpx.AsyncByteStream):
        raise httpx.LocalProtocolError("a body of the wrong kind")
    return stream


def _repeatable(request: httpx.Request) -> bool:
    return bool(request.extensions.get(REPEATABLE, request.method in ("GET", "HEAD")))
