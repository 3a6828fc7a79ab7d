"""Text on its way out: encodable, and in pieces a room can show."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.relay.text_out import chunks
from agentconnect.core.surrogates import replace_surrogates

_LINES = st.lists(
    st.sampled_from(
        ["", "word " * 20, "x" * 500, "```", "```py", "~~~~", "    code", "\u2028", "\ud800"]
    ),
    max_size=60,
).map("\n".join)


@given(_LINES | st.text(), st.integers(1, 2000))
def test_every_piece_fits_and_nothing_but_space_and_fences_changes(body: str, limit: int) -> None:
    """No character of the text is lost."""
    pieces = chunks(body, limit)
    assert all(0 < len(piece) <= limit for piece in pieces)
    ours, theirs = (
        "".join(c for c in text if not c.isspace() and c not in "`~py")
        for text in ("".join(pieces), replace_surrogates(body))
    )
    assert ours == theirs


def test_half_a_character_in_an_answer_does_not_make_the_journal_unwritable() -> None:
    """Lone surrogates become U+FFFD before anything is stored (★1)."""
    assert replace_surrogates("a\ud83d\u2028b\udc00") == "a\ufffd\u2028b\ufffd"


def test_a_short_answer_is_one_piece_as_it_is() -> None:
    """White space included."""
    assert chunks(" a\n\nb ") == [" a\n\nb "]
    assert chunks("") == []


def test_a_long_answer_is_cut_at_a_blank_line() -> None:
    """Paragraphs stay whole where they can."""
    first, second = "a" * 700, "b" * 700
    assert chunks(f"{first}\n\n{second}", 1000) == [first, second]
    assert chunks(f"{first}\n{second}", 1000) == [first, second]


def test_a_fence_open_at_a_cut_is_closed_and_opened_again() -> None:
    """Each piece shows its code as code."""
    body = "```py\n" + "\n".join(f"line {n}" for n in range(200)) + "\n```\nend"
    pieces = chunks(body, 1000)
    assert len(pieces) > 1
    for piece in pieces:
        assert piece.startswith("```py\n")
        assert piece.count("```") % 2 == 0
    assert pieces[-1].endswith("\n```\nend")


@pytest.mark.parametrize("run", ["`" * 5000, "~" * 13_000])
def test_a_huge_fence_does_not_stop_the_cutting(run: str) -> None:
    """Lines as long as a piece are not repeated in each piece."""
    assert all(len(piece) <= 12_000 for piece in chunks(f"{run}\n{'x' * 30_000}"))
