"""The shortcut for plain requests reads what h11 reads, and nothing else takes it."""

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.embedded.line import Gone
from agentconnect.embedded.wires import H11Wire, PlainWire, Wire, begin

_NAMES = st.sampled_from(
    ["Host", "content-length", "Authorization", "X-A", "Connection", "Expect", "Transfer-Encoding"]
)
_VALUES = st.one_of(
    st.sampled_from(["x", "3", "03", "", "keep-alive", "close", "chunked", "100-continue", "3, 3"]),
    st.text(st.characters(min_codepoint=1, max_codepoint=255), max_size=6),
)
_HEADS = st.tuples(
    st.sampled_from(["GET", "POST", "DELETE", "PUT", "HEAD", "get", ""]),
    st.sampled_from(["/", "/a?b=c", "/a b", "/\xe9", "*", "http://x/a", "a"]),
    st.sampled_from(["HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "http/1.1", ""]),
    st.sampled_from(["\r\n", "\n"]),
    st.lists(st.tuples(_NAMES, st.sampled_from([": ", ":", " :", ":  "]), _VALUES), max_size=5),
)
_FULL = [("Host", "x"), ("Authorization", "Bearer y"), ("Content-Length", "3")]


def _raw(headers: list[tuple[str, str]], line: str = "POST /a?b=c HTTP/1.1") -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"{line}\r\n{lines}\r\nabcGET /next".encode("latin-1")


def _told(wire: Wire) -> tuple[object, ...]:
    body = b"".join(wire.parts)
    return wire.method, wire.target, wire.version, wire.headers, wire.whole, body, wire.ahead


def test_a_plain_request_is_read_as_h11_reads_it() -> None:
    """The same method, target, headers, body and rest; in one piece or byte by byte."""
    raw = _raw(_FULL)
    whole = begin(bytearray(raw))
    assert isinstance(whole, PlainWire)
    assert _told(whole) == _told(H11Wire(raw))
    arrived = bytearray()
    wire: Wire | None = None
    for byte in raw[:-9]:
        if wire is None:
            arrived.append(byte)
            wire = begin(arrived)
        else:
            wire.feed(bytes([byte]))
    assert wire is not None
    assert (wire.whole, b"".join(wire.parts), wire.ahead) == (True, b"abc", b"")


@pytest.mark.parametrize(
    "headers",
    [
        [("Content-Length", "3")],
        [("Host", "x"), ("Host", "y"), ("Content-Length", "3")],
        [("Host", "x"), ("Content-Length", "3"), ("Content-Length", "4")],
        [("Host", "x"), ("Content-Length", "+3")],
        [("Host", "x"), ("Content-Length", "3, 3")],
        [("Host", "x"), ("Content-Length", "3"), ("Transfer-Encoding", "chunked")],
        [("Host", "x"), ("Content-Length", "3"), ("Expect", "100-continue")],
        [("Host", "x"), ("Content-Length", "3"), ("Connection", "close")],
        [("Host", "x"), ("Content-Length", "3"), ("Upgrade", "websocket")],
        [("Host", "x\r\n folded"), ("Content-Length", "3")],
        [("Host", "x\tx"), ("Content-Length", "3")],
        [("Host", "x"), ("X ", "1"), ("Content-Length", "3")],
        [("Host", "x\x00"), ("Content-Length", "3")],
        [*_FULL, *((f"X-{n}", "1") for n in range(40))],
    ],
)
def test_what_is_special_is_h11s(headers: list[tuple[str, str]]) -> None:
    """Anything that changes how a connection is read, or is not well-formed, is never plain."""
    try:
        wire = begin(bytearray(_raw(headers)))
    except h11.RemoteProtocolError:
        return
    assert isinstance(wire, H11Wire)


@given(_HEADS)
def test_a_head_is_read_as_h11_reads_it_or_not_at_all(
    head: tuple[str, str, str, str, list[tuple[str, str, str]]],
) -> None:
    """Whatever comes, the shortcut never reads a request otherwise than h11 would."""
    method, target, version, end, headers = head
    lines = "".join(f"{name}{colon}{value}{end}" for name, colon, value in headers)
    raw = f"{method} {target} {version}{end}{lines}{end}abcdef".encode("latin-1")
    try:
        wire = begin(bytearray(raw))
    except (h11.RemoteProtocolError, Gone):
        return
    if isinstance(wire, PlainWire):
        assert _told(wire) == _told(H11Wire(raw))


def test_an_answer_is_framed_as_it_said() -> None:
    """With a length the bytes as they are, without one in chunks; a lie about it is an error."""

    def wire() -> Wire:
        made = begin(bytearray(_raw(_FULL)))
        assert made is not None
        return made

    plain = wire()
    assert (
        plain.head(200, [(b"content-length", b"2")])
        == b"HTTP/1.1 200 \r\ncontent-length: 2\r\n\r\n"
    )
    assert (plain.body(b"hi"), plain.end(), plain.again) == (b"hi", b"", True)
    chunked = wire()
    assert chunked.head(200, []).endswith(b"transfer-encoding: chunked\r\n\r\n")
    assert (chunked.body(b"hi"), chunked.body(b"")) == (b"2\r\nhi\r\n", b"")
    assert chunked.end() == b"0\r\n\r\n"
    empty = wire()
    assert (empty.head(204, []), empty.end()) == (b"HTTP/1.1 204 \r\n\r\n", b"")
    closing = wire()
    closing.head(200, [(b"content-length", b"0"), (b"connection", b"close")])
    closing.end()
    assert (closing.finished, closing.again) == (True, False)
    for body, ended in ((b"long", False), (b"s", True)):
        lying = wire()
        lying.head(200, [(b"content-length", b"2")])
        with pytest.raises(ValueError, match="than it said"):
            _ = lying.body(body) if not ended else (lying.body(body), lying.end())
    with pytest.raises(ValueError, match="more than one line"):
        wire().head(200, [(b"x", b"1\r\nset-cookie: a")])
