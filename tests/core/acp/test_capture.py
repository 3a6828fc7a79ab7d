"""Blocks of an answer, tool calls by id, ids that belong to history."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.acp.capture import MAX_REMEMBERED_IDS, Blocks, StaleIds, Tools
from agentconnect.core.acp.updates import ToolPatch


def play(*steps: tuple[str, str | None] | None) -> list[str]:
    """The blocks that stay, in order; None is a tool."""
    blocks = Blocks()
    texts: dict[int, str] = {}
    gone: set[int] = set()
    for step in steps:
        if step is None:
            blocks.tool()
            continue
        placed = blocks.chunk(*step)
        texts[placed.block] = texts.get(placed.block, "") + step[0]
        gone.update(placed.superseded)
    return [text for number, text in sorted(texts.items()) if number not in gone]


def test_chunks_of_one_message_are_one_block() -> None:
    """With an id or without one."""
    assert ["ab"] == play(("a", "m"), ("b", "m"))
    assert ["ab"] == play(("a", None), ("b", None))


def test_a_changed_or_missing_id_and_any_tool_begin_a_block() -> None:
    """A notice without an id after chunks that had one is a message of its own."""
    assert ["a", "b", "c"] == play(("a", "1"), ("b", "2"), ("c", None))
    assert ["a", "b"] == play(("a", None), None, ("b", None))
    assert ["a", "b"] == play(("a", "m"), None, ("b", "m"))


def test_seven_copies_of_half_a_sentence_are_one() -> None:
    """A model call that is retried streams the same text again under a new id."""
    copies = [(part, f"m{n}") for n in range(7) for part in ("this answer ", "is cut")]
    assert ["this answer is cut"] == play(*copies)


def test_a_shorter_copy_between_does_not_save_the_first() -> None:
    """Each is superseded by the next one that goes as far."""
    assert ["abc d"] == play(("abc", "1"), ("a", "2"), ("b", "2"), ("abc d", "3"))


def test_text_before_a_tool_is_never_superseded() -> None:
    """It was said and acted upon."""
    assert ["working", "working"] == play(("working", "1"), None, ("working", "2"))


def test_repeats_without_ids_stay() -> None:
    """Nothing tells a copy from a repetition there."""
    assert ["a", "ab"] == play(("a", "1"), ("ab", None))


@given(st.text(min_size=1), st.lists(st.integers(0, 50), max_size=8))
def test_a_copy_supersedes_however_it_is_cut(text: str, places: list[int]) -> None:
    """The chunks of the second copy need not be those of the first."""
    edges = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    pieces = [text[a:b] for a, b in pairwise(edges)]
    assert [text] == play((text, "1"), *((piece, "2") for piece in pieces if piece))


def test_a_step_starts_once_and_keeps_what_it_knew() -> None:
    """Updates carry only changed fields."""
    tools = Tools()
    (started,) = tools.step(ToolPatch(tool_id="t", title="Read x", kind="read", status="pending"))
    assert (True, "Read x", "read") == (started.started, started.title, started.kind)
    assert () == tools.step(ToolPatch(tool_id="t", status="in_progress"))
    (renamed,) = tools.step(ToolPatch(tool_id="t", title="Read x.py"))
    assert (True, "Read x.py") == (renamed.retitled, renamed.title)
    (ended,) = tools.step(ToolPatch(tool_id="t", status="failed"))
    assert (True, True, "Read x.py") == (ended.finished, ended.failed, ended.title)
    assert () == tools.step(ToolPatch(tool_id="t", status="completed"))


def test_a_call_may_be_seen_first_at_its_end() -> None:
    """Some agents send no ``tool_call`` for a call they asked permission for."""
    tools = Tools()
    tools.known(ToolPatch(tool_id="t", title="Write", kind="edit"))
    steps = tools.step(ToolPatch(tool_id="t", status="completed"))
    assert [(True, False), (False, True)] == [(s.started, s.finished) for s in steps]
    assert ["Write", "Write"] == [step.title for step in steps]


def test_remembered_ids_are_bounded() -> None:
    """The oldest are forgotten first."""
    stale = StaleIds()
    stale.add(f"m{n}" for n in range(MAX_REMEMBERED_IDS + 1))
    assert "m0" not in stale
    assert "m1" in stale
    assert None not in stale
