"""The grammar of result bodies beyond the case files: the ways in which markers went wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.relay import markers
from agentconnect.core.relay.markers import parse

_PIECES = st.sampled_from(
    [
        "[file: a.txt]",
        "[file:",
        "[send: ",
        "[attach:b]",
        "[channel: !r:h]",
        "[dm-only]",
        "[no-send]",
        "[REPLIED]",
        "[deduped: x]",
        "]",
        "`",
        "``",
        "```",
        "~~~",
        "\n",
        "\r\n",
        "\r",
        "    ",
        "\t",
        "> ",
        "x",
        " ",
        "<p>",
        "\u2028",
        "\ud800",
    ]
)
BODIES = st.lists(_PIECES, max_size=40).map("".join)


def _paths(body: str) -> list[str]:
    return [action.value for action in parse(body).files]


@given(BODIES | st.text())
def test_no_body_raises(body: str) -> None:
    """Every text is parsed and guarded."""
    parse(body)
    markers.guard_agent_skip(body)


@given(BODIES)
def test_a_marker_is_issued_and_removed_or_left_visible(body: str) -> None:
    """What is not removed was not ordered: text and markers add up to the body."""
    parsed = parse(body)
    if parsed.skip is None:
        kept = sum(not c.isspace() for c in parsed.body)
        ordered = sum(len("".join(a.value.split())) for a in parsed.files)
        assert kept + ordered <= sum(not c.isspace() for c in body)


@given(BODIES)
def test_a_guarded_text_is_a_skip_only_if_it_stands_alone(text: str) -> None:
    """Agent text with words behind the marker is never swallowed."""
    parsed = parse(markers.guard_agent_skip(text))
    if parsed.skip is not None:
        assert text.strip().endswith("]")
        assert len(text.split()) <= 2


def test_a_second_kind_of_fence_inside_a_fence_does_not_upload() -> None:
    """A fence closes only with its own character (★4)."""
    body = "```\n~~~\n\n[file: x]\n```"
    assert parse(body) == markers.Parsed(body)


def test_a_shorter_fence_inside_a_fence_does_not_upload() -> None:
    """A fence closes only with a run at least as long (★4)."""
    body = "````\n```\n\n[file: x]\n\n```\n````"
    assert parse(body) == markers.Parsed(body)


def test_a_closing_fence_has_nothing_behind_it() -> None:
    """With words behind it the line is content."""
    body = "```\n``` sh\n[file: x]\n```"
    assert parse(body) == markers.Parsed(body)


def test_a_line_with_a_span_of_three_backticks_opens_no_fence() -> None:
    """A backtick fence's opening line holds no further backtick."""
    assert _paths("```x``` [file: a]\n[file: b]") == ["a", "b"]


def test_a_file_shown_in_a_quoted_fence_is_not_uploaded() -> None:
    """One level of quoting is looked through (★4)."""
    body = "> ```\n> [file: x]\n> ```\nend"
    assert parse(body) == markers.Parsed(body)


def test_a_quoted_fence_ends_with_its_quotation() -> None:
    """An unfinished example in a quotation does not hide the markers behind it."""
    assert _paths("> ```\n> [file: x]\nhere is it: [file: y]") == ["y"]


def test_a_file_shown_indented_under_a_redirect_is_not_uploaded() -> None:
    """Only the redirect's line and empty lines are eaten, not the next line's indent (★4)."""
    parsed = parse("[channel: !r:h]\n\n    [file: /etc/passwd]")
    assert (parsed.redirect, parsed.files) == ("!r:h", ())


def test_an_unclosed_file_marker_does_not_eat_the_rest_of_the_answer() -> None:
    """Only the rest of its line goes (★3)."""
    parsed = parse("see [file: a.txt and\nmore\n\nlast ] line")
    assert (parsed.body, parsed.files) == ("see \nmore\n\nlast ] line", ())


def test_a_value_does_not_span_lines() -> None:
    """A bracket paragraphs later closes nothing (★3)."""
    assert parse("[file: a\nb] c").body == "b] c"
    assert parse("[channel: !r:h\n] secret").redirect == ""
    assert parse("[deduped: is a marker\n\nand [1] a footnote").skip is None


def test_a_path_is_not_delivered_by_an_old_mask() -> None:
    """The mask is built again after the markers were removed (★3)."""
    body = "[file: aaaaaaaaaaaaaaaaaaaa]\n```\ncode\n```\ntext [file: /secret/pa"
    assert "/secret" not in parse(body).body


def test_a_span_ends_at_a_blank_line_of_any_line_ending() -> None:
    """CR LF counts as a line break: one stray backtick hides nothing."""
    for gap in ("\n\n", "\r\n\r\n", "\n \t\n", "\r\r"):
        assert _paths(f"a ` b{gap}[file: x]{gap}c ` d") == ["x"]


def test_a_tag_shown_in_code_does_not_take_a_live_marker_with_it() -> None:
    """The scan goes on right behind a shown tag."""
    parsed = parse("use `[file: a` like so: [file: b]")
    assert ([a.value for a in parsed.files], parsed.body) == (["b"], "use `[file: a` like so:")


def test_a_skip_inside_prose_is_put_in_backticks() -> None:
    """An answer that discusses the markers is not swallowed whole (★26)."""
    for marker in ("[no-send]", "[REPLIED]", "[deduped: 7]"):
        text = f"{marker} is how the worker stays silent."
        guarded = markers.guard_agent_skip(text)
        assert guarded == f"`{marker}` is how the worker stays silent."
        assert parse(guarded).skip is None


def test_a_skip_that_stands_alone_is_an_intended_silence() -> None:
    """It stays as it is (★26)."""
    assert markers.guard_agent_skip(" [no-send]\n") == " [no-send]\n"


def test_a_guarded_skip_is_one_span_even_before_a_backtick() -> None:
    """A backtick right behind it does not join the span."""
    assert markers.guard_agent_skip("[no-send]`x`") == "`[no-send]` `x`"


def test_a_refusal_cannot_forge_a_marker() -> None:
    """Brackets, controls and length of the name are tamed."""
    line = markers.file_refusal_line("a]\n[file: /etc/passwd\x00]" + "b" * 500, "why]")
    assert parse(line) == markers.Parsed(line)
    assert "\n" not in line
    assert len(line) < 400
    assert "an unnamed file" in markers.file_refusal_line(" \n", "x")


def test_a_file_name_with_a_bracket_is_recognised_as_cut() -> None:
    """``data[3].csv`` reads as ``data[3``: the refusal can say so (★27)."""
    (action,) = parse("[file: data[3].csv] done").files
    assert (action.value, markers.looks_cut_at_bracket(action)) == ("data[3", True)
    (whole,) = parse("[file: data.csv] done").files
    assert not markers.looks_cut_at_bracket(whole)


@pytest.mark.parametrize("room", ["!r:h", "#a:h"])
def test_a_redirect_goes_back_in_front(room: str) -> None:
    """The broker performs the move; losing it would post a private answer where it was asked."""
    assert parse(markers.restitch("x", room)) == markers.Parsed(
        "x", (markers.Action(markers.Kind.REDIRECT, room),)
    )
