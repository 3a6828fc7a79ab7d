"""The adapter ``irc`` against scripted servers; the real one is in ``tests/im``."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
import trio

from agentconnect.channels.irc import IrcAdapter, IrcSettings
from agentconnect.core.channels.sending import DeliveryError
from tests.shell.channels.doubles import out


class Wire:
    """The server's side of one connection."""

    def __init__(self, stream: trio.SocketStream, lines: list[str]) -> None:
        self._stream = stream
        self._rest = b""
        self._lines = lines

    async def line(self) -> str:
        while b"\r\n" not in self._rest:
            block = await self._stream.receive_some(4096)
            if not block:
                raise trio.BrokenResourceError
            self._rest += block
        line, _, self._rest = self._rest.partition(b"\r\n")
        self._lines.append(line.decode())
        return self._lines[-1]

    async def say(self, *lines: str) -> None:
        await self._stream.send_all("".join(f"{line}\r\n" for line in lines).encode())

    async def welcome(self) -> None:
        """Let it register, behind a question that has to be answered."""
        while not (await self.line()).startswith("USER "):
            pass
        await self.say("PING :early")
        assert "PONG :early" == await self.line()
        await self.say(":srv 001 bot :Welcome")

    async def message(self) -> str:
        """The lines of one message; the nonce behind it."""
        while not (line := await self.line()).startswith("PING :"):
            pass
        return line.partition(":")[2]


Script = Callable[[Wire], Awaitable[None]]


@asynccontextmanager
async def connected(
    script: Script, password: str = ""
) -> AsyncIterator[tuple[IrcAdapter, list[str]]]:
    """The adapter, and the lines that the server got."""
    lines: list[str] = []

    async def handle(stream: trio.SocketStream) -> None:
        async with stream:
            with suppress(trio.BrokenResourceError):
                await script(Wire(stream, lines))

    async with trio.open_nursery() as both:
        (listener, *_) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        both.start_soon(trio.serve_listeners, handle, [listener])
        settings = IrcSettings(
            host="127.0.0.1", port=port, tls=False, nick="bot", password=password
        )
        adapter = IrcAdapter(settings, ssl.create_default_context)
        await both.start(adapter.run)
        yield adapter, lines
        both.cancel_scope.cancel()


async def polite(wire: Wire) -> None:
    """Takes everything."""
    await wire.welcome()
    while True:
        nonce = await wire.message()
        await wire.say(f":srv PONG srv :{nonce}")


async def test_one_connection_for_many_messages() -> None:
    """Line by line, a blank one left out, each message settled by its own answer."""
    async with connected(polite, password="s3cret") as (irc, lines):
        await irc.send(out("user", "ann", "one\n\ntwo"))
        await irc.send(out("chat", "#ops", "x" * 401))
    assert [
        "PASS s3cret",
        "NICK bot",
        "USER bot 0 * :bot",
        "PONG :early",
        "PRIVMSG ann :one",
        "PRIVMSG ann :two",
        "PING :ag2-1",
        f"PRIVMSG #ops :{'x' * 400}",
        "PRIVMSG #ops :x",
        "PING :ag2-2",
    ] == lines


@pytest.mark.parametrize(
    ("code", "disposition"),
    [("401", "permanent"), ("404", "permanent"), ("442", "permanent"), ("439", "transient")],
)
async def test_an_error_before_the_answer_is_the_answer(code: str, disposition: str) -> None:
    """And the connection is used again."""

    async def script(wire: Wire) -> None:
        await wire.welcome()
        nonce = await wire.message()
        await wire.say(f":srv {code} bot ann :hidden words", f":srv PONG srv :{nonce}")
        nonce = await wire.message()
        await wire.say(f":srv PONG srv :{nonce}")

    async with connected(script) as (irc, lines):
        with pytest.raises(DeliveryError, match=f"the server answered {code}") as refused:
            await irc.send(out("user", "ann"))
        assert disposition == refused.value.disposition
        assert "hidden" not in str(refused.value)
        await irc.send(out("user", "ann"))
        assert 1 == sum(line.startswith("NICK") for line in lines)


async def test_a_connection_that_closes_is_transient_and_made_anew() -> None:
    """The message may have been taken: it is not sent again."""
    times = 0

    async def script(wire: Wire) -> None:
        nonlocal times
        times += 1
        if times > 1:
            await polite(wire)
        await wire.welcome()
        await wire.message()

    async with connected(script) as (irc, lines):
        with pytest.raises(DeliveryError, match="closed") as refused:
            await irc.send(out("user", "ann", "once"))
        assert "transient" == refused.value.disposition
        await irc.send(out("user", "ann", "later"))
        assert 1 == lines.count("PRIVMSG ann :once")
        assert 2 == times


@pytest.mark.parametrize(("code", "kind"), [("464", "permanent"), ("433", "transient")])
async def test_a_server_that_does_not_let_us_in(code: str, kind: str) -> None:
    """A wrong password is for good; a nick that is taken may be free later."""

    async def script(wire: Wire) -> None:
        await wire.line()
        await wire.say(f":srv {code} * :no")
        await trio.sleep_forever()

    async with connected(script) as (irc, _):
        with pytest.raises(DeliveryError, match=code) as refused:
            await irc.send(out("user", "ann"))
        assert kind == refused.value.disposition


async def test_who_gives_up_waiting_takes_the_connection_along() -> None:
    """A late answer must not stand for the next message."""
    connections = 0

    async def script(wire: Wire) -> None:
        nonlocal connections
        connections += 1
        await wire.welcome()
        nonce = await wire.message()
        if connections == 1:
            waiting.set()
            await trio.sleep_forever()
        await wire.say(f":srv PONG srv :{nonce}")

    waiting = trio.Event()
    async with connected(script) as (irc, _):
        async with trio.open_nursery() as sending:
            sending.start_soon(irc.send, out("user", "ann", "one"))
            await waiting.wait()
            sending.cancel_scope.cancel()
        await irc.send(out("user", "ann", "two"))
    assert 2 == connections
