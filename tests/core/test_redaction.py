"""The table of secret shapes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.redaction import REDACTED, redact, shapes_in
from tests.support.growth import assert_linear

# put together here so that no scanner takes this file for a leak
_CERTAIN = {
    "cloud key id": "AKIA" + "ABCDEFGHIJKLMNOP",
    "code host token": "ghp_" + "a1" * 18,
    "chat token": "xoxb-" + "123456789012-abcdef",
    "model key": "sk-" + "Ab1" * 12,
    "web token": "eyJ" + "hbGciOiJI.eyJ" + "zdWIiOiIx.c2lnbmF0dXJl",
    "private key": "-----BEGIN OPENSSH " + "PRIVATE KEY-----\nb3BlbnNzaA==\n-----END",
    "relay token": "https://gw.example/relay" + "|k3ys3cretvalue",
    "password in a URL": "postgres://user" + ":hunter2pass@db.example/x",
    "card number": "4111 1111 " + "1111 1111",
}


@pytest.mark.parametrize("name", _CERTAIN)
def test_each_shape_is_named_and_hidden(name: str) -> None:
    """The guard learns the shape's name, the log loses the value."""
    text = f"before {_CERTAIN[name]} after"
    assert name in shapes_in(text)
    hidden = redact(text)
    assert REDACTED in hidden
    assert hidden.startswith("before ")
    assert _CERTAIN[name] not in hidden


@pytest.mark.parametrize(
    "text",
    [
        "The basic functionality of the token bucket is: refill, then take.",
        "commit 38d98150b2a7c1e6f7a8b9c0d1e2f3a4b5c6d7e8 at 1700000000000 ms",
        "see https://gw.example/relay/v1/tasks?wait=25 and mail me@example.org",
        "design: everything-in-one-place",
        "| a | b |\n|---|---|",
    ],
)
def test_honest_prose_is_not_withheld(text: str) -> None:
    """Hashes, times, tables and English are no secrets."""
    assert shapes_in(text) == ()
    assert redact(text) == text


def test_a_named_value_is_hidden_in_logs_only() -> None:
    """``password=…`` also fits honest prose, so the guard does not withhold for it."""
    for text in (
        "password=hunter2pass",
        '"api_key": "abcdefghij"',
        "Authorization: Bearer abcdefgh",
    ):
        assert "hunter2" not in redact(text)
        assert REDACTED in redact(text)
        assert shapes_in(text) == ()


def test_known_secrets_go_longest_first() -> None:
    """A secret that holds another one is removed whole; tiny ones are not looked for."""
    assert redact("x abcdef y abcd z", ["abcd", "abcdef", "z"]) == f"x {REDACTED} y {REDACTED} z"
    assert shapes_in("x abcdef y", ["abcdef"]) == ("our own secret",)


@given(st.text())
def test_any_text_is_redacted(text: str) -> None:
    """It never raises."""
    redact(text, [text[:8]])
    shapes_in(text)


@pytest.mark.parametrize(
    "piece",
    [
        "https://",
        "eyJ-",
        "eyJaaaaaaaa.",
        "a://u:",
        "1 1 1 ",
        "4",
        "token=",
        "bearer ",
        "sk-",
        "\n",
        "-----BEGIN PRIVATE KEY-----",
        "x" * 50 + " ",
        "https://a|",
        "1234567:",
        "authorization: a ",
    ],
)
def test_a_megabyte_is_redacted_in_linear_time(piece: str) -> None:
    """Four times the text costs about four times the time."""

    def work(text: str) -> None:
        redact(text)
        shapes_in(text)

    assert_linear(work, lambda size: piece * (size // len(piece)))
