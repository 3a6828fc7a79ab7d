"""The channels file as it is read."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.channels.declared import SecretRef, read
from agentconnect.core.channels.forms import FORMS, address

MATRIX = {"type": "matrix", "homeserver": "https://hs.example", "token_env": "T"}


def file(**channels: Any) -> bytes:
    return json.dumps({"v": 1, "channels": channels}).encode()


def test_a_channel_as_it_stands_in_the_file() -> None:
    """With its defaults; secrets are places, not values."""
    found = read(file(ops=MATRIX))
    assert () == found.refusals
    (ops,) = found.channels
    assert ("ops", "matrix", False) == (ops.name, ops.type, ops.markdown)
    assert {"homeserver": "https://hs.example", "msgtype": "m.text"} == ops.options
    assert {"token": SecretRef(env="T")} == ops.secrets
    assert frozenset({"T"}) == found.secret_variables


GOOD: list[dict[str, Any]] = [
    MATRIX,
    MATRIX | {"format": "markdown", "msgtype": "m.notice", "homeserver": "http://127.0.0.1:8008"},
    {"type": "telegram", "token_file": "~/t", "base_url": "http://localhost:1"},
    {"type": "slack", "token_env": "T"},
    {"type": "dingtalk", "app_key_env": "K", "app_secret_env": "S", "robot_code": "r"},
    {"type": "slack-webhook", "targets": {"ops": {"url_env": "U"}}},
    {"type": "mattermost-webhook", "targets": {"ops": {"url_env": "U"}}, "format": "markdown"},
    {"type": "feishu-webhook", "targets": {"ops": {"url_env": "U", "secret_env": "S"}}},
    {"type": "dingtalk-webhook", "targets": {"ops": {"url_file": "/u"}}},
    {"type": "webhook", "url": "https://h.example/x?y=1", "secret_env": "S"},
    {"type": "webhook", "url_env": "U", "secret_env": "S"},
    {"type": "room"},
    {"type": "room", "token_env": "T"},
    {"type": "irc", "host": "irc.example", "nick": "bot"},
    {"type": "irc", "host": "h", "nick": "bot", "port": 6667, "tls": False, "password_env": "P"},
    {"type": "apprise", "targets": {"mail": {"url_env": "U"}}},
    MATRIX
    | {
        "webhooks": {
            "ci": {"secret_env": "W", "target": {"ops": {"type": "chat", "id": "!r:hs"}}},
        }
    },
]


@pytest.mark.parametrize("entry", GOOD, ids=lambda entry: entry["type"])
def test_every_type_has_its_keys(entry: dict[str, Any]) -> None:
    """Each of them is taken."""
    assert () == read(file(c=entry)).refusals


def test_every_type_was_tried() -> None:
    """A type that is added is shown here."""
    assert set(FORMS) == {entry["type"] for entry in GOOD}


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ([], "must be an object"),
        ({}, "type must be one of matrix, telegram"),
        (MATRIX | {"type": "matrixx"}, "type must be one of"),
        (MATRIX | {"token": "s3cret"}, "token must not stand in the file: use token_env"),
        (MATRIX | {"tokn_env": "T"}, '"tokn_env" is no key of this type'),
        (MATRIX | {"token_file": "/t"}, "token_env and token_file exclude each other"),
        (MATRIX | {"token_env": "not a name"}, "token_env must be the name of a variable"),
        ({"type": "telegram", "token_file": "here"}, "token_file must be an absolute path"),
        ({"type": "matrix", "token_env": "T"}, "homeserver is missing"),
        ({"type": "matrix", "homeserver": "https://h"}, "token_env or token_file is missing"),
        (MATRIX | {"homeserver": "http://hs.example"}, "homeserver must be an https address"),
        (MATRIX | {"homeserver": "https://u:s3cret@hs"}, "must have no user, password"),
        (MATRIX | {"homeserver": "https://hs/?s3cret"}, "homeserver must have no query"),
        (MATRIX | {"msgtype": "m.image"}, "msgtype must be m.text or m.notice"),
        (MATRIX | {"format": "html"}, "format must be plain or markdown"),
        ({"type": "slack", "token_env": "T", "format": "markdown"}, "slack has no format markdown"),
        ({"type": "webhook", "secret_env": "S"}, "url, url_env or url_file is missing"),
        ({"type": "slack-webhook"}, "targets must be an object"),
        ({"type": "slack-webhook", "targets": {}}, "targets must name 1 to"),
        ({"type": "slack-webhook", "targets": {"a": {}}}, 'targets."a".url_env or url_file is'),
        ({"type": "slack-webhook", "targets": {"a": {"url": "s3cret"}}}, '"url" is no key of'),
        ({"type": "irc", "host": "h", "nick": "1bot"}, "nick must be an IRC nick"),
        ({"type": "irc", "host": "h", "nick": "b", "port": True}, "port must be a port"),
        ({"type": "irc", "host": "h", "nick": "b", "tls": "no"}, "tls must be true or false"),
        (MATRIX | {"webhooks": {"ci": {"secret_env": "S"}}}, "target must be an object"),
        (
            MATRIX | {"webhooks": {"ci": {"secret_env": "S", "target": {"x": {"type": "all"}}}}},
            "target must be {REF:",
        ),
    ],
)
def test_a_faulty_entry_is_told_in_a_sentence_and_costs_itself_alone(
    entry: Any, words: str
) -> None:
    """The sentence names the channel and the key, never a value."""
    found = read(file(bad=entry, ops=MATRIX))
    assert ["ops"] == [one.name for one in found.channels]
    (sentence,) = found.refusals
    assert sentence.startswith('channel "bad" is left out: ')
    assert words in sentence
    assert "s3cret" not in sentence


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"{}", 'must be {"v": 1'),
        (b'{"v": 2, "channels": {}}', 'must be {"v": 1'),
        (b'{"v": true, "channels": {}}', 'must be {"v": 1'),
        (b'{"v": 1, "channels": {}, "x": 1}', '"x" is no key'),
        (b'{"v": 1, "channels": {"a": {}, "a": {}}}', '"a" stands there twice'),
        (file(**{f"c{n}": MATRIX for n in range(101)}), "more than 100 channels"),
    ],
    ids=range(9),
)
def test_a_file_that_is_none_gives_one_sentence(data: bytes, words: str) -> None:
    """And no channel."""
    found = read(data)
    assert () == found.channels
    (sentence,) = found.refusals
    assert words in sentence


@pytest.mark.parametrize("name", ["", " ", "x" * 2049, "\ud800"])
def test_a_channel_needs_a_name(name: str) -> None:
    """One that a target could state."""
    assert 1 == len(read(file(**{name: MATRIX})).refusals)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(list(FORMS)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "targets", "url_env", "webhooks", "token_env", "homeserver"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(_JSON)
def test_any_json_gives_channels_or_sentences(value: Any) -> None:
    """Nothing raises."""
    found = read(file(c=value))
    assert 1 == len(found.channels) + len(found.refusals)


@pytest.mark.parametrize(
    ("url", "good"),
    [
        ("https://h.example/x", True),
        ("https://[::1]:8/x", True),
        ("http://[::1]/x", True),
        ("http://localhost:8", True),
        ("http://localhost.evil.example", False),
        ("ftp://h", False),
        ("https://", False),
        ("https://h:99999", False),
        ("https://h/a b", False),
        ("https://h/a\nb", False),
        ("https://h/x#y", False),
        ("https://hä", False),
        (7, False),
    ],
)
def test_what_an_address_is(url: object, good: bool) -> None:
    """Https, or this machine."""
    assert good is (address(url) == "")
