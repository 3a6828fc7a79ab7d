"""From events to the body that the room reads (worker.md §7, §11.4-§11.6)."""

import pytest

from agentconnect.core.task import Attachment
from agentconnect.core.turns import wording
from agentconnect.core.turns.answer import (
    EndingKind,
    Marked,
    Transcript,
    ending_of,
    fits,
    joined,
    stop_text,
    trimmed,
    unanswered,
)
from agentconnect.core.turns.events import (
    Action,
    BlockSuperseded,
    Done,
    Event,
    MessageChunk,
    PermissionAsked,
    Plan,
    Reason,
    Thinking,
    ToolFinished,
    ToolRetitled,
    ToolStarted,
)


def taken(*events: Event) -> Transcript:
    """A transcript of these events."""
    transcript = Transcript()
    for event in events:
        transcript.take(event)
    return transcript


def test_blocks_are_joined_by_one_blank_line() -> None:
    """Chunks of a block run on; blocks stand apart; superseded and blank ones are left out."""
    transcript = taken(
        MessageChunk(text="I will write "),
        MessageChunk(text="a file.\n"),
        MessageChunk(text="   ", block=1),
        MessageChunk(text="all fin", block=2),
        BlockSuperseded(block=2),
        MessageChunk(text="\nall finished", block=3),
        Thinking(text="secret"),
        Plan(entries=(("p", "pending"),)),
    )
    assert "I will write a file.\n\nall finished" == transcript.spoken()


def test_done_text_is_the_answer_if_there_is_one() -> None:
    """The ending's own text wins; without it the blocks are the answer."""
    transcript = taken(MessageChunk(text="streamed"))
    assert "whole" == transcript.answer(Done(reason=Reason.COMPLETED, text="whole\n"))
    assert "streamed" == transcript.answer(Done(reason=Reason.COMPLETED, text=" "))


def test_lone_surrogates_do_not_survive() -> None:
    """What no journal can hold is replaced before anything is recorded."""
    answer = taken(MessageChunk(text="a\ud83d")).answer(Done(reason=Reason.COMPLETED))
    assert "a\N{REPLACEMENT CHARACTER}" == answer


def test_first_lines_indent_stays() -> None:
    """An indented first line is code; without its indent a marker in it would come alive."""
    assert "    [file: x]" == trimmed("\n \n    [file: x]\n\n")
    assert "" == trimmed(" \n ")


def test_summary_lists_steps_in_start_order() -> None:
    """Six steps, neighbours of one title as one, failures marked, the rest counted."""
    events: list[Event] = [
        ToolStarted(tool_id=str(n), title=title)
        for n, title in enumerate(["Read x"] * 3 + ["npm test", "", "b", "c", "d", "e"])
    ]
    events += [
        ToolFinished(tool_id="3", title="", failed=True),
        ToolRetitled(tool_id="4", title="", action=Action.SEARCH),
    ]
    assert (
        "— did: Read x ×3 · npm test (failed) · search · b · c · d · +1 more"
        == taken(*events).summary()
    )


def test_summary_lists_refusals() -> None:
    """Refused operations with title and reason; allowed ones are not listed."""
    asked = [PermissionAsked(title=f"op{n}", allowed=False, reason="outside") for n in range(8)]
    text = taken(*asked, PermissionAsked(title="fine", allowed=True, reason="")).summary()
    assert text.startswith("— refused (8 operations): op0 — outside · ")
    assert text.endswith("op5 — outside · +2 more")


def test_activity_is_the_latest_step() -> None:
    """The latest step and the number of steps; text is no activity."""
    transcript = Transcript()
    assert ("", 0) == transcript.activity
    assert not transcript.take(MessageChunk(text="x"))
    assert transcript.take(ToolStarted(tool_id="1", title="", action=Action.READ))
    assert ("read", 1) == transcript.activity
    assert transcript.take(ToolRetitled(tool_id="1", title="Read\nx", action=Action.READ))
    assert transcript.take(ToolStarted(tool_id="2", title="T" * 300))
    assert not transcript.take(ToolRetitled(tool_id="1", title="again", action=Action.READ))
    label, count = transcript.activity
    assert (200, 2) == (len(label), count)


def test_files_beside_the_body_make_it_a_result() -> None:
    """Files by list count with those of markers; no words at all are an ending too."""
    marked = Marked(text="see", files=1)
    both = ending_of("see [file: a]", marked, no_send="", files=["/a]b", "/c\nd"])
    assert (EndingKind.FILES, ("/a]b", "/c\nd")) == (both.kind, both.files)
    assert "3 files" in both.pointer
    alone = ending_of("", Marked(text=""), no_send="", files=["/a"])
    assert (EndingKind.FILES, "") == (alone.kind, alone.body)
    assert EndingKind.NOTHING is ending_of("", Marked(text=""), no_send="").kind


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason != "completed"])
def test_short_turns_say_so(reason: Reason) -> None:
    """Every reason but completed has a line of its own; a note takes its place."""
    assert stop_text(Done(reason=reason))
    assert "because" == stop_text(Done(reason=reason, note=" because "))
    assert "" == stop_text(Done(reason=reason), quiet=True)


def test_no_send_archives_everything() -> None:
    """Marker first, then reason, notices, ending, summary."""
    ending = unanswered(Reason.FAILED, unposted=["n"], ending="e", summary="s")
    assert ending.no_send.startswith("[no-send] ")
    assert ending.no_send.endswith("\n\nn\n\ne\n\ns")
    assert "reason: failed" in ending.no_send


def test_ceiling_counts_characters_and_the_relay_both_ways() -> None:
    """Exactly at the limit fits."""
    assert fits("x" * 4000, 9000)
    assert not fits("x" * 4001, 9000)
    assert fits("😀" * 2000, 9000)
    assert not fits("😀" * 2001, 9000)
    assert not fits("x", 0)


@pytest.mark.parametrize(
    "text",
    [
        "[file: a]",
        "[send: a]",
        "[attach: a]",
        "[channel: !a:x]",
        "[dm-only]",
        "[no-send]",
        "[REPLIED]",
        "[ file : a]",
        "[deduped: 1]",
    ],
)
def test_no_marker_survives_in_our_own_lines(text: str) -> None:
    """Titles, reasons and notes cannot act."""
    assert not wording.inert(f"cat {text}").count("[")


def test_brackets_that_are_no_markers_stay() -> None:
    """Ordinary brackets are left alone."""
    assert "a[0] [todo]" == wording.inert("a[0] [todo]")


@pytest.mark.parametrize(
    ("user", "room", "expected"),
    [
        ("@bob:example.org", "!r:other", "@sutando-concierge:example.org"),
        ("@bob:localhost:8448", "!r:other", "@sutando-concierge:localhost:8448"),
        ("bob", "!r:other.net", "@sutando-concierge:other.net"),
        ("", "", "@sutando-concierge"),
        ("@bob:`evil` [file: x]", "", "@sutando-concierge"),
    ],
)
def test_concierge_is_named_in_full(user: str, room: str, expected: str) -> None:
    """The sender's domain, else the room's, else none; nothing that could be a marker."""
    assert expected == wording.concierge(user, room)


def test_refusal_names_nobody_it_cannot_spell() -> None:
    """A sender id that is no MXID is not quoted."""
    assert "`trust @user`" in wording.guest_refusal("@x:`[file: /etc/passwd]`", "!r:x", "acp")


def test_labels_are_one_line_and_never_empty() -> None:
    """File name, else local name, else a word; control characters are blanks."""
    assert "a b" == wording.file_label(Attachment(name="a\x07\n b"))
    assert "c.txt" == wording.file_label(Attachment(path="/m/c.txt"))
    assert "an unnamed file" == wording.file_label(Attachment())
    assert 120 == len(wording.file_label(Attachment(name="x" * 500)))


def test_joined_skips_what_is_blank() -> None:
    """One blank line between what there is."""
    assert "a\n\nb" == joined("a", "", " ", "b")
