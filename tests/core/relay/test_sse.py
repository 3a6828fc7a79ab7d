"""The event stream's frames: any cut gives the same ones, and nothing fills the memory."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.relay.sse import (
    FRAME_BYTES,
    LINE_BYTES,
    Frame,
    Reader,
    after_skip,
    read_event,
)

PIECES = st.sampled_from(
    [b"id: 7\n", b"id: x\n", b"data: {}\r\n", b"data:a\r", b"\n", b"\r\n", b": hi\n", b"event: e\n"]
)


def frames(*chunks: bytes) -> list[Frame]:
    reader = Reader()
    return [frame for chunk in chunks for frame in reader.feed(chunk)]


@given(st.lists(PIECES, max_size=12), st.data())
def test_any_cut_gives_the_same_frames(pieces: list[bytes], data: st.DataObject) -> None:
    """Lines end with LF, CR LF or CR, wherever the network cuts them."""
    raw = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    edges = [0, *cuts, len(raw)]
    chunks = [raw[a:b] for a, b in pairwise(edges)]
    assert frames(raw) == frames(*chunks)
    assert frames(raw) == frames(*(raw[at : at + 1] for at in range(len(raw))))


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_any_bytes_are_read(chunks: list[bytes]) -> None:
    """Nothing raises, whatever a frame holds."""
    for frame in frames(*chunks):
        read_event(frame)


def test_a_frame_is_its_id_and_its_joined_data() -> None:
    """One space after the colon is dropped; the id stays for the next frame."""
    assert frames(b'id: 5\ndata: {"a":\ndata:  1}\n\n: alive\n\ndata: {}\n\n') == [
        Frame(cursor=5, data=b'{"a":\n 1}'),
        Frame(cursor=5, data=b"{}"),
    ]


def test_a_body_without_an_end_of_line_fills_no_memory() -> None:
    """The line is poison; the frame after it is read again."""
    reader = Reader()
    for _ in range(100):
        assert list(reader.feed(b"data: " + b"x" * LINE_BYTES)) == []
        assert len(reader._line) <= LINE_BYTES
    found = list(reader.feed(b"\nid: 9\n\nid: 10\ndata: {}\n\n"))
    assert found == [Frame(cursor=9, poison=True), Frame(cursor=10, data=b"{}")]


def test_a_frame_of_too_many_lines_is_poison() -> None:
    """Each line is small, their sum is not."""
    line = b"data: " + b"x" * 1000 + b"\n"
    (frame,) = frames(line * (FRAME_BYTES // 1000 + 2), b"\n")
    assert frame.poison
    assert frame.data == b""


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"7", b"\xff", b"[" * 100_000])
def test_what_is_no_object_is_no_event(data: bytes) -> None:
    """Skipped, never raised."""
    assert read_event(Frame(cursor=1, data=data)) is None


def test_an_event_without_a_cursor_gets_its_frames() -> None:
    """One with its own keeps it."""
    bare = read_event(Frame(cursor=7, data=b'{"type":"x"}'))
    own = read_event(Frame(cursor=7, data=json.dumps({"cursor": 8}).encode()))
    assert bare is not None
    assert own is not None
    assert (bare.cursor, bare.fields["cursor"], own.cursor) == (7, 7, 8)


def test_a_broken_frames_id_is_believed_only_nearby() -> None:
    """``id: 5000`` once blinded a channel: a skip moves at most 64 beyond known ground."""
    assert after_skip(100, 5000) == 100
    assert after_skip(100, 164) == 164
    assert after_skip(100, 50) == 100
    assert after_skip(None, 7) is None
    assert after_skip(100, None) == 100
