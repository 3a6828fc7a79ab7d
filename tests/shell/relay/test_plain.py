"""The short way for plain exchanges: what it takes means the same to h11, and the rest is None."""

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentconnect.relay.plain import PlainAnswer, read_answer, write_request

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
HEADERS = [(b"Host", b"h:1"), (b"Authorization", b"Bearer x"), (b"Content-Length", b"2")]

LINES = st.sampled_from(
    [
        b"Content-Length: 2",
        b"content-length:2",
        b"Content-Length: 02",
        b"Content-Length: 3",
        b"Content-Length: 2, 2",
        b"Content-Length: -2",
        b"Content-Length:",
        b"Transfer-Encoding: chunked",
        b"Connection: close",
        b"Connection: Keep-Alive",
        b"Connection: keep-alive, close",
        b"Upgrade: x",
        b"X: y",
        b"X:",
        b"X:  a \t b  ",
        b"X : y",
        b" folded",
        b"X: \xe4",
        b"X: \x00",
        b": y",
        b"no colon",
        b"X: a\rb",
        b"X: a\nY: b",
        b"",
    ]
)
STARTS = st.sampled_from(
    [
        b"HTTP/1.1 200 OK",
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 ",
        b"HTTP/1.1 404 Not Found",
        b"HTTP/1.1 503 \xe4",
        b"HTTP/1.0 200 OK",
        b"HTTP/1.1 100 Continue",
        b"HTTP/1.1 101 Switching",
        b"HTTP/1.1 204 No Content",
        b"HTTP/1.1 304 Not Modified",
        b"HTTP/1.1 2000 OK",
        b"HTTP/2 200",
        b"HTTP/1.1  200 OK",
        b"ICY 200 OK",
        b"",
    ]
)
BLOCKS = st.one_of(
    st.builds(
        lambda start, lines, end, body: b"\r\n".join([start, *lines]) + end + body,
        STARTS,
        st.lists(LINES, max_size=4),
        st.sampled_from([b"\r\n\r\n", b"\n\n", b"\r\n", b""]),
        st.sampled_from([b"", b"ok", b"ok?", b"2\r\nok\r\n0\r\n\r\n", b"o"]),
    ),
    st.binary(max_size=80),
)


def _by_h11(block: bytes) -> tuple[PlainAnswer, bool] | None:
    """What h11 reads, and whether the connection may carry another; None where it is not whole."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("Host", "h")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(block)
    try:
        head = connection.next_event()
        if not isinstance(head, h11.Response):
            return None
        body = b""
        while isinstance(event := connection.next_event(), h11.Data):
            body += bytes(event.data)
    except h11.RemoteProtocolError:
        return None
    if not isinstance(event, h11.EndOfMessage):
        return None
    answer = PlainAnswer(head.status_code, list(head.headers), body)
    clean = connection.their_state is h11.DONE and not connection.trailing_data[0]
    return answer, clean


@given(BLOCKS)
@example(OK)
@example(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
def test_an_answer_taken_for_plain_is_one_to_h11_too(block: bytes) -> None:
    """Same status, headers and body, nothing left over, and the connection goes on."""
    found = read_answer(block)
    if found is not None:
        assert _by_h11(block) == (found, True)


@pytest.mark.parametrize(
    "block",
    [
        OK,
        OK.replace(b"\r\n\r\n", b"\r\nConnection: keep-alive\r\nX: a b\r\nEmpty:\r\n\r\n"),
        OK.replace(b"200 OK", b"503 "),
        b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_the_common_answer_is_plain(block: bytes) -> None:
    """Otherwise there would be no point."""
    assert read_answer(block) is not None


REQUESTS = st.tuples(
    st.sampled_from(["GET", "POST", "HEAD", "PUT"]),
    st.sampled_from([b"/relay/v1/tasks?wait=25", b"/a b", b"/a\r\nX: y", b""]),
    st.lists(
        st.tuples(
            st.sampled_from([b"Host", b"X", b"Content-Length", b"Transfer-Encoding", b"A: b", b""]),
            st.sampled_from([b"h", b"2", b"0", b"a\r\nX: y", b"a\nb", b"a\rb", b"\0", b"chunked"]),
        ),
        max_size=4,
    ),
    st.sampled_from([b"", b"ok"]),
)


@given(REQUESTS)
@example(("POST", b"/x", HEADERS, b"ok"))
@example(("GET", b"/x", [(b"Host", b"h")], b""))
def test_a_request_written_plainly_is_what_h11_would_write(
    request: tuple[str, bytes, list[tuple[bytes, bytes]], bytes],
) -> None:
    """Byte for byte, and never something that h11 refuses."""
    method, target, headers, body = request
    found = write_request(method, target, headers, body)
    if found is None:
        return
    connection = h11.Connection(h11.CLIENT)
    written = connection.send(h11.Request(method=method, target=target, headers=headers)) or b""
    if body:
        written += connection.send(h11.Data(data=body)) or b""
    assert found == written + (connection.send(h11.EndOfMessage()) or b"")


def test_the_common_request_is_plain() -> None:
    """With a body and without."""
    assert write_request("POST", b"/x", HEADERS, b"ok") is not None
    assert write_request("GET", b"/x", HEADERS[:2], b"") is not None
