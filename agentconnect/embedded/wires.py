"""The grammar of one request and its answer: h11, and a shortcut for the plain ones.

A request is *plain* if its head is exactly what every client of ours sends: HTTP/1.1, well-formed
lines, one host, at most one length, nothing that changes how the connection is read. It is taken
apart here in a tenth of the time. Whatever else arrives, odd or hostile, h11 reads and refuses; no
request is ever judged by both.
"""

import re
from typing import Protocol

import h11

from agentconnect.embedded.line import Gone
from agentconnect.embedded.timing import HEAD_BYTES

Headers = list[tuple[bytes, bytes]]

_PLAIN = re.compile(
    rb"(GET|POST|DELETE) (/[!-~]*) HTTP/1\.1\r\n((?:[A-Za-z0-9-]+:[ -~]*\r\n){1,40})\r\n"
)
_END = re.compile(rb"\n\r?\n")
_LENGTH = re.compile(rb"[0-9]{1,12}")
_ODD = frozenset({b"transfer-encoding", b"expect", b"upgrade", b"trailer", b"connection"})
_BODYLESS = frozenset({204, 304})


class Wire(Protocol):
    """One request as it arrives, and its answer as bytes."""

    method: bytes
    target: bytes
    version: bytes
    headers: Headers
    parts: list[bytes]  # of its body, not taken yet

    @property
    def whole(self) -> bool:
        """Whether the request has arrived to its end."""

    @property
    def ahead(self) -> bytes:
        """What came of the next request, once this one is whole."""

    @property
    def asks(self) -> bool:
        """Whether the peer waits to be told to go on."""

    @property
    def finished(self) -> bool:
        """Whether the answer is out."""

    @property
    def again(self) -> bool:
        """Whether another request may follow."""

    def feed(self, data: bytes) -> None:
        """More has arrived; ``b""`` for the end.

        Raises:
            Gone: it ended too early.
            h11.RemoteProtocolError: it is not HTTP.
        """

    def go_on(self) -> bytes:
        """Tell the peer to send its body."""

    def head(self, status: int, headers: Headers) -> bytes:
        """The head of the answer."""

    def body(self, data: bytes) -> bytes:
        """A part of its body."""

    def end(self) -> bytes:
        """Its end."""


def begin(arrived: bytearray) -> Wire | None:
    """The request that ``arrived`` begins with; None while its head is not there.

    Raises:
        h11.RemoteProtocolError: it is none.
    """
    while arrived and arrived[0] in b"\r\n":  # some send a line too many after a body
        del arrived[:1]
    if not arrived:
        return None
    plain = _PLAIN.match(arrived)
    if plain is not None:
        headers = [_header(line) for line in plain[3].split(b"\r\n")[:-1]]
        length = _plain_length(headers)
        if length is not None:
            head = plain[1], plain[2]
            return PlainWire(*head, headers, length, bytes(arrived[plain.end() :]))
    hopeless = arrived[0] < 0x21 or len(arrived) > HEAD_BYTES
    return H11Wire(bytes(arrived)) if hopeless or _END.search(arrived) else None


def _header(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b":")
    return name.lower(), value.strip(b" ")


def _plain_length(headers: Headers) -> int | None:
    """The body's length, if nothing about the head is special."""
    names = [name for name, _ in headers]
    if names.count(b"host") != 1 or names.count(b"content-length") > 1:
        return None
    length = 0
    for name, value in headers:
        if name == b"content-length":
            if _LENGTH.fullmatch(value) is None:
                return None
            length = int(value)
        elif name in _ODD and (name, value.lower()) != (b"connection", b"keep-alive"):
            return None
    return length


class PlainWire:
    """A plain request."""

    version = b"1.1"
    asks = False

    def __init__(
        self, method: bytes, target: bytes, headers: Headers, length: int, rest: bytes
    ) -> None:
        self.method = method
        self.target = target
        self.headers = headers
        self.parts: list[bytes] = []
        self.ahead = b""
        self._finished = False
        self._missing = length
        self._owed: int | None = 0  # bytes of the answer's body; None: in chunks
        self._close = False
        if rest:
            self.feed(rest)

    @property
    def whole(self) -> bool:
        return self._missing == 0

    @property
    def finished(self) -> bool:
        return self._finished

    @property
    def again(self) -> bool:
        return self._finished and self.whole and not self._close

    def feed(self, data: bytes) -> None:
        if not data:
            raise Gone
        mine = data[: self._missing]
        if mine:
            self._missing -= len(mine)
            self.parts.append(mine)
        self.ahead += data[len(mine) :]

    def go_on(self) -> bytes:
        return b""

    def head(self, status: int, headers: Headers) -> bytes:
        lines = [b"HTTP/1.1 %d \r\n" % status]
        self._owed = 0 if status in _BODYLESS else None
        for name, value in headers:
            lines.append(b"%s: %s\r\n" % (name, value))
            if name == b"content-length":
                self._owed = int(value)
            elif name == b"connection":
                self._close = True
        if self._owed is None:
            lines.append(b"transfer-encoding: chunked\r\n")
        head = b"".join(lines)
        if head.count(b"\n") != len(lines):
            raise ValueError("a header of the answer is more than one line")
        return head + b"\r\n"

    def body(self, data: bytes) -> bytes:
        if self._owed is None:
            return b"%x\r\n%s\r\n" % (len(data), data) if data else b""
        self._owed -= len(data)
        if self._owed < 0:
            raise ValueError("the answer is longer than it said")
        return data

    def end(self) -> bytes:
        if self._owed:
            raise ValueError("the answer is shorter than it said")
        self._finished = True
        return b"0\r\n\r\n" if self._owed is None else b""


class H11Wire:
    """Any other request."""

    def __init__(self, arrived: bytes) -> None:
        self._wire = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
        self._wire.receive_data(arrived)
        request = self._wire.next_event()
        if not isinstance(request, h11.Request):
            raise h11.RemoteProtocolError("no request", error_status_hint=400)
        self.method = request.method
        self.target = request.target
        self.version = request.http_version
        self.headers: Headers = [(bytes(name), bytes(value)) for name, value in request.headers]
        self._whole = False
        self.parts: list[bytes] = []
        self._collect()

    @property
    def whole(self) -> bool:
        return self._whole

    @property
    def asks(self) -> bool:
        return self._wire.they_are_waiting_for_100_continue

    @property
    def finished(self) -> bool:
        return self._wire.our_state in (h11.DONE, h11.MUST_CLOSE)

    @property
    def again(self) -> bool:
        return self._wire.our_state is h11.DONE and self._wire.their_state is h11.DONE

    @property
    def ahead(self) -> bytes:
        return self._wire.trailing_data[0]

    def feed(self, data: bytes) -> None:
        self._wire.receive_data(data)
        self._collect()

    def _collect(self) -> None:
        while not self._whole:
            event = self._wire.next_event()
            if isinstance(event, h11.Data):
                self.parts.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                self._whole = True
            elif event is h11.NEED_DATA:
                return
            else:
                raise Gone

    def go_on(self) -> bytes:
        return self._wire.send(h11.InformationalResponse(status_code=100, headers=[])) or b""

    def head(self, status: int, headers: Headers) -> bytes:
        return self._wire.send(h11.Response(status_code=status, headers=headers)) or b""

    def body(self, data: bytes) -> bytes:
        if self.method == b"HEAD" or not data:
            return b""
        return self._wire.send(h11.Data(data=data)) or b""

    def end(self) -> bytes:
        return self._wire.send(h11.EndOfMessage()) or b""
