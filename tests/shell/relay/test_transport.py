"""The transport below the door: bodies, reuse, early answers, cancels, deadlines, TLS."""

import contextlib
import gc
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator

import httpx
import pytest
import trio
import trustme

from agentconnect.httpbody import Body
from agentconnect.relay.connection import Connection, Limits, StaleError
from agentconnect.relay.resolver import Link
from agentconnect.relay.transport import REPEATABLE, Transport, trust
from tests.support.raw_server import OK, Peer, RawServer, answering, patient, raw_server


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Whatever was left half done complains when it is collected: make that now."""
    yield
    gc.collect()


def _transport(*, connections: int = 4, keep_s: float = 30.0) -> Transport:
    return Transport(connections=connections, tls=trust, keep_s=keep_s)


def _request(
    server: RawServer,
    method: str = "POST",
    content: bytes = b"hello",
    *,
    scheme: str = "http",
    host: str = "127.0.0.1",
    timeouts: dict[str, float] | None = None,
) -> httpx.Request:
    headers = [(b"Host", b"x"), (b"Content-Length", b"%d" % len(content))]
    return httpx.Request(
        method,
        f"{scheme}://{host}:{server.port}/relay/path?q=1",
        headers=headers,
        stream=Body(content),
        extensions={"timeout": timeouts or {}},
    )


async def _whole(transport: Transport, request: httpx.Request) -> tuple[int, bytes]:
    response = await transport.handle_async_request(request)
    stream = response.stream
    assert isinstance(stream, httpx.AsyncByteStream)
    try:
        return response.status_code, b"".join([block async for block in stream])
    finally:
        await response.aclose()


# --- bodies


CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
)


@pytest.mark.parametrize(
    ("method", "answer", "expected", "kept"),
    [
        ("GET", OK, b"ok", True),
        ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"", True),
        ("GET", CHUNKED, b"abcde", True),
        ("GET", b"HTTP/1.1 200 OK\r\n\r\nup to the end", b"up to the end", False),
        ("GET", b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok", False),
        ("GET", OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), b"ok", False),
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", b"", True),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", b"", True),
        ("POST", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\n\r\n" + OK, b"ok", True),
        ("GET", OK + b"HTTP/1.1 200 never asked for", b"ok", False),
    ],
    ids=[
        "length",
        "empty",
        "chunked",
        "close",
        "1.0",
        "asked",
        "head",
        "204",
        "304",
        "1xx",
        "more",
    ],
)
async def test_where_an_answer_ends(
    method: str, answer: bytes, expected: bytes, *, kept: bool
) -> None:
    """Each way to end a body, and whether the connection may carry another request."""
    async with raw_server(answering(answer, OK) if kept else answering(answer)) as server:
        transport = _transport()
        assert (await _whole(transport, _request(server, method)))[1] == expected
        if not kept:
            await server.until(lambda: not server.open)
        else:
            assert await _whole(transport, _request(server)) == (200, b"ok")
            assert server.connections == 1
        await transport.aclose()


async def test_head_and_body_arrive_as_written() -> None:
    """One request, byte for byte."""
    async with raw_server(patient) as server:
        transport = _transport()
        await _whole(transport, _request(server, content=b"some content"))
        head, body = server.seen[0]
        assert head == (b"POST /relay/path?q=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 12")
        assert body == b"some content"
        await transport.aclose()


async def test_a_body_given_to_httpx_as_bytes_is_sent_too() -> None:
    """httpx's own kind of body works as well as ours."""
    async with raw_server(patient) as server:
        transport = _transport()
        request = httpx.Request("POST", f"http://127.0.0.1:{server.port}/x", content=b"abc")
        assert await _whole(transport, request) == (200, b"ok")
        assert server.seen[0][1] == b"abc"
        await transport.aclose()


@pytest.mark.parametrize("size", [100_000, 9_000_000])
async def test_a_long_body_arrives_whole_and_the_connection_is_kept(size: int) -> None:
    """Sent while the answer is listened for."""
    async with raw_server(patient) as server:
        transport = _transport()
        content = bytes(range(256)) * (size // 256)
        for _ in range(2):
            assert await _whole(transport, _request(server, content=content)) == (200, b"ok")
        assert [content, content] == [body for _, body in server.seen]
        await transport.aclose()


class _Stream(httpx.AsyncByteStream):
    """A body made while it is sent."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self.ended = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            for _ in range(self.blocks):
                await trio.lowlevel.checkpoint()
                yield b"x" * 10_000
        finally:
            self.ended = True


def _streamed(server: RawServer, stream: _Stream, stated: int) -> httpx.Request:
    return httpx.Request(
        "POST",
        f"http://127.0.0.1:{server.port}/x",
        headers={"Host": "x", "Content-Length": str(stated)},
        stream=stream,
    )


async def test_a_streamed_body_is_sent_as_it_comes() -> None:
    """With the length stated before."""
    async with raw_server(patient) as server:
        transport = _transport()
        assert await _whole(transport, _streamed(server, _Stream(30), 300_000)) == (200, b"ok")
        assert server.seen[0][1] == b"x" * 300_000
        await transport.aclose()


async def test_a_streamed_body_that_ends_too_soon_is_our_fault() -> None:
    """A request that is not whole is none, and its connection is closed."""
    async with raw_server(patient) as server:
        transport = _transport()
        stream = _Stream(3)
        with pytest.raises(httpx.LocalProtocolError):
            await _whole(transport, _streamed(server, stream, 40_000))
        assert stream.ended
        await server.until(lambda: not server.open)
        await transport.aclose()


async def test_a_streamed_body_that_is_too_long_is_cut_at_its_length() -> None:
    """What is left over is never taken for another request."""
    async with raw_server(patient) as server:
        transport = _transport()
        stream = _Stream(50)
        with contextlib.suppress(httpx.LocalProtocolError):  # whichever is noticed first
            assert (await _whole(transport, _streamed(server, stream, 40_000)))[0] == 200
        await server.until(lambda: not server.open)
        assert stream.ended
        assert len(server.seen) <= 1
        await transport.aclose()


async def _refusing(server: RawServer, peer: Peer) -> None:
    """Answers when it has seen the head, and reads no further."""
    server.note((await peer.head(), b""))
    await peer.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
    await trio.sleep_forever()


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_that_comes_before_the_body_is_out(*, streamed: bool) -> None:
    """It is taken, the rest of the body is not sent, and nothing is left half read."""
    async with raw_server(_refusing) as server:
        transport = _transport()
        stream = _Stream(10_000)
        request = (
            _streamed(server, stream, 100_000_000)
            if streamed
            else _request(server, content=b"x" * 30_000_000)
        )
        assert await _whole(transport, request) == (413, b"big")
        assert stream.ended == streamed
        assert not transport._idle  # a cut request's connection carries no other
        await transport.aclose()


async def _slamming(server: RawServer, peer: Peer) -> None:
    """Answers early and closes hard, with bytes unread."""
    await peer.head()
    await peer.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")


async def test_a_server_that_closes_while_a_body_is_sent() -> None:
    """Its answer, if that still arrives; else a write that failed. Never a hang."""
    async with raw_server(_slamming) as server:
        transport = _transport()
        try:
            answer = await _whole(transport, _request(server, content=b"x" * 30_000_000))
        except httpx.WriteError:
            answer = (413, b"big")
        assert answer == (413, b"big")
        await transport.aclose()


async def test_a_slow_reader_holds_the_server_up() -> None:
    """What nobody reads stays in the server."""
    sent = 0

    async def endless(server: RawServer, peer: Peer) -> None:
        nonlocal sent
        await peer.head()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while True:
            await peer.send(b"x" * 65536)
            sent += 65536
            server.poke()

    async with raw_server(endless) as server:
        transport = _transport()
        response = await transport.handle_async_request(_request(server, "GET", b""))
        await server.until(lambda: sent)
        before = -1
        while before != sent:  # until the server stands still
            before = sent
            await trio.sleep(0.2)
        assert sent < 64_000_000
        await response.aclose()
        await server.until(lambda: not server.open)
        await transport.aclose()


# --- malformed


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 200_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 40_000 + b"\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 20 + OK,
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ],
    ids=[
        "nothing",
        "half a head",
        "no http",
        "short body",
        "two lengths",
        "bad chunk",
        "endless chunk head",
        "chunks cut",
        "huge header",
        "many headers",
        "interim for ever",
        "upgrade",
    ],
)
async def test_what_is_no_answer(answer: bytes) -> None:
    """One error for all of it, and the connection is closed."""
    async with raw_server(answering(answer)) as server:
        transport = _transport()
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)) as caught:
            await _whole(transport, _request(server))
        assert "xxx" not in str(caught.value)
        await server.until(lambda: not server.open)
        await transport.aclose()


@pytest.mark.parametrize("value", [b"a\r\nX: y", b"a\nb", b"a\0b"])
async def test_a_header_cannot_bring_another(value: bytes) -> None:
    """It is refused before anything of it goes out, without being quoted."""
    async with raw_server(patient) as server:
        transport = _transport()
        request = _request(server)
        request.headers = httpx.Headers([(b"Host", b"x"), (b"Authorization", value)])
        with pytest.raises(httpx.LocalProtocolError) as caught:
            await transport.handle_async_request(request)
        assert "a" != str(caught.value)
        assert caught.value.__cause__ is None
        assert server.seen == []
        await transport.aclose()


# --- kept connections


async def test_a_connection_closed_while_idle_is_not_used() -> None:
    """A POST after it goes out on a new one at once, and is not counted as a failure."""
    async with raw_server(answering(OK)) as server:
        transport = _transport()
        for number in range(1, 4):
            assert await _whole(transport, _request(server)) == (200, b"ok")
            await server.until(lambda: not server.open)
            assert server.connections == number
        await transport.aclose()


async def _answers_once(server: RawServer, peer: Peer) -> None:
    """The second request of a connection is read and then left without an answer."""
    for answer in (OK, b""):
        request = await peer.request()
        if not request[0]:
            return
        server.note(request)
        if answer:
            await peer.send(answer)


@pytest.mark.parametrize(
    ("method", "flag", "again"),
    [("POST", None, False), ("POST", True, True), ("GET", None, True), ("GET", False, False)],
)
async def test_a_request_that_may_have_arrived_is_repeated_only_where_that_is_safe(
    method: str, *, flag: bool | None, again: bool
) -> None:
    """A kept connection that closed after the whole request was written."""
    async with raw_server(_answers_once) as server:
        transport = _transport()
        await _whole(transport, _request(server))
        request = _request(server, method)
        if flag is not None:
            request.extensions[REPEATABLE] = flag
        if again:
            assert await _whole(transport, request) == (200, b"ok")
            assert len(server.seen) == 3
        else:
            with pytest.raises(httpx.RemoteProtocolError):
                await _whole(transport, request)
            assert len(server.seen) == 2
        await transport.aclose()


@pytest.mark.parametrize("size", [10, 1_000_000])
async def test_a_write_that_fails_on_a_kept_connection_is_known_to_be_none(size: int) -> None:
    """What was not written whole surely was not done: told apart, so that it can be sent again."""
    raw, theirs = socket.socketpair()
    limits = Limits(None, None)
    with theirs:
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(raw))
        connection = Connection("here", Link(stream, raw))
        theirs.sendall(OK)
        content = b"ab"
        await connection.begin(_request(RawServer(), content=content), content, limits)
        assert connection.at_hand() == ([b"ok"], True)
        assert connection.recycle()
        theirs.close()
        content = b"x" * size
        with pytest.raises(StaleError) as caught:
            await connection.begin(_request(RawServer(), content=content), content, limits)
        assert caught.value.unsent
        assert not connection.recycle()
        connection.close()


async def test_a_fresh_connection_that_closes_is_not_tried_again() -> None:
    """No second try where nothing was kept, not even of a GET."""
    async with raw_server(answering(b"")) as server:
        transport = _transport()
        with pytest.raises(httpx.RemoteProtocolError):
            await _whole(transport, _request(server, "GET"))
        assert server.connections == 1
        await transport.aclose()


async def test_a_connection_is_kept_for_a_while_only() -> None:
    """Past its time it is closed, not used."""
    async with raw_server(patient) as server:
        transport = _transport(keep_s=0.0)
        for _ in range(3):
            await _whole(transport, _request(server))
        assert server.connections == 3
        await server.until(lambda: server.open <= 1)
        await transport.aclose()


async def test_an_idle_connection_elsewhere_makes_room() -> None:
    """The bound counts the kept ones too, and a kept one never keeps a request from going out."""
    async with raw_server(patient) as one, raw_server(patient) as two:
        transport = _transport(connections=1)
        for _ in range(2):
            await _whole(transport, _request(one))
            await _whole(transport, _request(two))
        assert (one.connections, two.connections) == (2, 2)
        await one.until(lambda: not one.open)
        await transport.aclose()
        await two.until(lambda: not two.open)


async def test_side_by_side_requests_share_the_connections() -> None:
    """Never more than the limit, and none is opened twice."""
    async with raw_server(patient) as server:
        transport = _transport(connections=3)

        async def several() -> None:
            for _ in range(5):
                assert await _whole(transport, _request(server)) == (200, b"ok")

        async with trio.open_nursery() as callers:
            for _ in range(12):
                callers.start_soon(several)
        assert server.connections == 3
        await transport.aclose()


async def test_an_answer_given_up_closes_its_connection() -> None:
    """The next request does not read the rest of it."""
    long = b"HTTP/1.1 200 OK\r\nContent-Length: 500000\r\n\r\n" + b"x" * 500_000
    async with raw_server(answering(long, long)) as server:
        transport = _transport(connections=1)
        for _ in range(2):
            response = await transport.handle_async_request(_request(server))
            await response.aclose()
            await response.aclose()
        assert server.connections == 2
        await transport.aclose()


async def test_nothing_goes_out_after_the_end() -> None:
    """A closed transport refuses, and what was under way ends with an error."""
    async with raw_server(_deaf) as server:
        transport = _transport()

        async def waits() -> None:
            with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
                await transport.handle_async_request(_request(server))

        async with trio.open_nursery() as waiting:
            waiting.start_soon(waits)
            await server.until(lambda: server.seen)
            await transport.aclose()
        with pytest.raises(httpx.ConnectError):
            await transport.handle_async_request(_request(server))


# --- cancels and deadlines


async def _deaf(server: RawServer, peer: Peer) -> None:
    """Takes a request and never answers."""
    server.note(await peer.request())
    await peer.stream.receive_some(1)


async def _half(server: RawServer, peer: Peer) -> None:
    """Begins a body and never ends it."""
    request = await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
    server.note(request)
    await peer.stream.receive_some(1)


async def _unread(server: RawServer, peer: Peer) -> None:
    """Reads a head and no body."""
    server.note((await peer.head(), b""))
    await trio.sleep_forever()


@pytest.mark.parametrize(
    ("script", "content"),
    [(_deaf, b"x"), (_half, b"x"), (_unread, b"x" * 30_000_000)],
    ids=["waiting", "reading", "sending"],
)
async def test_a_cancel_closes_the_connection_and_frees_its_place(
    script: Callable[[RawServer, Peer], None], content: bytes
) -> None:
    """Wherever it comes; with one place only, the next request would wait for ever."""
    async with raw_server(script) as server:  # type: ignore[arg-type]
        transport = _transport(connections=1)
        for number in range(1, 4):
            async with trio.open_nursery() as calling:
                calling.start_soon(_whole, transport, _request(server, content=content))
                await server.until(lambda n=number: len(server.seen) >= n)  # type: ignore[misc]
                calling.cancel_scope.cancel()
            assert not transport._busy
            assert transport._slots.value == 1
        assert server.connections == 3
        await transport.aclose()


async def test_a_cancel_in_the_queue_takes_no_place() -> None:
    """Waiting for a connection leaves nothing behind."""
    async with raw_server(_deaf) as server:
        transport = _transport(connections=1)
        async with trio.open_nursery() as calling:
            calling.start_soon(_whole, transport, _request(server))
            await server.until(lambda: server.seen)
            with trio.move_on_after(0.05):
                await _whole(transport, _request(server))
            calling.cancel_scope.cancel()
        assert transport._slots.value == 1
        await transport.aclose()


@pytest.mark.parametrize(
    ("script", "content", "timeouts", "kind"),
    [
        (_deaf, b"x", {"read": 0.05}, httpx.ReadTimeout),
        (_half, b"x", {"read": 0.05}, httpx.ReadTimeout),
        (_unread, b"x" * 30_000_000, {"write": 0.05}, httpx.WriteTimeout),
    ],
    ids=["head", "body", "write"],
)
async def test_each_step_has_its_deadline(
    script: Callable[[RawServer, Peer], None],
    content: bytes,
    timeouts: dict[str, float],
    kind: type[Exception],
) -> None:
    """Without progress for so long."""
    async with raw_server(script) as server:  # type: ignore[arg-type]
        transport = _transport()
        with pytest.raises(kind):
            await _whole(transport, _request(server, content=content, timeouts=timeouts))
        assert transport._slots.value == 4
        await transport.aclose()


async def test_waiting_for_a_connection_has_its_deadline() -> None:
    """Told apart from a relay that is not there."""
    async with raw_server(_deaf) as server:
        transport = _transport(connections=1)
        async with trio.open_nursery() as calling:
            calling.start_soon(_whole, transport, _request(server))
            await server.until(lambda: server.seen)
            with pytest.raises(httpx.PoolTimeout):
                await _whole(transport, _request(server, timeouts={"pool": 0.05}))
            calling.cancel_scope.cancel()
        await transport.aclose()


async def test_a_refused_connection() -> None:
    """Nobody listens there."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        server = RawServer()
        server.port = taken.getsockname()[1]
        transport = _transport()
        with pytest.raises(httpx.ConnectError):
            await _whole(transport, _request(server))
        assert transport._slots.value == 4
        await transport.aclose()


# --- TLS


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """A certificate authority of this run."""
    return trustme.CA()


def _server_side(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*names).configure_cert(context)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = trust()
    authority.configure_trust(context)
    return context


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_over_tls(authority: trustme.CA, host: str) -> None:
    """Verified, kept, and HTTP/1.1 is what was agreed on."""
    agreed: list[str | None] = []

    async def script(server: RawServer, peer: Peer) -> None:
        assert isinstance(peer.stream, trio.SSLStream)
        await peer.stream.do_handshake()
        agreed.append(peer.stream.selected_alpn_protocol())
        await patient(server, peer)

    async with raw_server(script, _server_side(authority, host)) as server:
        context = _trusting(authority)
        transport = Transport(connections=2, tls=lambda: context)
        for content in (b"a", b"b" * 200_000, b"c"):
            request = _request(server, content=content, scheme="https", host=host)
            assert await _whole(transport, request) == (200, b"ok")
        assert server.connections == 1
        assert agreed == ["http/1.1"]
        await transport.aclose()
        await server.until(lambda: not server.open)


@pytest.mark.parametrize("fault", ["name", "authority"])
async def test_a_certificate_that_is_not_the_relays(authority: trustme.CA, fault: str) -> None:
    """Another name, or signed by nobody we trust: no connection, and nothing is sent."""
    names = ["elsewhere.example"] if fault == "name" else ["127.0.0.1"]
    async with raw_server(patient, _server_side(authority, *names)) as server:
        context = _trusting(authority if fault == "name" else trustme.CA())
        transport = Transport(connections=2, tls=lambda: context)
        with pytest.raises(httpx.ConnectError):
            await _whole(transport, _request(server, scheme="https"))
        assert server.seen == []
        assert transport._slots.value == 2
        await transport.aclose()


async def test_a_handshake_that_never_comes_has_its_deadline() -> None:
    """The connection stands, TLS does not."""

    async def silent(server: RawServer, peer: Peer) -> None:
        await trio.sleep_forever()

    async with raw_server(silent) as server:
        transport = _transport()
        with pytest.raises(httpx.ConnectTimeout):
            await _whole(transport, _request(server, scheme="https", timeouts={"connect": 0.1}))
        assert transport._slots.value == 4
        await transport.aclose()


async def test_the_request_line_may_name_something_of_its_own() -> None:
    """httpx's ``target`` extension, as its own transport takes it."""
    async with raw_server(patient) as server:
        transport = _transport()
        for size in (10, 200_000):
            request = _request(server, content=b"x" * size)
            request.extensions["target"] = b"/other?a=b"
            assert await _whole(transport, request) == (200, b"ok")
        assert {head.split(b"\r\n")[0] for head, _ in server.seen} == {b"POST /other?a=b HTTP/1.1"}
        await transport.aclose()
