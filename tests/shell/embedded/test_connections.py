"""The relay's own HTTP server on the wire: what a connection may cost, and how it ends."""

import logging
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio

from agentconnect.embedded.edge import Edge
from agentconnect.embedded.faults import Fault
from agentconnect.embedded.http1 import Message, Receive, Send
from agentconnect.embedded.timing import Timing
from tests.support.relay import Relay, running_relay

_HEALTH = b"GET /relay/v1/healthz HTTP/1.1\r\nHost: x\r\n\r\n"


@asynccontextmanager
async def _line(relay: Relay) -> AsyncIterator[trio.SocketStream]:
    async with await trio.open_tcp_stream("127.0.0.1", relay.port) as stream:
        yield stream


async def _rest(stream: trio.SocketStream) -> bytes:
    """Everything until the relay ends the connection."""
    got = b""
    with trio.fail_after(60):
        while part := await stream.receive_some():
            got += part
    return got


async def _answer(stream: trio.SocketStream, body: bytes = b'{"ok":true}') -> None:
    got = b""
    with trio.fail_after(60):
        while not got.endswith(body):
            part = await stream.receive_some()
            assert part, got
            got += part


async def _closed(stream: trio.SocketStream) -> bool:
    """Whether the relay ends the connection, however it does."""
    with trio.fail_after(60):
        try:
            while await stream.receive_some():
                pass
        except trio.BrokenResourceError:
            pass
    return True


async def test_requests_follow_one_another_on_a_connection(tmp_path: Path) -> None:
    """One after the other, or sent ahead together: each has its answer, in order."""
    async with running_relay(tmp_path) as relay, _line(relay) as stream:
        for _ in range(3):
            await stream.send_all(_HEALTH)
            await _answer(stream)
        await stream.send_all(_HEALTH + b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n" + _HEALTH)
        got = b""
        with trio.fail_after(60):
            while got.count(b"HTTP/1.1 ") < 3 or not got.endswith(b'{"ok":true}'):
                got += await stream.receive_some()
        assert [part[:3] for part in got.split(b"HTTP/1.1 ")[1:]] == [b"200", b"404", b"200"]


async def test_old_clients_and_those_who_ask_are_closed_after_their_answer(tmp_path: Path) -> None:
    """HTTP/1.0 and `Connection: close` end the connection; an absolute address is understood."""
    requests = [
        b"GET /relay/v1/healthz HTTP/1.0\r\n\r\n",
        b"GET /relay/v1/healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET http://x/relay/v1/healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    ]
    async with running_relay(tmp_path) as relay:
        for request in requests:
            async with _line(relay) as stream:
                await stream.send_all(request)
                assert (await _rest(stream)).endswith(b'{"ok":true}')


@pytest.mark.parametrize(
    "junk",
    [
        b"NONSENSE\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 200_000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
async def test_what_is_not_http_has_one_answer_and_no_second_request(
    tmp_path: Path, junk: bytes
) -> None:
    """A 4xx with a sentence, then the end; what follows on that connection is never obeyed."""
    async with running_relay(tmp_path) as relay, _line(relay) as stream:
        await stream.send_all(junk + b"\r\n\r\n" + _HEALTH)
        got = await _rest(stream)
        assert got.startswith(b"HTTP/1.1 4")
        assert b'{"ok":true}' not in got


async def test_a_body_in_chunks_and_one_that_waits_to_be_asked_for(tmp_path: Path) -> None:
    """Chunked bodies and `Expect: 100-continue` work as HTTP says."""
    body = b'{"client":"x"}'
    async with running_relay(tmp_path) as relay, _line(relay) as stream:
        head = (
            b"POST /relay/v1/heartbeat HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
            % relay.secret.encode()
        )
        chunks = b"5\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (body[:5], len(body) - 5, body[5:])
        await stream.send_all(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
        await _answer(stream)
        length = b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)
        await stream.send_all(head + length)
        await _answer(stream, b"HTTP/1.1 100 \r\n\r\n")
        await stream.send_all(body)
        await _answer(stream)


async def test_a_refusal_before_the_body_is_read_reaches_its_client(tmp_path: Path) -> None:
    """A client that sends 30 MB to a wrong bearer reads its 401, whole, and is then closed."""
    async with running_relay(tmp_path) as relay, _line(relay) as stream:
        size = 30_000_000
        head = b"POST /relay/v1/rooms/r/media HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
        got = bytearray()

        async def read() -> None:
            got.extend(await _rest(stream))

        async with trio.open_nursery() as work:
            work.start_soon(read)
            with suppress(trio.BrokenResourceError):
                await stream.send_all(head % size + bytes(size))
        assert got.startswith(b"HTTP/1.1 401")
        assert got.endswith(b'{"error":"The bearer is unknown."}')


@pytest.mark.parametrize(
    ("sent", "limit"),
    [
        (b"", Timing(idle_s=0.2)),
        (b"GET /relay/v1/healthz HTTP/1.1\r\nHo", Timing(head_s=0.2)),
        (
            b"POST /relay/v1/results HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ",
            Timing(gap_s=0.2),
        ),
        (b"POST /page/login HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{", Timing(gap_s=0.2)),
    ],
    ids=["nothing", "half a head", "half a body", "half a body for the page"],
)
async def test_a_client_that_stops_is_let_go(tmp_path: Path, sent: bytes, limit: Timing) -> None:
    """Nothing, half a head, half a body: each wait has its limit, then the connection ends."""
    async with running_relay(tmp_path, timing=limit) as relay, _line(relay) as stream:
        if sent.endswith(b"Bearer "):
            sent += relay.secret.encode() + b"\r\nContent-Length: 9\r\n\r\n{"
        if sent:
            await stream.send_all(sent)
        assert await _closed(stream)


async def test_a_dripping_client_is_let_go_too(tmp_path: Path) -> None:
    """A byte now and then keeps neither a head nor a body open beyond the limit of the whole."""
    timing = Timing(head_s=0.3, body_s=0.3)
    async with running_relay(tmp_path, timing=timing) as relay:
        body = b"POST /page/login HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
        for begun in (b"GET / HTTP/1.1\r\nX: ", body):
            async with _line(relay) as stream, trio.open_nursery() as work:
                await stream.send_all(begun)

                async def drip(stream: trio.SocketStream = stream) -> None:
                    try:
                        while True:
                            await stream.send_all(b"a")
                            await trio.sleep(0.02)
                    except (trio.BrokenResourceError, trio.ClosedResourceError):
                        pass

                work.start_soon(drip)
                assert await _closed(stream)
                work.cancel_scope.cancel()


async def test_a_client_that_reads_nothing_is_let_go(tmp_path: Path) -> None:
    """An answer that nobody takes holds its connection for no longer than the limit."""
    timing = Timing(gap_s=0.3)
    async with running_relay(tmp_path, timing=timing) as relay:
        await relay.relay.post_file(relay.room, relay.owner, "big.bin", bytes(24_000_000))
        (task,) = await relay.poll()
        path = task["task"].split(relay.relay.origin)[1].split()[0]
        async with _line(relay) as stream:
            head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {relay.secret}\r\n\r\n"
            await stream.send_all(head.encode())
            with trio.fail_after(60):
                while relay.relay.connections > 1:
                    await trio.sleep(0.05)


async def test_connections_are_bounded(tmp_path: Path) -> None:
    """Above the bound the longest idle one makes room; where none idles, a 503 says "later"."""
    async with (
        running_relay(tmp_path, timing=Timing(connections=3)) as relay,
        AsyncExitStack() as lines,
    ):
        first = await lines.enter_async_context(_line(relay))
        await first.send_all(_HEALTH)
        await _answer(first)
        for count in range(1, 4):
            stream = await lines.enter_async_context(_line(relay))
            poll = f"GET /relay/v1/tasks?wait=30 HTTP/1.1\r\nAuthorization: Bearer {relay.secret}"
            await stream.send_all(f"{poll}\r\nHost: x\r\n\r\n".encode())
            with trio.fail_after(60):
                while relay.relay.open_polls(relay.agent) < count:
                    await trio.sleep(0.01)
        assert await _closed(first)
        async with _line(relay) as late:
            head, _, body = (await _rest(late)).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503")
            assert b"retry-after: 1" in head
            assert f"content-length: {len(body)}".encode() in head


async def test_requests_at_once_are_bounded(tmp_path: Path) -> None:
    """One request too many is told to come back, on a connection that stays."""
    async with (
        running_relay(tmp_path, timing=Timing(requests=1)) as relay,
        trio.open_nursery() as work,
    ):
        work.start_soon(relay.poll, 30)
        with trio.fail_after(60):
            while not relay.relay.open_polls(relay.agent):
                await trio.sleep(0.01)
        busy = await relay.client.get(relay.base + "/v1/healthz")
        assert (busy.status_code, busy.headers["retry-after"]) == (503, "1")
        await relay.say("go on")


async def test_clients_that_leave_are_no_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Polls and streams that are cut off, and a stop under them, are nothing worth a line."""
    with caplog.at_level(logging.DEBUG, "agentconnect.embedded"):
        async with running_relay(tmp_path) as relay, relay.visitor() as browser:
            session = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
            bearer = f"Authorization: Bearer {relay.secret}\r\nHost: x\r\n\r\n"
            cookie = f"Cookie: {session}\r\nHost: 127.0.0.1:{relay.port}\r\n\r\n"
            asked = [
                f"GET /relay/v1/tasks?wait=30 HTTP/1.1\r\n{bearer}",
                f"GET /relay/v1/events/stream HTTP/1.1\r\n{bearer}",
                f"GET /page/events HTTP/1.1\r\n{cookie}",
            ]
            for leave in (True, False):  # the second three see the stop
                streams = []
                for request in asked:
                    stream = await trio.open_tcp_stream("127.0.0.1", relay.port)
                    await stream.send_all(request.encode())
                    streams.append(stream)
                for stream in streams[1:]:
                    await _answer(stream, b": open\n\n\r\n")
                with trio.fail_after(60):
                    while not relay.relay.open_polls(relay.agent):
                        await trio.sleep(0.01)
                if leave:
                    streams[0].setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                    )  # a reset, not an end
                    for stream in streams:
                        await stream.aclose()
                    with trio.fail_after(60):
                        while relay.relay.open_polls(relay.agent):
                            await trio.sleep(0.01)
            await relay.say("an answer that nobody takes")
    assert [] == [record.getMessage() for record in caplog.records]
    for stream in streams:
        await stream.aclose()


async def test_a_real_error_logs_its_route_and_no_ids(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Method, template and kind of error, as text; not the room, not what the error says."""

    async def app(scope: Message, _receive: Receive, _send: Send) -> None:
        scope["route"] = "/page/rooms/{room}/messages"
        raise RuntimeError("/secret/path")

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    with caplog.at_level(logging.INFO, "agentconnect.embedded"):
        scope: Message = {"type": "http", "method": "GET", "path": "/page/rooms/!r/messages"}
        await Edge(app, None, 10)(scope, receive, send)
    assert [record.getMessage() for record in caplog.records] == [
        "request failed: GET /page/rooms/{room}/messages: RuntimeError"
    ]
    assert sent[0]["status"] == 500


async def test_the_stop_waits_for_an_answer_that_is_on_its_way(tmp_path: Path) -> None:
    """A call that is being handled when the relay stops still has its answer."""
    fault = Fault(method="POST", path="/v1/room", hold=trio.Event())
    assert fault.hold is not None
    async with trio.open_nursery() as work, AsyncExitStack() as lines:
        async with running_relay(tmp_path) as relay:
            relay.faults.plan(fault)
            stream = await lines.enter_async_context(_line(relay))
            body = b'{"op":"members","room_id":"%s"}' % relay.room.encode()
            head = b"POST /relay/v1/room HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
            length = b"Content-Length: %d\r\n\r\n" % len(body)
            await stream.send_all(head % relay.secret.encode() + length + body)
            await fault.reached.wait()
            work.start_soon(_once_it_stops, relay.port, fault.hold)
        got = await _rest(stream)
    assert got.startswith(b"HTTP/1.1 200")


async def _once_it_stops(port: int, event: trio.Event) -> None:
    with trio.fail_after(60), suppress(OSError):
        while True:  # a relay that stops takes no connection any more
            await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
            await trio.sleep(0.01)
    event.set()
