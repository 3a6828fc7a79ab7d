"""The adapter ``irc`` against a real ngircd; what it sends is read by a second client."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from agentconnect.channels.irc import IrcAdapter, IrcSettings
from agentconnect.core.channels.sending import DeliveryError, Outgoing
from agentconnect.core.destination import Target

pytestmark = pytest.mark.im


class Reader:
    """Somebody else on that server."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._rest = b""

    async def say(self, *lines: str) -> None:
        await self._stream.send_all("".join(f"{line}\r\n" for line in lines).encode())

    async def until(self, word: str) -> str:
        """The next line that holds ``word``."""
        with trio.fail_after(20):
            while True:
                line, found, rest = self._rest.partition(b"\r\n")
                if not found:
                    block = await self._stream.receive_some(4096)
                    assert block, "the server closed the connection"
                    self._rest += block
                    continue
                self._rest = rest
                text = line.decode()
                if text.startswith("PING"):
                    await self.say(text.replace("PING", "PONG"))
                if word in text:
                    return text


@asynccontextmanager
async def reader(port: int, nick: str = "ann") -> AsyncIterator[Reader]:
    """A client that is registered."""
    for _ in range(200):
        try:
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            break
        except OSError:
            await trio.sleep(0.05)
    async with stream:
        made = Reader(stream)
        await made.say(f"NICK {nick}", f"USER {nick} 0 * :{nick}")
        await made.until(" 001 ")
        yield made


@asynccontextmanager
async def bot(port: int) -> AsyncIterator[IrcAdapter]:
    settings = IrcSettings(host="127.0.0.1", port=port, tls=False, nick="bot")
    made = IrcAdapter(settings, ssl.create_default_context)
    async with trio.open_nursery() as standing:
        await standing.start(made.run)
        yield made
        standing.cancel_scope.cancel()


def out(target: str, text: str) -> Outgoing:
    kind: str = "chat" if target.startswith("#") else "user"
    return Outgoing(
        delivery_id="d",
        channel="irc",
        target=Target(type="chat" if kind == "chat" else "user", id=target),
        text=text,
    )


async def test_a_person_and_a_channel_read_each_line(ngircd: int) -> None:
    """On one connection; what would be a command of its own is only words."""
    async with reader(ngircd) as ann, bot(ngircd) as irc:
        await ann.say("JOIN #ops", "MODE #ops -n")
        await ann.until(" 366 ")
        await irc.send(out("ann", "one\r\nQUIT :two"))
        assert (await ann.until("PRIVMSG ann")).endswith(":one")
        assert (await ann.until("PRIVMSG ann")).endswith(":QUIT :two")
        await irc.send(out("#ops", "three"))
        assert (await ann.until("PRIVMSG #ops")).endswith(":three")


async def test_who_is_not_there_is_permanent_and_the_connection_stays(ngircd: int) -> None:
    """A nick, a channel, a channel that takes nothing from outside; then one that works."""
    async with reader(ngircd) as ann, bot(ngircd) as irc:
        await ann.say("JOIN #closed", "MODE #closed +n")
        await ann.until(" 366 ")
        for target in ("nobody", "#nowhere", "#closed"):
            with pytest.raises(DeliveryError, match=r"the server answered 40[134]") as refused:
                await irc.send(out(target, "hidden"))
            assert "permanent" == refused.value.disposition
        await irc.send(out("ann", "still here"))
        await ann.until("still here")


async def test_a_server_that_is_gone_is_transient(free_port: int) -> None:
    """No connection is no refusal."""
    async with bot(free_port) as irc:
        with pytest.raises(DeliveryError) as refused:
            await irc.send(out("ann", "x"))
    assert "transient" == refused.value.disposition


async def test_the_check_registers_and_sends_nothing(ngircd: int) -> None:
    """What ``channels check`` does."""
    async with reader(ngircd):
        settings = IrcSettings(host="127.0.0.1", port=ngircd, tls=False, nick="bot")
        assert "registered as bot" == await IrcAdapter(settings, ssl.create_default_context).check()
