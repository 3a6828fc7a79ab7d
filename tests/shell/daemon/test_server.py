"""One connection that breaks the protocol costs itself and nothing else (§2)."""

import json
import socket
import struct
from pathlib import Path

import pytest
import trio

from tests.support.daemon import NOTIFY, Api, running
from tests.support.http_client import answer, head

_RESET = struct.pack("ii", 1, 0)


def broken(api: Api, session: str) -> list[bytes]:
    """Bytes that servers have been ended by."""
    lines = "".join(f"{k}: {v}\r\n" for k, v in api.headers.items()).encode()
    body = json.dumps(NOTIFY).encode()
    events = head("GET", f"/session/{session}/events", api.headers)
    return [
        events + b"more behind a last request",
        events.replace(b"Connection: close\r\n", b"") * 3,
        head("POST", "/workspace/notify", api.headers, body) * 2,
        head("POST", "/workspace/notify", api.headers, body)[:-3],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(100),
        b"GET /health HTTP/1.1\r\n" + lines + b"Connection: Upgrade, HTTP2-Settings\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: !!!\r\n\r\n",
        b"\x16\x03\x01" + bytes(range(200)),
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    ]


async def sent(port: int, data: bytes, *, reset: bool) -> None:
    """Send it and look for a moment, or vanish at once."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        try:
            await stream.send_all(data)
            if reset:
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                return
            with trio.move_on_after(0.1):
                while await stream.receive_some(65536):
                    pass
        except trio.BrokenResourceError:
            pass


@pytest.mark.parametrize("reset", [False, True], ids=["reads", "vanishes"])
async def test_a_broken_connection_is_its_own(tmp_path: Path, reset: bool) -> None:
    """Whatever it sends, and however it leaves, the next request is answered."""
    async with running(tmp_path) as api:
        for data in broken(api, await api.session()):
            for _ in range(3):
                await sent(api.port, data, reset=reset)
            assert 200 == (await api.call("GET", "/health")).status, data[:60]


async def test_a_connection_serves_many_requests(tmp_path: Path) -> None:
    """It is kept open between them."""
    async with (
        running(tmp_path) as api,
        await trio.open_tcp_stream("127.0.0.1", api.port) as stream,
    ):
        for _ in range(3):
            asked = head("GET", "/health", api.headers).replace(b"Connection: close\r\n", b"")
            await stream.send_all(asked)
            assert 200 == (await answer(stream)).status
