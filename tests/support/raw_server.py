"""A server of scripted bytes on loopback: it reads whole requests and does what a test says."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Peer:
    """The server's side of one connection."""

    stream: trio.SocketStream | trio.SSLStream[trio.SocketStream]
    buffer: bytearray = field(default_factory=bytearray)

    async def head(self) -> bytes:
        """The head of the next request; ``b""`` at the end."""
        while b"\r\n\r\n" not in self.buffer:
            block = await self.stream.receive_some(65536)
            if not block:
                return b""
            self.buffer += block
        head, _, rest = bytes(self.buffer).partition(b"\r\n\r\n")
        self.buffer[:] = rest
        return head

    async def body(self, length: int) -> bytes:
        """So many bytes behind the head."""
        while len(self.buffer) < length:
            block = await self.stream.receive_some(65536)
            if not block:
                raise trio.BrokenResourceError
            self.buffer += block
        found = bytes(self.buffer[:length])
        del self.buffer[:length]
        return found

    async def request(self) -> tuple[bytes, bytes]:
        """One whole request with a stated length."""
        head = await self.head()
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                return head, await self.body(int(line.partition(b":")[2]))
        return head, b""

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)


class RawServer:
    """What it was asked, and how many connections there were and are."""

    def __init__(self) -> None:
        self.port = 0
        self.seen: list[tuple[bytes, bytes]] = []
        self.connections = 0
        self.open = 0
        self._changed = trio.Event()

    def note(self, request: tuple[bytes, bytes]) -> None:
        self.seen.append(request)
        self.poke()

    def poke(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def until(self, condition: Callable[[], object]) -> None:
        with trio.fail_after(60):
            while not condition():
                await self._changed.wait()


Script = Callable[[RawServer, Peer], Awaitable[None]]


def answering(*answers: bytes) -> Script:
    """Answer each request of a connection with the next of these, then close it."""

    async def script(server: RawServer, peer: Peer) -> None:
        for answer in answers:
            request = await peer.request()
            if not request[0]:
                return
            server.note(request)
            await peer.send(answer)

    return script


async def patient(server: RawServer, peer: Peer) -> None:
    """Answer ``ok`` for as long as there are requests."""
    while (request := await peer.request())[0]:
        server.note(request)
        await peer.send(OK)


@asynccontextmanager
async def raw_server(script: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    """Run ``script`` for each connection; at its end the connection is closed."""
    server = RawServer()

    async def handle(tcp: trio.SocketStream) -> None:
        server.connections += 1
        server.open += 1
        stream = trio.SSLStream(tcp, tls, server_side=True, https_compatible=True) if tls else tcp
        try:
            await script(server, Peer(stream))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            await trio.aclose_forcefully(stream)
            server.open -= 1
            server.poke()

    async with trio.open_nursery() as serving:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        server.port = listeners[0].socket.getsockname()[1]
        serving.start_soon(trio.serve_listeners, handle, listeners)
        try:
            yield server
        finally:
            serving.cancel_scope.cancel()
