"""The door: deadlines, sizes, redirects, proxies, what an error may say."""

import pytest
import trio

from agentconnect.core.errors import AuthRejectedError, RelayError
from agentconnect.relay.http import Call, Http
from tests.support.fake_broker import SECRET, Answer, FakeBroker, open_broker


def _http(broker: FakeBroker) -> Http:
    return Http(broker.base, lambda: broker.secret)


async def test_a_dripping_answer_meets_the_total_deadline() -> None:
    """A byte now and then keeps no call alive."""
    async with open_broker() as broker:
        http = _http(broker)
        broker.script("heartbeat", Answer(drip_s=0.05, body=b"x" * 1000))
        started = trio.current_time()
        with pytest.raises(RelayError, match=r"longer than 0\.5 s"):
            await http.send(Call(path="/v1/heartbeat", within_s=0.5))
        assert trio.current_time() - started < 25.0  # the whole of it would take 50 s
        await broker.until(lambda: broker.open_requests == 0)
        await http.aclose()


@pytest.mark.parametrize("chunked", [False, True])
async def test_an_endless_answer_is_cut_off(*, chunked: bool) -> None:
    """More than the cap is a failure, whatever the length says, and the connection goes."""
    async with open_broker() as broker:
        http = _http(broker)
        head = b"HTTP/1.1 200 OK\r\n"
        if chunked:
            head += b"Transfer-Encoding: chunked\r\n\r\n"
            body = (b"10000\r\n" + b"x" * 0x10000 + b"\r\n") * 32 + b"0\r\n\r\n"
        else:
            body = b"x" * (2 * 1024 * 1024)
            head += b"Content-Length: %d\r\n\r\n" % len(body)
        broker.script("healthz", Answer(raw=head + body))
        with pytest.raises(RelayError, match="more than 1048576 bytes"):
            await http.send(Call(path="/v1/healthz"))
        assert (await http.send(Call(path="/v1/heartbeat"))).status == 200
        await http.aclose()


async def test_a_poll_of_many_megabytes_is_read() -> None:
    """The poll's own cap is 32 MiB: a whole queue may come at once."""
    async with open_broker() as broker:
        http = _http(broker)
        broker.script("tasks", Answer(body=b'{"tasks":["' + b"x" * 8_000_000 + b'"]}'))
        assert len((await http.poll(0, 35)).body) > 8_000_000
        broker.script("tasks", Answer(body=b"x" * 33_600_000))
        with pytest.raises(RelayError, match="more than"):
            await http.poll(0, 35)
        await http.aclose()


async def test_a_redirect_is_not_followed() -> None:
    """The bearer goes nowhere but to the relay, and the target's query is not quoted."""
    async with open_broker() as broker, open_broker() as other:
        http = _http(broker)
        target = f"{other.base}/v1/heartbeat?token=abc"
        broker.script("heartbeat", *(Answer(s, headers={"Location": target}) for s in (302, 307)))
        for _ in range(2):
            with pytest.raises(RelayError) as caught:
                await http.send(Call(path="/v1/heartbeat"))
            assert "abc" not in str(caught.value)
            assert not isinstance(caught.value, AuthRejectedError)
        assert other.requests == []
        await http.aclose()


async def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable decides where the bearer goes."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with open_broker() as broker:
        http = _http(broker)
        assert (await http.send(Call(path="/v1/heartbeat"))).status == 200
        await http.aclose()


async def test_what_travels_with_a_request() -> None:
    """Our agent name, the bearer of now, no encodings, no cookies."""
    async with open_broker() as broker:
        http = _http(broker)
        broker.script("heartbeat", Answer(headers={"Set-Cookie": "a=b; Path=/"}))
        await http.send(Call(path="/v1/heartbeat"))
        broker.secret = "rotated"
        await http.send(Call(path="/v1/heartbeat"))
        first, second = (request.headers for request in broker.requests)
        assert first["user-agent"] == "sutando-gateway-client/1.0"
        assert first["accept-encoding"] == "identity"
        assert first["authorization"] == f"Bearer {SECRET}"
        assert second["authorization"] == "Bearer rotated"
        assert "cookie" not in second
        assert broker.connections == 1
        await http.aclose()


async def test_errors_name_the_address_without_its_secrets() -> None:
    """Status, body and wait travel as attributes; the sentence holds no remote text."""
    async with open_broker() as broker:
        http = _http(broker)
        broker.script(
            "heartbeat", Answer(503, {"secret": "remote words"}, headers={"Retry-After": "900"})
        )
        with pytest.raises(RelayError) as caught:
            await http.send(Call(path="/v1/heartbeat?q=hidden"))
        error = caught.value
        assert (error.status, error.retry_after_s) == (503, 60.0)
        assert "remote words" in error.body
        assert "remote words" not in str(error)
        assert "hidden" not in str(error)
        await http.aclose()


async def test_a_bearer_that_is_no_header_is_not_quoted() -> None:
    """The library's own error would hold it."""
    async with open_broker() as broker:
        http = Http(broker.base, lambda: "top\nsecret")
        with pytest.raises(RelayError) as caught:
            await http.send(Call(path="/v1/heartbeat"))
        assert "secret" not in str(caught.value)
        assert not caught.value.sent
        await http.aclose()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer(401), AuthRejectedError),
        (Answer(403), AuthRejectedError),
        (Answer(418), RelayError),
        (Answer(drop=True), RelayError),
        (Answer(raw=b"nonsense\r\n\r\n"), RelayError),
    ],
    ids=["401", "403", "418", "dropped", "nonsense"],
)
async def test_every_failure_is_one_of_ours(answer: Answer, kind: type[Exception]) -> None:
    """Nothing of the HTTP library passes the door."""
    async with open_broker() as broker:
        http = _http(broker)
        broker.script("heartbeat", answer)
        with pytest.raises(kind):
            await http.send(Call(path="/v1/heartbeat"))
        await http.aclose()


async def test_thirty_calls_side_by_side_reuse_their_connections() -> None:
    """The keep-alive pool is as large as the pool: nothing is opened twice."""
    async with open_broker() as broker:
        http = _http(broker)

        async def several() -> None:
            for _ in range(5):
                await http.send(Call(path="/v1/heartbeat"))

        async with trio.open_nursery() as callers:
            for _ in range(30):
                callers.start_soon(several)
        assert broker.connections <= 30
        await http.aclose()


async def test_a_relay_that_is_not_there_was_not_told_anything() -> None:
    """Neither by name nor by address: the caller may send the same thing again."""
    for base in ("http://relay.invalid/relay", "http://127.0.0.1:1/relay"):
        http = Http(base, lambda: "secret")
        with pytest.raises(RelayError, match="no connection") as caught:
            await http.send(Call(method="POST", path="/v1/room", content=b"{}"))
        assert not caught.value.sent
        await http.aclose()


async def test_an_answer_before_a_large_body_is_out() -> None:
    """A refusal is read while the request is still being written, and leaves nothing behind."""
    async with open_broker() as broker:
        http = _http(broker)
        too_large = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"
        broker.script("media", Answer(raw=too_large))
        with pytest.raises(RelayError) as caught:
            await http.send(
                Call(method="POST", path="/v1/rooms/r/media", content=b"x" * 24_000_000)
            )
        assert caught.value.status == 413
        assert (await http.send(Call(path="/v1/heartbeat"))).status == 200
        await http.aclose()


async def test_a_cancelled_close_closes_every_connection() -> None:
    """A stop that is cut short leaves no socket behind, of whichever kind of call."""
    async with open_broker() as broker:
        broker.keyed()
        broker.poll_hold_s = 0.0
        http = Http(broker.base, lambda: broker.secret)
        await http.poll(0, 5.0)
        await http.send(Call(path="/v1/capabilities"))
        assert broker.connections == 2
        with trio.CancelScope() as scope:
            scope.cancel()
            await http.aclose()
        for transport in (http._polls, http._calls, http._foreign, http._streams):
            assert transport._closed
            assert transport._idle == []
