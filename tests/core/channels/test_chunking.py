"""Long texts in pieces."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.channels import irc
from agentconnect.core.channels.chunking import (
    Measure,
    characters,
    json_bytes,
    pieces,
    sendable,
    utf8,
)
from agentconnect.core.destination import blank, units

_ODD = st.sampled_from(
    [
        "\n",
        " ",
        "a",
        '"',
        "\\",
        "\x01",
        "ä",
        "🙂",
        "👩‍👩‍👧",
        "🇩🇪",
        "👍🏽",
        "e\u0301",
        "\r\n",
        "\u200b",
    ]
)
_TEXT = st.one_of(st.lists(_ODD, max_size=200).map("".join), st.text(max_size=200))
_MEASURES = st.sampled_from([units, utf8, json_bytes, characters])


@given(_TEXT.filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text)), _MEASURES)
def test_pieces_join_to_the_text_and_keep_the_limit(text: str, measure: Measure) -> None:
    """For every way to measure, at the smallest limit that is allowed and a larger one."""
    for limit in (8, 40):
        found = pieces(text, limit, measure)
        assert text == "".join(found)
        assert all(0 < measure(piece) <= limit for piece in found)
        assert [piece for piece in found if not blank(piece)] == sendable(text, limit, measure)


@given(st.text())
def test_the_size_in_json_is_what_is_written(text: str) -> None:
    """A limit that is checked must be the one that counts."""
    if not any("\ud800" <= c <= "\udfff" for c in text):
        assert len(msgspec.json.encode(text)) - 2 == json_bytes(text)


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("", 8, []),
        ("short", 8, ["short"]),
        ("12345678", 8, ["12345678"]),
        ("12345\n78 0", 8, ["12345\n", "78 0"]),
        ("1234 678901", 8, ["1234 ", "678901"]),
        ("1\n345678901", 8, ["1\n345678", "901"]),
        ("123456👩‍👩‍👧", 9, ["123456", "👩‍👩‍👧"]),
        ("123456e\u0301x", 8, ["123456e\u0301", "x"]),
        ("1234567e\u0301x", 8, ["1234567", "e\u0301x"]),
        ("1234567👍🏽", 8, ["1234567", "👍🏽"]),
        ("1234567\r\n", 8, ["1234567", "\r\n"]),
        ("123456🇩🇪🇫🇷", 8, ["123456🇩🇪", "🇫🇷"]),
        ("1234567🇩🇪🇫🇷", 8, ["1234567", "🇩🇪🇫🇷"]),
    ],
)
def test_where_a_text_is_cut(text: str, limit: int, expected: list[str]) -> None:
    """Behind a line, else a word, else not inside what is seen as one character."""
    assert expected == pieces(text, limit, characters)


def test_a_huge_text_without_breaks_takes_linear_time() -> None:
    """Ends in a fraction of a second, where looking at all that is left each time would not."""
    text = "🙂" * 500_000
    assert 250 == len(pieces(text, 4000, units))


def test_what_shows_nothing_is_not_sent() -> None:
    """A provider refuses an empty message, though all there was to say had arrived."""
    assert ["12345678"] == sendable("12345678\n\n\n", 8, characters)


@given(_TEXT)
def test_no_line_of_irc_can_be_a_command(text: str) -> None:
    """Nothing that ends a line stands inside one, and each fits."""
    if any("\ud800" <= c <= "\udfff" for c in text):
        return
    for line in irc.lines(text):
        assert not {"\r", "\n", "\0"} & set(line)
        assert 0 < len(line.encode()) <= irc.LINE_BYTES
