"""How doctor asks a relay: never for a task, and every way in which it may not be there."""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trustme

from agentconnect.core.doctor import Level
from agentconnect.core.relay import credential
from agentconnect.doctor import relay as wording
from agentconnect.relay import Bearer, Probe, Reach, probe_relay

Answers = Callable[[str], tuple[int, bytes] | None]
HEALTHY = (200, b'{"ok":true}')


class Server:
    """Answers by the first line of a request; what it was asked is kept."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.port = 0

    async def serve(self, stream: trio.abc.Stream) -> None:
        try:
            head = (await stream.receive_some(65536)).decode("latin-1")
            first = " ".join(head.split(" ", 2)[:2])
            self.asked.append(first)
            found = self.answers(first)
            if found is None:
                await trio.sleep_forever()
            else:
                status, body = found
                line = b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
                await stream.send_all(line % (status, len(body)) + body)
        except (trio.BrokenResourceError, ssl.SSLError):
            pass
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(1):
                await trio.aclose_forcefully(stream)


@asynccontextmanager
async def serving(answers: Answers, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """One on a free port."""
    server = Server(answers)

    async def accept(stream: trio.SocketStream) -> None:
        await server.serve(trio.SSLStream(stream, tls, server_side=True) if tls else stream)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, accept, 0)
        server.port = listeners[0].socket.getsockname()[1]
        yield server
        nursery.cancel_scope.cancel()


async def ask(port: int, scheme: str = "http", within_s: float = 60.0) -> Probe:
    """Probe that server, as doctor does."""
    token = f"{scheme}://localhost:{port}/relay|s3cret-s3cret"
    return await probe_relay(credential.build(token=token), within_s)


def levels(found: Probe) -> list[tuple[str, Level]]:
    """What doctor makes of it."""
    return [(f.check, f.level) for f in wording.judge(found, "https://relay.example", 0.0)]


async def test_a_relay_with_capabilities_takes_the_token() -> None:
    """Two questions, neither of which takes a task."""
    async with serving(lambda first: HEALTHY) as server:
        found = await ask(server.port)
    assert (Reach.RELAY, Bearer.ACCEPTED) == (found.reach, found.bearer)
    assert ["GET /relay/v1/healthz", "GET /relay/v1/capabilities"] == server.asked
    assert [("relay.reach", Level.OK), ("relay.token", Level.OK)] == levels(found)


@pytest.mark.parametrize(
    ("ack", "expected", "level"),
    [
        ((404, b'{"error":"not leased"}'), Bearer.ACCEPTED, Level.OK),
        ((401, b"{}"), Bearer.REJECTED, Level.FAILURE),
        ((403, b"{}"), Bearer.REJECTED, Level.FAILURE),
        ((404, b"no such page"), Bearer.UNKNOWN, Level.WARNING),
        ((200, b"{}"), Bearer.UNKNOWN, Level.WARNING),
        ((500, b""), Bearer.UNKNOWN, Level.WARNING),
    ],
)
async def test_a_relay_without_capabilities_is_asked_about_a_task_that_cannot_be(
    ack: tuple[int, bytes], expected: Bearer, level: Level
) -> None:
    """Only a refusal that names the missing lease proves the token; the rest is said to be open."""

    def answers(first: str) -> tuple[int, bytes]:
        if first.endswith("/ack"):
            return ack
        return HEALTHY if first.endswith("healthz") else (404, b"")

    async with serving(answers) as server:
        found = await ask(server.port)
    assert expected == found.bearer
    assert ("relay.token", level) == levels(found)[-1]
    assert not [first for first in server.asked if first.startswith("GET /relay/v1/tasks")]


@pytest.mark.parametrize(
    ("health", "expected"),
    [
        ((200, b"<html>"), Reach.NOT_A_RELAY),
        ((200, b""), Reach.NOT_A_RELAY),
        ((200, b"[]"), Reach.NOT_A_RELAY),
        ((404, b""), Reach.NOT_A_RELAY),
        ((302, b""), Reach.NOT_A_RELAY),
        ((500, b""), Reach.ERROR),
        (None, Reach.SILENT),
    ],
)
async def test_what_is_no_relay_is_told_from_one_that_fails(
    health: tuple[int, bytes] | None, expected: Reach
) -> None:
    """Pages, redirects, errors, silence."""
    async with serving(lambda first: health) as server:
        found = await ask(server.port, within_s=2.0 if health is None else 10.0)
    assert expected == found.reach
    assert ("relay.reach", Level.FAILURE) == levels(found)[0]


async def test_faults_of_tls_are_told_apart() -> None:
    """A certificate nobody vouches for; a port that speaks no TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(context)
    async with serving(lambda first: HEALTHY, context) as server:
        found = await ask(server.port, "https")
        assert Reach.UNTRUSTED == found.reach
        assert "self" in found.why or "issuer" in found.why
    async with serving(lambda first: HEALTHY) as server:
        assert Reach.NO_TLS == (await ask(server.port, "https")).reach


async def test_nothing_listens() -> None:
    """A port that was free a moment ago."""
    async with serving(lambda first: HEALTHY) as server:
        port = server.port
    assert Reach.REFUSED == (await ask(port)).reach


@pytest.mark.parametrize(("skew", "said"), [(-61.0, "ahead of"), (61.0, "behind"), (59.0, "")])
def test_clocks_that_differ_are_said_with_who_is_off(skew: float, said: str) -> None:
    """Above a minute, by the relay's own date."""
    found = Probe(reach=Reach.RELAY, bearer=Bearer.ACCEPTED, clock=1e9 + skew)
    lines = [f for f in wording.judge(found, "x", 1e9) if f.check == "relay.clock"]
    assert bool(said) == bool(lines)
    assert all(said in line.text for line in lines)
