"""Splitting a byte stream into messages."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.acp.framing import LineReader, LineTooLongError
from tests.support.growth import Growth

LINES = st.lists(st.binary(min_size=1, max_size=40).filter(lambda b: b"\n" not in b), max_size=12)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """``data`` in pieces."""
    edges = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[a:b] for a, b in pairwise(edges)]


@given(LINES, st.lists(st.integers(min_value=0), max_size=20))
def test_however_the_stream_is_cut_the_same_lines_come_out(
    lines: list[bytes], places: list[int]
) -> None:
    """Lines do not depend on where the operating system ends a read."""
    reader = LineReader()
    found = [line for piece in cut(b"\n".join(lines), places) for line in reader.feed(piece)]
    if (rest := reader.finish()) is not None:
        found.append(rest)
    assert [line.rstrip(b"\r") for line in lines if line.strip()] == found


def test_other_line_separators_do_not_end_a_message() -> None:
    """U+2028 and U+0085 may stand raw inside a JSON string."""
    text = '{"a":"\u2028\x85"}'.encode()
    assert [text] == LineReader().feed(text + b"\r\n\r\n  \n")


def test_a_line_over_the_limit_ends_it_whether_finished_or_not() -> None:
    """Nothing is cut: the connection ends with a sentence."""
    with pytest.raises(LineTooLongError, match="MiB"):
        LineReader(limit_bytes=10).feed(b"12345678901")
    with pytest.raises(LineTooLongError):
        LineReader(limit_bytes=10).feed(b"12345678901\n{}\n")
    assert [b"1234567890"] == LineReader(limit_bytes=10).feed(b"1234567890\n")


def test_one_huge_line_is_linear() -> None:
    """Only new bytes are searched, so 32 MiB in small reads cost four times what 8 MiB do."""
    piece = b"x" * 65536

    def read(pieces: int) -> None:
        reader = LineReader()
        for _ in range(pieces):
            assert [] == reader.feed(piece)
        (line,) = reader.feed(b"\n")
        assert pieces * 65536 == len(line)

    growth = Growth(factor=8, slack_s=0.1)
    while growth.undecided():
        with growth.small():
            read(128)
        with growth.large():
            read(512)
