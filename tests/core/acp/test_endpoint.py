"""Which addresses of a running agent may be dialled, and how paths elsewhere are read."""

import pytest

from agentconnect.core.acp.endpoint import endpoint, lexical, remote_cwd, usable_token
from agentconnect.core.errors import SettingsError


@pytest.mark.parametrize(
    ("url", "shown", "resource"),
    [
        ("ws://localhost:8080/acp", "ws://localhost:8080/acp", "/acp"),
        ("WS://LOCALHOST", "ws://localhost", "/"),
        ("ws://127.0.0.1:80/a?key=1", "ws://127.0.0.1/a", "/a?key=1"),
        ("wss://[::1]:9000", "wss://[::1]:9000/", "/"),
        (" wss://localhost:443/x ", "wss://localhost/x", "/x"),
    ],
)
def test_this_machine_may_be_dialled(url: str, shown: str, resource: str) -> None:
    """With or without TLS; what is shown never holds the query."""
    found = endpoint(url, allow_remote=False)
    assert found.loopback
    assert (shown.rstrip("/"), resource) == (found.shown.rstrip("/"), found.resource)


@pytest.mark.parametrize(
    ("url", "remote", "words"),
    [
        ("http://localhost", True, "ws:// or wss://"),
        ("localhost:80", True, "ws:// or wss://"),
        ("ws://user:pw@localhost", True, "AGENT_CONNECT_ACP_TOKEN"),
        ("wss://key@agents.test/x", True, "AGENT_CONNECT_ACP_TOKEN"),
        ("ws:///acp", True, "no host"),
        ("ws://localhost:99999", True, "no usable URL"),
        ("ws://localhost:0", True, "port 0"),
        ("ws://localhost/a b", True, "no URL has"),
        ("ws://localhost/a\r\nX: y", True, "no URL has"),
        ("wss://agents.test/x", False, "AGENT_CONNECT_ACP_ALLOW_REMOTE"),
        ("wss://127.0.0.2/x", False, "AGENT_CONNECT_ACP_ALLOW_REMOTE"),
        ("ws://localhost.agents.test", False, "AGENT_CONNECT_ACP_ALLOW_REMOTE"),
        ("ws://agents.test/x", True, "wss://"),
    ],
)
def test_what_is_not_dialled(url: str, remote: bool, words: str) -> None:
    """Each refusal says what to change, and never repeats a password."""
    with pytest.raises(SettingsError) as caught:
        endpoint(url, allow_remote=remote)
    assert words in str(caught.value)
    assert "pw" not in str(caught.value)
    assert "key@" not in str(caught.value)


def test_another_machine_only_over_tls_and_when_allowed() -> None:
    """The opt-out of loopback."""
    found = endpoint("wss://agents.test:8443/acp?x=1", allow_remote=True)
    assert not found.loopback
    assert ("agents.test:8443", 8443, True) == (found.authority, found.port, found.secure)


def test_a_command_beside_it_is_a_conflict() -> None:
    """Named both; there is no falling back from one to the other."""
    with pytest.raises(SettingsError) as caught:
        endpoint("ws://localhost", allow_remote=False, command=True)
    assert "AGENT_CONNECT_ACP_URL" in str(caught.value)
    assert "AGENT_CONNECT_ACP_COMMAND" in str(caught.value)


def test_the_directory_that_is_sent() -> None:
    """Ours unless it is set; absolute on either kind of machine."""
    assert "/ours" == remote_cwd("", "/ours")
    assert "/srv/app" == remote_cwd("/srv/app/", "/ours")
    assert "/" == remote_cwd("/", "/ours")
    assert r"C:\work" == remote_cwd(r"C:\work", "/ours")
    with pytest.raises(SettingsError, match="absolute"):
        remote_cwd("srv", "/ours")


@pytest.mark.parametrize(
    ("target", "real"),
    [
        ("a/b", "/root/a/b"),
        ("/root/../etc", "/etc"),
        ("../x", "/x"),
        ("file:///root/a%20b", "/root/a b"),
        ("file://host/x", None),
        ("file:///%ff", None),
        ("~/x", None),
        ("", None),
        ("a\0b", None),
    ],
)
def test_paths_of_another_machine_are_read_as_text(target: str, real: str | None) -> None:
    """Nobody's home, nobody's links."""
    assert real == lexical(target, "/root")


def test_what_a_header_carries() -> None:
    """Printable ASCII without blanks."""
    assert usable_token("abc.DEF-1|2")
    assert not any(map(usable_token, ("a b", "a\r\nb", "ä", "\x00")))
