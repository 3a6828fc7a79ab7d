"""The door to the providers: what it does not do, and what it does not say."""

import gc

import pytest
import trio
import trio.testing

from agentconnect.channels.http import ANSWER_BYTES, HttpDoor, trust
from agentconnect.core.channels.sending import Ask, DeliveryError, Reply
from tests.support.raw_server import OK, RawServer, answering, patient, raw_server


def ask(server: RawServer, secret: str = "s3cret") -> Ask:
    return Ask(url=f"http://127.0.0.1:{server.port}/bot{secret}/x", content=b"{}")


async def asked(server: RawServer) -> Reply:
    door = HttpDoor(trust())
    try:
        return await door.ask(ask(server))
    finally:
        await door.aclose()


async def test_a_redirect_is_an_answer_and_not_followed() -> None:
    """The token does not travel on."""
    moved = b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
    async with raw_server(answering(moved, OK)) as server:
        assert 302 == (await asked(server)).status
        assert 1 == len(server.seen)


async def test_the_environment_has_no_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy of it is asked."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    async with raw_server(patient) as server:
        assert Reply(status=200, body=b"ok") == await asked(server)


async def test_an_answer_without_end_is_given_up() -> None:
    """At a bound, and the connection with it."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (10 * ANSWER_BYTES)
    async with raw_server(answering(head + b"x" * (2 * ANSWER_BYTES))) as server:
        with pytest.raises(DeliveryError, match="too big") as refused:
            await asked(server)
        assert "transient" == refused.value.disposition
        await server.until(lambda: server.open == 0)


async def test_an_encoding_that_nobody_asked_for_is_not_unpacked() -> None:
    """The answer counts as one without a body."""
    packed = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b"
    async with raw_server(answering(packed)) as server:
        assert Reply(status=200) == await asked(server)
        assert b"accept-encoding: identity" in server.seen[0][0].lower()


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Le", b"nonsense\r\n\r\n"])
async def test_no_whole_answer_is_transient_and_asked_once(answer: bytes) -> None:
    """And what is said of it holds no address, since that may be a secret."""
    async with raw_server(answering(answer)) as server:
        with pytest.raises(DeliveryError, match="no answer") as refused:
            await asked(server)
        assert 1 == len(server.seen)
    assert "transient" == refused.value.disposition
    assert "s3cret" not in str(refused.value)
    assert refused.value.__suppress_context__


async def test_a_request_is_never_repeated_on_another_connection() -> None:
    """The server takes one and hangs up without a word: it may have been heard."""

    async def once_then_silence(server: RawServer, peer: object) -> None:
        await answering(OK)(server, peer)  # type: ignore[arg-type]
        request = await peer.request()  # type: ignore[attr-defined]
        if request[0]:
            server.note(request)

    async with raw_server(once_then_silence) as server:
        door = HttpDoor(trust())
        assert 200 == (await door.ask(ask(server))).status
        with pytest.raises(DeliveryError):
            await door.ask(ask(server))
        await door.aclose()
        assert 2 == len(server.seen)


async def test_a_closed_port_is_transient(free_port: int) -> None:
    """For a request and for a knock."""
    door = HttpDoor(trust())
    url = f"http://127.0.0.1:{free_port}/s3cret"
    with pytest.raises(DeliveryError, match="ConnectError"):
        await door.ask(Ask(url=url))
    with pytest.raises(DeliveryError, match="no connection"):
        await door.knock(url)
    await door.aclose()


@pytest.mark.parametrize("header", ["a\r\nX: y", "ä\u2028", "a\0b"])
async def test_a_header_that_cannot_be_written_is_not_sent(header: str) -> None:
    """And not shown."""
    async with raw_server(patient) as server:
        door = HttpDoor(trust())
        with pytest.raises(DeliveryError) as refused:
            await door.ask(Ask(url=f"http://127.0.0.1:{server.port}/", headers={"X-A": header}))
        await door.aclose()
        assert [] == server.seen
    assert header not in str(refused.value)


async def test_a_cancelled_request_leaves_nothing_open() -> None:
    """The connection goes with it."""

    async def silent(server: RawServer, peer: object) -> None:
        server.note(await peer.request())  # type: ignore[attr-defined]
        await peer.request()  # type: ignore[attr-defined]

    async with raw_server(silent) as server, trio.open_nursery() as asking:
        door = HttpDoor(trust())
        asking.start_soon(door.ask, ask(server))
        await server.until(lambda: server.seen)
        asking.cancel_scope.cancel()
    await door.aclose()


async def test_a_server_that_hangs_up_amid_the_request_leaves_nothing_half_read() -> None:
    """It reads the head and goes while the body is still on its way."""

    async def gone(server: RawServer, peer: object) -> None:
        await peer.stream.receive_some(100)  # type: ignore[attr-defined]
        await peer.stream.aclose()  # type: ignore[attr-defined]

    async with raw_server(gone) as server:
        door = HttpDoor(trust())
        url = f"http://127.0.0.1:{server.port}/x"
        with pytest.raises(DeliveryError, match="no answer") as refused:
            await door.ask(Ask(url=url, content=b"x" * 32_000_000))
        assert "transient" == refused.value.disposition
        await door.aclose()
    del refused
    gc.collect()  # whatever was left half read says so now
    await trio.testing.wait_all_tasks_blocked()
