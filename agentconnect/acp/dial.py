"""A running agent over WebSocket, one JSON-RPC message in each text frame (worker.md §20.1).

The only user of ``trio-websocket``, an optional dependency: imported where dialling is configured
and nowhere else. Owns the door (bearer per dial, cookies kept, the sentences of a refusal) and
looks like any other link behind it. Dropping the connection ends nothing over there.
"""

import http.cookiejar
import logging
import ssl
import urllib.request
from contextlib import suppress
from email.message import Message
from typing import cast

import trio
from trio_websocket import ConnectionClosed, ConnectionRejected, WebSocketConnection
from trio_websocket import wrap_client_stream as wrap

from agentconnect.acp.links import EndPace, Token
from agentconnect.core.acp.endpoint import Endpoint, usable_token
from agentconnect.core.acp.framing import MAX_LINE_BYTES, LineTooLongError
from agentconnect.core.errors import AgentConnectError, PreflightError
from agentconnect.core.turns import wording_acp as wording

log = logging.getLogger("agentconnect.acp")

DIAL_LIMIT_S = 20.0
CLOSE_LIMIT_S = 1.0
PING_EVERY_S = 30.0
PONG_LIMIT_S = 60.0
"""A silent path (a NAT that forgot us) is found out; an agent that is only busy is not."""
READ_BYTES = 65536
_TOO_BIG = 1009
_HEAD_BYTES = 64


class Dialler:
    """Dials one address; keeps the cookies it was given for as long as the worker runs."""

    def __init__(self, where: Endpoint, token: Token) -> None:
        self._where = where
        self._token = token
        self._cookies = http.cookiejar.CookieJar()
        self._tls: ssl.SSLContext | None = None

    async def connect(self, wires: trio.Nursery) -> "WebSocketLink":
        """Dial once.

        Raises: PreflightError with a sentence about the door. Cancellation: nothing is left open.
        """
        shown = self._where.shown
        headers = self._headers(await self._token())
        try:
            with trio.fail_after(DIAL_LIMIT_S):
                wire = _Wire(await self._stream())
                socket = await wires.start(self._hold, wire, headers)
        except trio.TooSlowError as error:
            cause = f"no answer within {DIAL_LIMIT_S:.0f} s"
            raise PreflightError(wording.unreachable(shown, cause)) from error
        except (OSError, trio.BrokenResourceError) as error:
            raise PreflightError(wording.unreachable(shown, _cause(error))) from error
        self._keep_cookies(socket.handshake_headers)
        return WebSocketLink(socket, wire)

    async def _stream(self) -> trio.abc.Stream:
        where = self._where
        if not where.secure:
            return await trio.open_tcp_stream(where.host, where.port)
        if self._tls is None:
            self._tls = await trio.to_thread.run_sync(ssl.create_default_context)
        stream = await trio.open_ssl_over_tcp_stream(
            where.host, where.port, ssl_context=self._tls, https_compatible=True
        )
        shaken = False
        try:
            await stream.do_handshake()
            shaken = True
        finally:
            if not shaken:
                await trio.aclose_forcefully(stream)
        return stream

    async def _hold(
        self,
        wire: "_Wire",
        headers: list[tuple[bytes, bytes]],
        *,
        task_status: trio.TaskStatus[WebSocketConnection] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """The boundary of the library's reader: shake hands, and stay until it has ended."""
        socket: WebSocketConnection | None = None
        refused: AgentConnectError | None = None
        try:
            async with trio.open_nursery() as reader:
                reader.start_soon(wire.watch, reader.cancel_scope)
                socket = await wrap(
                    reader,
                    cast("trio.SocketStream", wire),
                    self._where.authority,
                    self._where.resource,
                    extra_headers=headers,
                    max_message_size=MAX_LINE_BYTES,
                    receive_buffer_size=READ_BYTES,
                )
                task_status.started(socket)
                wire.opened()
        except* ConnectionRejected as group:
            answer = next(e for e in group.exceptions if isinstance(e, ConnectionRejected))
            self._keep_cookies(answer.headers)
            refused = self._refused(answer.status_code)
        except* Exception as group:  # noqa: BLE001 - the peer spoke no WebSocket that the library understands
            log.warning("the WebSocket to the agent broke: %r", group.exceptions[0])
        finally:
            await trio.aclose_forcefully(wire)
        if socket is None:
            raise refused or self._refused(wire.status)

    def _refused(self, status: int) -> PreflightError:
        return PreflightError(wording.refused_at_door(self._where.shown, status))

    # --- headers ----------------------------------------------------------------------------

    def _headers(self, token: str) -> list[tuple[bytes, bytes]]:
        headers = []
        if token:
            if not usable_token(token):
                raise PreflightError(wording.bad_acp_token())
            headers.append((b"Authorization", f"Bearer {token}".encode("ascii")))
        request = self._request()
        self._cookies.add_cookie_header(request)
        if cookie := request.get_header("Cookie"):
            headers.append((b"Cookie", cookie.encode("latin-1", "replace")))
        return headers

    def _keep_cookies(self, headers: tuple[tuple[bytes, bytes], ...]) -> None:
        message = Message()
        for name, value in headers:
            if name.lower() == b"set-cookie":
                message["Set-Cookie"] = value.decode("latin-1")
        self._cookies.extract_cookies(
            cast("http.client.HTTPResponse", _Answer(message)), self._request()
        )

    def _request(self) -> urllib.request.Request:
        scheme = "https" if self._where.secure else "http"
        url = f"{scheme}://{self._where.authority}{self._where.resource}"
        return urllib.request.Request(url)  # noqa: S310 - never opened; the cookie jar wants one


class _Answer:
    """As much of a response as a cookie jar looks at."""

    def __init__(self, headers: Message) -> None:
        self._headers = headers

    def info(self) -> Message:
        return self._headers


def _cause(error: BaseException) -> str:
    inner = error.__cause__ if isinstance(error, trio.BrokenResourceError) else None
    if isinstance(inner, ssl.SSLCertVerificationError):
        return f"its certificate is not valid ({inner.verify_message})"
    if isinstance(error, OSError) and isinstance(error.__cause__, BaseExceptionGroup):
        error = error.__cause__.exceptions[0]  # one attempt for each address
    told = error.strerror if isinstance(error, OSError) else str(inner or "")
    return told or type(inner or error).__name__


class _Wire(trio.abc.Stream):
    """The stream below the WebSocket: tells how an answer began, and when it ends too early."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._head = b""
        self._ended = trio.Event()
        self._opened = trio.Event()

    @property
    def status(self) -> int:
        """The status of an answer that was no handshake; 0 when there was none."""
        words = self._head.split(b" ")
        return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0

    def opened(self) -> None:
        """The handshake is done: from now on the library sees every end by itself."""
        self._opened.set()

    async def watch(self, scope: trio.CancelScope) -> None:
        """End a handshake that the other side walked away from."""
        async with trio.open_nursery() as either:

            async def first(event: trio.Event) -> None:
                await event.wait()
                either.cancel_scope.cancel()

            either.start_soon(first, self._ended)
            either.start_soon(first, self._opened)
        if not self._opened.is_set():
            scope.cancel()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        try:
            block = await self._stream.receive_some(max_bytes)
        except trio.BrokenResourceError:
            self._ended.set()
            raise
        if len(self._head) < _HEAD_BYTES:
            self._head += block[:_HEAD_BYTES]
        if not block:
            self._ended.set()
        return block

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Sending(trio.abc.SendStream):
    """Frames of the peer, each as one text message."""

    def __init__(self, link: "WebSocketLink") -> None:
        self._link = link

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        try:
            await self._link.socket.send_message(bytes(data).decode().rstrip("\n"))
        except ConnectionClosed as error:
            raise trio.BrokenResourceError("the connection is closed") from error

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        await self._link.drop()


class _Receiving(trio.abc.ReceiveStream):
    """Text messages, each as one line; a message may be printed over several."""

    def __init__(self, link: "WebSocketLink") -> None:
        self._link = link

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while True:
            try:
                message = await self._link.socket.get_message()
            except ConnectionClosed:
                self._link.over()
                if self._link.overflowed:
                    mib = MAX_LINE_BYTES // (1024 * 1024)
                    raise LineTooLongError(
                        f"the agent sent one message of more than {mib} MiB"
                    ) from None
                return b""
            if isinstance(message, str) and message.strip():
                line = message.replace("\n", " ")  # in JSON text a raw one is only layout
                return line.encode("utf-8", "replace") + b"\n"

    async def aclose(self) -> None:
        await self._link.drop()


class WebSocketLink:
    """A connection that looks like a process which cannot be ended from here."""

    pid = 0
    returncode: int | None = None

    def __init__(self, socket: WebSocketConnection, wire: _Wire) -> None:
        self.socket = socket
        self.stdin = _Sending(self)
        self.stdout = _Receiving(self)
        self._wire = wire
        self._over = trio.Event()

    @property
    def running(self) -> bool:
        return self.socket.closed is None

    @property
    def overflowed(self) -> bool:
        """It ended because a message was over the limit."""
        return self.socket.closed is not None and self.socket.closed.code == _TOO_BIG

    def stderr_tail(self, characters: int = 500) -> str:
        return ""

    async def drain_stderr(self) -> None:
        """Ask from time to time whether anybody is there."""
        with suppress(ConnectionClosed):
            while True:
                await trio.sleep(PING_EVERY_S)
                with trio.move_on_after(PONG_LIMIT_S) as scope:
                    await self.socket.ping()
                if scope.cancelled_caught:
                    log.warning("the agent's side of the connection has gone silent")
                    break
        await self.drop()

    async def exited(self) -> object:
        await self._over.wait()
        return None

    async def end(self, pace: EndPace) -> None:
        with trio.move_on_after(min(CLOSE_LIMIT_S, pace.term_after_s)):
            await self.socket.aclose()
        await self.drop()

    def over(self) -> None:
        """Nothing more comes."""
        self._over.set()

    async def drop(self) -> None:
        """Cut it off; safe at any time."""
        self.over()
        await trio.aclose_forcefully(self._wire)

    async def close(self) -> None:
        await self.drop()
