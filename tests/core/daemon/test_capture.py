"""The final answer: only the last tool-free block, only after a whole turn (§8)."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.daemon.capture import END_TURN, MAX_BLOCK_UNITS, Capture
from agentconnect.core.daemon.text import CUT_MARKER
from agentconnect.core.destination import MAX_TEXT_UNITS, units

Event = tuple[str, str]

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "text", "text", "tool", "retry", "close"]),
        st.sampled_from(["", "a", "bb", " ", "😀"]),
    ),
    max_size=25,
)
OTHER_ENDS = [
    *("max_tokens", "max_turn_requests", "refusal", "cancelled"),
    *("error", "died", "deadline", "", "END_TURN", "brand_new"),
]


def played(events: list[Event]) -> Capture:
    capture = Capture()
    for name, text in events:
        if name == "text":
            capture.text(text)
        else:
            getattr(capture, name)()
    return capture


def by_the_book(events: list[Event]) -> str:
    """§8 as a list of blocks: the last one decides, whatever stood in those before."""
    blocks: list[list[str]] = []
    is_open = False
    for name, text in events:
        if name == "begin" or (name in ("text", "tool") and not is_open):
            blocks.append([])
            is_open = True
        if name == "text":
            blocks[-1].append(text)
        elif name == "tool":
            blocks[-1].append("TOOL")
        elif name == "retry" and is_open:
            blocks[-1] = []
        elif name == "close":
            is_open = False
    return "" if not blocks or "TOOL" in blocks[-1] else "".join(blocks[-1])


@given(EVENTS)
def test_any_sequence_ends_as_the_book_says(events: list[Event]) -> None:
    """An independent reading of §8 comes to the same text."""
    assert by_the_book(events) == played(events).end(END_TURN)


@given(EVENTS, st.sampled_from(OTHER_ENDS))
def test_no_other_end_submits(events: list[Event], reason: str) -> None:
    """Even when the text looks complete; nor does an end_turn that comes after it."""
    capture = played(events)
    assert capture.end(reason) is None
    assert capture.end(END_TURN) is None


@given(EVENTS, EVENTS)
def test_nothing_counts_after_the_end(events: list[Event], later: list[Event]) -> None:
    """A turn submits once."""
    capture = played(events)
    assert capture.end(END_TURN) is not None
    for name, text in later:
        capture.text(text) if name == "text" else getattr(capture, name)()
    assert capture.end(END_TURN) is None
    assert not capture.open


def test_an_empty_end_is_not_no_end() -> None:
    """A turn that said nothing submits the empty text."""
    assert "" == Capture().end(END_TURN)


@pytest.mark.parametrize("piece", ["a", "😀", "漢x"])
@pytest.mark.parametrize("surplus", [-1, 0, 1, 2, 3, 1000])
def test_what_is_dropped_shows_as_a_cut(piece: str, surplus: int) -> None:
    """However it is cut into chunks, long text ends as the cut of the whole would."""
    whole = (piece * MAX_TEXT_UNITS)[: MAX_TEXT_UNITS // units(piece) * len(piece) + surplus]
    for size in (37, 4096, len(whole)):
        capture = Capture()
        for at in range(0, len(whole), size):
            capture.text(whole[at : at + size])
        final = capture.end(END_TURN)
        assert final is not None
        assert final.endswith(CUT_MARKER) is (units(whole) > MAX_TEXT_UNITS)
        assert units(final) <= MAX_TEXT_UNITS
        assert whole.startswith(final.removesuffix(CUT_MARKER))


def test_a_pair_at_the_edge_is_not_taken_for_the_end() -> None:
    """100,000 units and one pair more: cut, though half a pair would still have fitted."""
    capture = Capture()
    capture.text("a" * MAX_TEXT_UNITS)
    capture.text("😀")
    capture.text("b")
    final = capture.end(END_TURN)
    assert final is not None
    assert final.endswith("a" + CUT_MARKER)


@pytest.mark.parametrize("tool", [False, True])
def test_memory_is_bounded(tool: bool) -> None:
    """Of 20 MB of answer, narration and retries about two blocks stay."""
    capture = Capture()
    capture.text("x" * MAX_BLOCK_UNITS)
    tracemalloc.start()
    try:
        for number in range(2_000):
            capture.text(f"{number:05}" * 2_000)
            if number % 500 == 499:
                capture.close()
            if tool:
                capture.tool()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 3 * MAX_BLOCK_UNITS


def test_a_retry_makes_room_again() -> None:
    """What was dropped with the superseded text is not missing in the new one."""
    capture = Capture()
    capture.text("x" * 2 * MAX_TEXT_UNITS)
    capture.retry()
    capture.text("answer")
    assert "answer" == capture.end(END_TURN)


def test_half_a_pair_in_the_stream_is_replaced() -> None:
    """What is submitted can be encoded."""
    capture = Capture()
    capture.text("a\ud83d")
    assert "a\ufffd" == capture.end(END_TURN)
