"""What the log may say of a failed delivery."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.channels.diagnostic import MAX_UNITS, diagnostic
from agentconnect.core.destination import blank, units


@pytest.mark.parametrize(
    ("text", "target", "secrets", "expected"),
    [
        ("HTTP 403 M_FORBIDDEN", "!r:hs", (), "HTTP 403 M_FORBIDDEN"),
        ("not in !r:hs!", "!r:hs", (), "not in <redacted>!"),
        ("a b", " ", (), "a b"),
        ("key s3cret-long", "x", ("s3cret", "s3cret-long"), "key <redacted>"),
        ("token 12-u7-34 of u7", "u7", ("12-u7-34",), "token <redacted> of <redacted>"),
        ("at https://u:p@h.example/botX/m?k=v now", "x9", (), "at https://h.example now"),
        ("at wss://h.example:8/p#f", "x9", (), "at wss://h.example:8"),
        ("two\nlines\x1b[31m", "x9", (), "two lines [31m"),
        ("🙂" * 600, "x9", (), "🙂" * 256),
    ],
)
def test_what_is_left(text: str, target: str, secrets: tuple[str, ...], expected: str) -> None:
    """No id, no secret, nothing behind a host, no control character, 512 units."""
    assert expected == diagnostic(RuntimeError(text), target, secrets)


@given(st.text(), st.text(), st.text(), st.text())
def test_nothing_hidden_comes_out(before: str, target: str, secret: str, after: str) -> None:
    """Whatever stands around it, and it never fails."""
    told = diagnostic(f"{before}{target}{secret}{after}", target, (secret,))
    assert units(told) <= MAX_UNITS
    for hidden in (target, secret):
        if len(hidden) > 10 and not blank(hidden) and "redacted" not in hidden:
            assert hidden not in told


def test_an_error_that_cannot_be_shown_is_left_out() -> None:
    """The log line goes without."""

    class Broken(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert "" == diagnostic(Broken(), "x", ())
