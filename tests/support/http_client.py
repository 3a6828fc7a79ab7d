"""A plain HTTP/1.1 client on Trio for tests: exactly the headers that are given."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import h11
import trio


class Reply:
    """A whole answer."""

    def __init__(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    def header(self, name: str) -> str:
        """All values of a header, joined."""
        return ", ".join(value for key, value in self.headers if key == name.lower())

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else None

    @property
    def code(self) -> str:
        """The machine code of a refusal; "" where there is none."""
        return str((self.json or {}).get("code", ""))


async def call(
    port: int,
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes | None = None,
) -> Reply:
    """One request on a connection of its own."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(head(method, path, headers, body))
        return await answer(stream, method)


def head(method: str, path: str, headers: Mapping[str, str], body: bytes | None = None) -> bytes:
    """The bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1") + (body or b"")


async def answer(stream: trio.SocketStream, method: str = "GET") -> Reply:
    """Read one answer."""
    connection = h11.Connection(h11.CLIENT)
    fake = h11.Request(method=method, target="/", headers=[("Host", "x")])
    connection.send(fake)
    connection.send(h11.EndOfMessage())
    status, headers, parts = 0, list[tuple[str, str]](), list[bytes]()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await stream.receive_some(65536))
        elif isinstance(event, h11.Response):
            status = event.status_code
            headers = [(k.decode(), v.decode()) for k, v in event.headers]
        elif isinstance(event, h11.Data):
            parts.append(bytes(event.data))
        else:
            return Reply(status, headers, b"".join(parts))


class EventStream:
    """Server-sent events as they come."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._connection = h11.Connection(h11.CLIENT)
        self._connection.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
        self._connection.send(h11.EndOfMessage())
        self._text = b""
        self.over = False

    async def next(self, limit_s: float = 60.0) -> dict[str, Any]:
        """The next event: ``id`` (0: none), ``event``, ``data``; empty at the end of the stream."""
        with trio.fail_after(limit_s):
            while b"\n\n" not in self._text:
                if self.over:
                    return {}
                await self._more()
        frame, _, self._text = self._text.partition(b"\n\n")
        found: dict[str, Any] = {"id": 0, "raw": frame.decode()}
        for line in frame.decode().split("\n"):
            name, _, value = line.partition(": ")
            found[name] = json.loads(value) if name in ("data", "id") else value
        return found

    async def _more(self) -> None:
        event = self._connection.next_event()
        if event is h11.NEED_DATA:
            self._connection.receive_data(await self._stream.receive_some(65536))
        elif isinstance(event, h11.Data):
            self._text += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            self.over = True


@asynccontextmanager
async def event_stream(
    port: int, path: str, headers: Mapping[str, str]
) -> AsyncIterator[EventStream]:
    """Open an event stream."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(head("GET", path, headers))
        yield EventStream(stream)
