"""Units, white characters, the cut (§1, §4)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentconnect.core.daemon.text import CUT_MARKER, cut, first_units, trimmed
from agentconnect.core.destination import MAX_TEXT_UNITS, blank, units
from agentconnect.core.surrogates import replace_surrogates


def in_units(text: str) -> int:
    return sum(2 if ord(char) > 0xFFFF else 1 for char in text)


@given(st.text(alphabet=st.characters()))
def test_units_are_those_of_utf_16(text: str) -> None:
    """Whatever the characters are, halves of pairs too."""
    assert in_units(text) == units(text)


@pytest.mark.parametrize("text", ["\x1c", "\x1f", "\x85", "\u200b", "\u180e", " . "])
def test_what_python_calls_white_and_javascript_does_not(text: str) -> None:
    """It is text, and is sent."""
    assert not blank(text)


def test_white_is_trimmed_at_both_ends_only() -> None:
    """The byte order mark counts as white here."""
    assert "a \n b" == trimmed("\ufeff\u00a0 a \n b\u2029")
    assert blank("\ufeff\u00a0\u3000\t\r\n\v\f")


@given(st.text(), st.integers(0, 60))
def test_a_start_in_units_splits_no_pair(text: str, room: int) -> None:
    """It fits, is a start of the text, and the next character would not fit."""
    start = first_units(text, room)
    assert text.startswith(start)
    assert in_units(start) <= room
    assert start == text or in_units(text[: len(start) + 1]) > room


PIECES = st.lists(st.sampled_from(["a", "😀", "漢", "\n", "👩‍💻"]), min_size=1, max_size=6)


@settings(max_examples=100)
@given(PIECES.map("".join), st.integers(MAX_TEXT_UNITS - 4, MAX_TEXT_UNITS + 70))
def test_a_cut_never_splits_a_pair_and_never_exceeds(piece: str, size: int) -> None:
    """Whole where it fits; else the longest start that leaves room for the marker, encodable."""
    text = first_units(piece * (size // len(piece) + 1), size)
    made = cut(text)
    made.encode()
    assert units(made) <= MAX_TEXT_UNITS
    if units(text) <= MAX_TEXT_UNITS:
        assert text == made
        return
    kept = made.removesuffix(CUT_MARKER)
    assert kept != made
    assert text.startswith(kept)
    assert units(made) >= MAX_TEXT_UNITS - 1


def test_half_of_a_pair_becomes_a_replacement() -> None:
    """Whole pairs stay."""
    assert "a\ufffdb😀\ufffd" == replace_surrogates("a\ud83db😀\ude00")
