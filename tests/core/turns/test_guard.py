"""The result guard: what of a collaborator's turn may be shown (worker.md §20.5)."""

import gzip

import pytest

from agentconnect.core.redaction import shapes_in
from agentconnect.core.turns.events import (
    Action,
    Event,
    FileOffered,
    MessageChunk,
    Notice,
    PermissionAsked,
    Thinking,
    ToolFinished,
    ToolRetitled,
    ToolStarted,
)
from agentconnect.core.turns.guard import ResultGuard, as_text

OURS = "our-own-relay-secret"
SECRET = "sk-" + "a1B2c3D4" * 4
guard = ResultGuard(lambda text: shapes_in(text, [OURS]))

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"


def test_honest_text_passes_unchanged() -> None:
    """The guard only ever replaces; what it lets through is byte for byte the same."""
    text = "The key is under the mat.\n\n```\npassword: see the vault\n```\n"
    assert text is guard.text("The answer", text)


@pytest.mark.parametrize(
    "secret",
    [
        SECRET,
        OURS,
        "AKIA" + "ABCDEFGHIJKLMNOP",
        "ghp_" + "x1" * 18,
        "xoxb-" + "1234567890-abc",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow",
        "https://relay.example/relay|" + "s3cret" * 4,
        "postgres://user:hunter22@db/x",
        "4111 1111 1111 1111",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.SflKxwRJSMeKK",
    ],
)
def test_a_secret_never_shows_in_what_stands_for_it(secret: str) -> None:
    """The room reads that something was withheld and why, never the secret."""
    shown = guard.text("The answer", f"Here you are: {secret}!")
    assert secret not in shown
    assert "The answer of this turn was withheld" in shown
    assert () == shapes_in(shown, [OURS])


@pytest.mark.parametrize(
    "event",
    [
        Notice(text=f"see {SECRET}"),
        ToolStarted(tool_id="1", title=f"echo {SECRET}", action=Action.EXECUTE),
        ToolRetitled(tool_id="1", title=f"echo {SECRET}"),
        ToolFinished(tool_id="1", title=f"echo {SECRET}", failed=True),
        PermissionAsked(title=f"echo {SECRET}", allowed=False, reason="no"),
        PermissionAsked(title="x", allowed=False, reason=f"outside: /{SECRET}"),
        FileOffered(path=f"/w/{SECRET}.txt"),
        FileOffered(path="/w/a.txt", name=SECRET),
    ],
    ids=lambda event: type(event).__name__,
)
def test_no_event_that_is_shown_carries_a_secret(event: Event) -> None:
    """Titles, reasons, notices and file names become generic words; the rest is kept."""
    shown = guard.event(event)
    assert SECRET not in repr(shown).replace(f"paths=('{SECRET}'", "")
    if isinstance(event, ToolFinished):
        assert isinstance(shown, ToolFinished)
        assert shown.failed
    if isinstance(event, FileOffered):
        assert isinstance(shown, Notice)


def test_what_is_not_shown_or_honest_is_left_alone() -> None:
    """Thoughts reach no room; chunks are judged as one answer, at its end."""
    for event in (
        Thinking(text=SECRET),
        MessageChunk(text=SECRET[:8]),
        ToolStarted(tool_id="1", title="Read a.txt"),
        FileOffered(path="/w/a.txt"),
    ):
        assert event is guard.event(event)


# --- files


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        (b"", True),
        (b"name,size\na,1\n", True),
        ("Gr\xfc\xdfe, 你好\n".encode(), True),
        ("Gr\xfc\xdfe\n".encode("latin-1"), True),
        ("plain".encode("utf-16"), True),
        (f"key = {SECRET}".encode(), False),
        (f"key = {SECRET}".encode("utf-16"), False),
        (f"\xfc {SECRET}".encode("latin-1"), False),
        (PNG, False),
        (gzip.compress(b"x" * 100, mtime=0), False),
        (f"key = {SECRET}".encode("utf-16-le"), False),
        (b"\xff\xfe\x00", False),
    ],
)
def test_a_file_is_sent_only_where_it_was_looked_through(content: bytes, sent: bool) -> None:
    """Text of any usual coding is read; what cannot be read is withheld, and says so."""
    why = guard.file("a.txt", content)
    assert (why == "") is sent
    assert SECRET not in why
    if as_text(content) is None:
        assert "not text" in why


def test_a_file_is_withheld_for_its_name_too() -> None:
    """The name is shown in the room, so it is looked at like any text."""
    assert "withheld" in guard.file(f"/w/{SECRET}.txt", b"nothing in it")
