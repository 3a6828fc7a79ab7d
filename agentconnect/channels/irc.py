"""The adapter ``irc``: one kept connection, and a ``PING`` behind each message (§15.8).

The server answers in order: its ``PONG`` without an error before it says that the lines were taken.
"""

import itertools
import ssl
from collections.abc import Callable

import msgspec
import trio

from agentconnect.core.acp.framing import LineReader, LineTooLongError
from agentconnect.core.channels import irc
from agentconnect.core.channels.irc import Line
from agentconnect.core.channels.sending import DeliveryError, Outgoing

WITHIN_S = 20.0
CONNECT_S = 5.0
_BLOCK_BYTES = 4096
_LINE_BYTES = 16 * 1024


class IrcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One nick on one server."""

    host: str
    port: int
    tls: bool
    nick: str
    password: str = ""

    def __repr__(self) -> str:
        return "IrcSettings()"


class IrcAdapter:
    """Connects when there is something to send, and stays."""

    def __init__(self, settings: IrcSettings, trust: Callable[[], ssl.SSLContext]) -> None:
        self._settings = settings
        self._trust = trust
        self._turn = trio.Lock()  # one at a time: replies carry no name of what they answer
        self._nursery: trio.Nursery | None = None
        self._link: _Link | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Holds the reader of the connection."""
        async with trio.open_nursery() as readers:
            self._nursery = readers
            task_status.started()
            await trio.sleep_forever()

    async def check(self) -> str:
        """As ``Adapter``: registers and leaves."""
        async with trio.open_nursery() as readers:
            self._nursery = readers
            try:
                with trio.fail_after(WITHIN_S):
                    await self._connected()
            except trio.TooSlowError:
                raise DeliveryError("transient", "no answer in time") from None
            finally:
                readers.cancel_scope.cancel()
        return f"registered as {self._settings.nick}"

    async def send(self, outgoing: Outgoing) -> None:
        """As ``Adapter``. Cancellation: the connection is given up."""
        target = irc.checked(outgoing.target)
        try:
            with trio.fail_after(WITHIN_S):
                async with self._turn:
                    link = await self._connected()
                    try:
                        await link.say(target.id, outgoing.text)
                    finally:
                        if not link.settled:  # a late answer would be taken for the next one's
                            link.drop()
        except trio.TooSlowError:
            raise DeliveryError("transient", "no answer in time") from None

    async def _connected(self) -> "_Link":
        if self._link is not None and self._link.alive:
            return self._link
        if self._nursery is None:
            raise DeliveryError("transient", "not started")
        self._link = None
        link = _Link(await self._stream())
        self._nursery.start_soon(link.read)
        try:
            await link.register(self._settings)
        except BaseException:
            link.drop()
            raise
        self._link = link
        return link

    async def _stream(self) -> trio.abc.Stream:
        where = self._settings
        try:
            with trio.fail_after(CONNECT_S):
                stream = await trio.open_tcp_stream(where.host, where.port)
                if not where.tls:
                    return stream
                secure = trio.SSLStream(stream, self._trust(), server_hostname=where.host)
                await secure.do_handshake()
                return secure
        except (OSError, trio.TooSlowError, trio.BrokenResourceError) as error:
            raise DeliveryError("transient", f"no connection ({type(error).__name__})") from None


class _Link:
    """One connection: what was said on it since it was last asked."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._scope = trio.CancelScope()
        self._writing = trio.Lock()
        self._changed = trio.Event()
        self._lines: list[Line] = []
        self._nonces = itertools.count(1)
        self.alive = True
        self.settled = True
        """The server owes no answer."""

    def drop(self) -> None:
        """Give the connection up."""
        self.alive = False
        self._scope.cancel()
        self._poke()

    async def read(self) -> None:
        """Follow the server until the connection ends; its standing task."""
        reader = LineReader(_LINE_BYTES)
        try:
            with self._scope:  # may end: the connection is given up
                while block := await self._stream.receive_some(_BLOCK_BYTES):
                    for raw in reader.feed(block):
                        await self._hear(irc.read(raw))
        except (trio.BrokenResourceError, trio.ClosedResourceError, LineTooLongError, OSError):
            pass
        finally:
            self.alive = False
            self._poke()
            with trio.move_on_after(0.5, shield=True):
                await trio.aclose_forcefully(self._stream)

    async def register(self, settings: IrcSettings) -> None:
        """Raises: DeliveryError."""
        first = [f"PASS {settings.password}"] if settings.password else []
        nick = settings.nick
        await self._write(*first, f"NICK {nick}", f"USER {nick} 0 * :{nick}")
        await self._until(lambda line: line.command == "001")

    async def say(self, name: str, text: str) -> None:
        """Raises: DeliveryError."""
        nonce = f"ag2-{next(self._nonces)}"
        self._lines.clear()
        self.settled = False
        await self._write(
            *(f"PRIVMSG {name} :{line}" for line in irc.lines(text)), f"PING :{nonce}"
        )

        def answered(line: Line) -> bool:
            return line.command == "PONG" and nonce in line.words

        await self._until(answered, settles=True)

    async def _hear(self, line: Line) -> None:
        if line.command == "PING":
            await self._write(f"PONG :{line.words[-1] if line.words else ''}")
        elif line.command in ("PONG", "001", "ERROR") or line.error:
            self._lines.append(line)
            del self._lines[:-100]
            self._poke()

    async def _until(self, wanted: Callable[[Line], bool], *, settles: bool = False) -> None:
        """Until the server says what is wanted; an error before it is the answer instead."""
        refusal: Line | None = None
        while True:
            while self._lines:
                line = self._lines.pop(0)
                if wanted(line):
                    self.settled = True
                    if refusal is not None:
                        self._refuse(refusal)
                    return
                refusal = refusal or (line if line.error else None)
                if refusal is not None and not settles:
                    self._refuse(refusal)
            if not self.alive:
                raise DeliveryError("transient", "the server closed the connection")
            await self._changed.wait()

    def _refuse(self, line: Line) -> None:
        raise DeliveryError(
            "permanent" if line.permanent else "transient", f"the server answered {line.command}"
        )

    async def _write(self, *lines: str) -> None:
        data = "".join(f"{line}\r\n" for line in lines).encode()
        try:
            async with self._writing:
                await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            self.drop()
            raise DeliveryError("transient", "the connection broke") from None

    def _poke(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
