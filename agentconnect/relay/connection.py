"""One HTTP/1.1 connection: a stream, h11, and one exchange at a time.

Turns a request into bytes (head and body in one write where they fit) and what comes back into an
answer, and says whether the connection may carry another one. It never waits for more than the
next block, so a slow reader holds the server up and nothing piles up here. Every failure is one of
httpx's exceptions, and none of them quotes the peer or our headers. A plain exchange (``plain``)
passes h11 by; from the first thing in it that is not plain, h11 is told all and judges.
"""

import select
from collections.abc import AsyncIterator
from typing import TypeAlias

import h11
import httpx
import trio

from agentconnect.relay.plain import Headers, PlainAnswer, read_answer, write_request
from agentconnect.relay.resolver import Link

Tls: TypeAlias = trio.SSLStream[trio.SocketStream]

HEAD_BYTES = 64 * 1024
"""The most an answer's head, or one line of a chunked body, may have."""

BLOCK_BYTES = 64 * 1024
ONE_WRITE_BYTES = 64 * 1024
"""A body up to this goes out with its head; a longer one while the answer is listened for."""

INTERIM_ANSWERS = 16
CLOSE_BODY_WITHIN_S = 1.0


class Limits:
    """How long one read and one write may go without progress; None: the caller's own deadline."""

    __slots__ = ("read_s", "write_s")

    def __init__(self, read_s: float | None, write_s: float | None) -> None:
        self.read_s = read_s
        self.write_s = write_s


class StaleError(Exception):
    """A kept connection turned out to be closed; ``unsent``: surely before all was written."""

    def __init__(self, *, unsent: bool) -> None:
        super().__init__()
        self.unsent = unsent


class Connection:
    """Made connected. :meth:`close` is synchronous, so that any ending can call it."""

    def __init__(self, origin: object, link: Link, tls: Tls | None = None) -> None:
        self.origin = origin
        self.idle_until = 0.0
        self._link = link
        self._tls = tls
        self._stream: trio.abc.Stream = tls or link.stream
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES)
        self._plain: PlainAnswer | None = None  # the answer of this exchange, where it is one
        self._kept = False  # it carried an exchange before this one
        self._heard = False  # something of this answer has come
        self._cut = False  # a write was not finished
        self._limits = Limits(None, None)
        self._readable = select.poll()
        self._readable.register(link.raw.fileno(), select.POLLIN)

    # --- between exchanges ------------------------------------------------------------------

    def alive(self) -> bool:
        """Nothing has come since the last answer: neither its end nor bytes nobody asked for."""
        return not self._readable.poll(0)

    def recycle(self) -> bool:
        """Make ready for the next exchange; False where this connection must not carry one."""
        http = self._http
        if self._plain is None:
            done = http.our_state is h11.DONE and http.their_state is h11.DONE
            if self._cut or not done or http.trailing_data[0]:
                return False
            http.start_next_cycle()
        self._plain, self._kept, self._heard = None, True, False
        return True

    def close(self) -> None:
        """Idempotent; whoever reads or writes meanwhile gets an error."""
        self._link.close()

    # --- one exchange -----------------------------------------------------------------------

    async def begin(
        self, request: httpx.Request, body: bytes | httpx.AsyncByteStream, limits: Limits
    ) -> tuple[int, Headers]:
        """Send a request and read the head of its answer: the status, the headers.

        Raises: StaleError, httpx.TransportError. Cancellation: the caller closes the connection.
        """
        self._limits = limits
        if isinstance(body, bytes) and len(body) <= ONE_WRITE_BYTES:
            return await self._at_once(request, body)
        answer = await self._side_by_side(self._tell(request), body)
        return answer.status_code, list(answer.headers)

    async def more(self) -> bytes:
        """The next bytes of the body; ``b""`` at its end. Raises: httpx.TransportError."""
        while True:
            event = self._buffered()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._block())
            elif type(event) is h11.Data:
                if event.data:
                    return bytes(event.data)
            elif type(event) is h11.EndOfMessage:
                return b""
            else:
                raise httpx.RemoteProtocolError("the answer's body is cut short")

    def at_hand(self) -> tuple[list[bytes], bool]:
        """What of the body came with its head, and whether that was all."""
        if self._plain is not None:
            return [self._plain.body], True
        blocks: list[bytes] = []
        while True:
            event = self._buffered()
            if type(event) is h11.Data:
                blocks.append(bytes(event.data))
            else:
                return blocks, type(event) is h11.EndOfMessage

    # --- writing ----------------------------------------------------------------------------

    def _tell(self, request: httpx.Request) -> bytes:
        """Let h11 know of the request; its head. h11's own error would quote a header."""
        try:
            head = h11.Request(
                method=request.method, target=_target(request), headers=request.headers.raw
            )
            return self._http.send(head) or b""
        except h11.LocalProtocolError:
            raise httpx.LocalProtocolError("the request cannot be written") from None

    def _tell_body(self, body: bytes) -> bytes:
        try:
            data = (self._http.send(h11.Data(data=body)) or b"") if body else b""
            return data + (self._http.send(h11.EndOfMessage()) or b"")
        except h11.LocalProtocolError as error:
            raise httpx.LocalProtocolError("the body is not of the length stated") from error

    async def _at_once(self, request: httpx.Request, body: bytes) -> tuple[int, Headers]:
        plain = write_request(request.method, _target(request), request.headers.raw, body)
        data = plain or self._tell(request) + self._tell_body(body)
        try:
            if rest := self._send_now(data):
                await self._send(rest)
        except httpx.WriteError:
            self._cut = True  # it may have answered before it stopped listening: that counts
        try:
            if plain is not None:
                block = await self._first_block(unsent=self._cut)
                self._plain = None if self._cut else read_answer(block)
                if self._plain is not None:
                    return self._plain.status, self._plain.headers
                self._tell(request)
                self._tell_body(body)
                self._http.receive_data(block)
            answer = await self._head(unsent=self._cut)
        except (httpx.ReadError, httpx.RemoteProtocolError) as error:
            if self._cut:
                raise httpx.WriteError("the connection broke while sending") from error
            raise
        return answer.status_code, list(answer.headers)

    def _send_now(self, data: bytes) -> bytes:
        """What the kernel takes at once goes without a turn of the loop; the rest comes back."""
        if self._tls is not None:
            return data
        try:
            return data[self._link.raw.send(data) :]
        except BlockingIOError:
            return data
        except OSError as error:
            raise httpx.WriteError("the connection broke while sending") from error

    async def _side_by_side(self, data: bytes, body: bytes | httpx.AsyncByteStream) -> h11.Response:
        """Send a long body while listening: a server may refuse it before it has it all."""
        failures: list[Exception] = []
        answers: list[h11.Response] = []
        self._cut = True

        async def send() -> None:
            try:
                await self._send_all(data, body)
                self._cut = False
            except httpx.WriteError:
                pass  # perhaps with an answer: the listener will tell
            except Exception as error:  # noqa: BLE001 - raised again, outside the group
                failures.append(error)
                both.cancel_scope.cancel()

        async with trio.open_nursery() as both:
            both.start_soon(send)
            try:
                answers.append(await self._head(unsent=False))
            except (httpx.TransportError, StaleError) as error:
                failures.append(error)
            both.cancel_scope.cancel()
        if answers:
            return answers[0]
        if self._cut:  # by now that is certain: a write that was finished has said so
            self._refuse_unsent(failures[0])
        raise failures[0]

    def _refuse_unsent(self, error: Exception) -> None:
        if isinstance(error, StaleError):
            raise StaleError(unsent=True) from error
        if isinstance(error, (httpx.ReadError, httpx.RemoteProtocolError)):
            raise httpx.WriteError("the connection broke while sending") from error

    async def _send_all(self, data: bytes, body: bytes | httpx.AsyncByteStream) -> None:
        if isinstance(body, bytes):
            await self._send(data + self._tell_body(body))
            return
        blocks = aiter(body)
        try:
            async for block in blocks:
                await self._send(data + self._tell_part(block))
                data = b""
        finally:
            await _end(blocks)
        await self._send(data + self._tell_body(b""))

    def _tell_part(self, block: bytes) -> bytes:
        try:
            return self._http.send(h11.Data(data=block)) or b""
        except h11.LocalProtocolError as error:
            raise httpx.LocalProtocolError("the body is not of the length stated") from error

    async def _send(self, data: bytes) -> None:
        if not data:
            return
        try:
            if self._limits.write_s is None:
                await self._stream.send_all(data)
                return
            view = memoryview(data)
            for start in range(0, len(data), BLOCK_BYTES):  # progress counts, not the whole
                with trio.fail_after(self._limits.write_s):
                    await self._stream.send_all(view[start : start + BLOCK_BYTES])
        except trio.TooSlowError as error:
            raise httpx.WriteTimeout("the server takes no more") from error
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise httpx.WriteError("the connection broke while sending") from error

    # --- reading ----------------------------------------------------------------------------

    async def _head(self, *, unsent: bool) -> h11.Response:
        """The answer's head; interim ones (100, 103) are passed over."""
        interim = 0
        while True:
            event = self._buffered()
            if type(event) is h11.Response:
                return event
            if event is h11.NEED_DATA:
                more = self._block() if self._heard else self._first_block(unsent=unsent)
                self._http.receive_data(await more)
            elif type(event) is h11.InformationalResponse and interim < INTERIM_ANSWERS:
                interim += 1
            else:
                raise httpx.RemoteProtocolError("the server did not answer as HTTP does")

    async def _first_block(self, *, unsent: bool) -> bytes:
        """As :meth:`_block`; where nothing comes at all, that is told apart."""
        try:
            block = await self._block()
        except httpx.ReadError as error:
            if self._kept:
                raise StaleError(unsent=unsent) from error
            raise
        if not block and self._kept:
            raise StaleError(unsent=unsent)
        if not block:
            raise httpx.RemoteProtocolError("the server closed the connection without an answer")
        return block

    async def _block(self) -> bytes:
        """What comes next; ``b""`` at the end."""
        try:
            if self._limits.read_s is None:
                block = await self._next_block()
            else:
                with trio.fail_after(self._limits.read_s):
                    block = await self._next_block()
        except trio.TooSlowError as error:
            raise httpx.ReadTimeout("the server sends no more") from error
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise httpx.ReadError("the connection broke while reading") from error
        self._heard = self._heard or bool(block)
        return block

    async def _next_block(self) -> bytes:
        """An answer is never there yet when it is asked for, so without TLS: wait, then read."""
        if self._tls is not None:
            return bytes(await self._tls.receive_some(BLOCK_BYTES))
        while True:
            await trio.lowlevel.wait_readable(self._link.raw)
            try:
                return self._link.raw.recv(BLOCK_BYTES)
            except BlockingIOError:
                continue

    def _buffered(self) -> object:
        """What h11 makes of the bytes it has; NEED_DATA when they are not enough."""
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise httpx.RemoteProtocolError("the server did not answer as HTTP does") from error


def _target(request: httpx.Request) -> bytes:
    """What the request line names: httpx's own extension, or the address's path and query."""
    target = request.extensions.get("target")
    return target if isinstance(target, bytes) else request.url.raw_path


async def _end(blocks: AsyncIterator[bytes]) -> None:
    """Close a body's iterator now, not whenever it is collected."""
    close = getattr(blocks, "aclose", None)
    if close is not None:
        with trio.move_on_after(CLOSE_BODY_WITHIN_S, shield=True):
            await close()
