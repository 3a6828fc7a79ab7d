"""From an answer's text to the posted result."""

from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.relay import markers, prepared
from agentconnect.core.relay.prepared import FileOutcome, plan, prepare

_SENT = FileOutcome(ok=True, filename="a.txt")


@given(st.text())
def test_every_answer_becomes_a_body_that_can_be_encoded(body: str) -> None:
    """Lone surrogates never reach the journal (★1), and the body is never empty."""
    payload = prepared.answer_payload("q", prepare(plan(body + "\ud800"), []))
    payload.body.encode()
    assert payload.body


def test_an_answer_of_nothing_but_markers_still_closes_the_lease() -> None:
    """An empty message is not posted; the lease is closed silently, privacy is told."""
    payload = prepared.answer_payload("q", prepare(plan("[dm-only]\n"), []))
    assert (payload.body, payload.dm_only) == ("[no-send]", True)


def test_a_skip_uncovered_by_a_removed_marker_does_not_swallow_the_answer() -> None:
    """The broker reads the body start again (★26)."""
    for first in ("[dm-only]\n", "[file: a.txt]", "[channel: !r:h]\n"):
        body = prepare(plan(f"{first}[no-send] hides an answer"), [_SENT]).body
        assert "`[no-send]` hides" in body


def test_a_redirect_uncovered_by_a_removed_one_moves_nothing() -> None:
    """A private answer with two redirects stays where it was asked."""
    body = prepare(plan("[dm-only]\n[channel: !a:h]\n[channel: !b:h]\nsecret"), []).body
    assert markers.parse(body).redirect == ""
    assert "secret" in body


def test_a_second_redirect_stays_text_behind_the_first() -> None:
    """The broker obeys one."""
    body = prepare(plan("[channel: !a:h]\n[channel: !b:h]\nx"), []).body
    assert body == "[channel: !a:h]\n[channel: !b:h]\nx"


def test_a_name_with_a_bracket_is_refused_with_a_hint() -> None:
    """The person learns what to do (★27)."""
    (line,) = prepare(plan("[file: data[3].csv] done"), [FileOutcome(ok=False)]).refused
    assert "rename it" in line
    assert markers.parse(line) == markers.Parsed(line)


def test_a_missing_outcome_counts_as_missing() -> None:
    """Fewer outcomes than files never raise."""
    ready = prepare(plan("[file: a][file: b]"), [_SENT])
    assert ready.body == "📎 a.txt\n\n[attachment not sent: b (missing)]"


def test_an_answer_is_checked_before_it_is_taken() -> None:
    """Blank means "not ready", which nobody can post."""
    assert prepared.answer_problem("..", "x") == "bad_id"
    assert prepared.answer_problem("q", None) == "not_text"
    assert prepared.answer_problem("q", "\u2003\n") == "blank"
    assert prepared.answer_problem("q", "x") == ""


def test_a_rejection_names_its_reason_as_a_code() -> None:
    """The broker posts the notice; the worker only says why."""
    payload = prepared.reject_payload("q", "bad input")
    assert (payload.status, payload.error_code, payload.body) == ("rejected", "BAD_INPUT", "")
