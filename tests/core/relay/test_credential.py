"""The credential: what is refused, what a rotation may do, and that no value is ever shown."""

import contextlib
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.errors import SettingsError
from agentconnect.core.relay import credential
from agentconnect.core.relay.credential import Credential, CredentialError, Secret

_GATEWAY = "https://gw.example/relay"
_VALUE = "k3y-s3cret"


def _refusal(**given_values: str) -> CredentialError:
    with pytest.raises(CredentialError) as caught:
        credential.build(**given_values)
    return caught.value


@given(st.text(), st.text(), st.text())
def test_any_text_is_a_credential_or_a_refusal(token: str, file: str, url: str) -> None:
    """Nothing but a CredentialError is ever raised."""
    with contextlib.suppress(CredentialError):
        credential.reload(credential.build(token=token, file_text=file, base_url=url), file)


@given(st.text())
def test_any_url_is_redacted(url: str) -> None:
    """Redaction never raises and is stable."""
    once = credential.redact_url(url)
    assert once == credential.UNPARSEABLE or "|" not in once


def test_a_secret_is_not_shown_by_anything() -> None:
    """Neither repr, str, format, a struct's repr nor pickle gives it away."""
    made = credential.build(token=f"{_GATEWAY}|{_VALUE}", source="environment")
    for shown in (repr(made), str(made), f"{made.secret}", repr(made.secret), repr([made.secret])):
        assert _VALUE not in shown
    with pytest.raises(TypeError):
        pickle.dumps(made.secret)
    assert made.secret.reveal() == _VALUE
    assert made.secret == Secret(_VALUE)
    assert hash(made.secret) == hash(Secret(_VALUE))


@pytest.mark.parametrize("secret", ["a b", "a\nb", "a\x00", "é", "a" * 4097, "\x7f"])
def test_a_bad_secret_cannot_reach_a_header_or_a_status_file(secret: str) -> None:
    """It is refused at start, by a sentence that does not quote it (★12)."""
    error = _refusal(token=f"{_GATEWAY}|{secret}")
    assert error.code == "bad_token"
    assert secret not in str(error)
    assert isinstance(error, SettingsError)


@pytest.mark.parametrize(
    "url",
    [
        "https://u:p@gw.example",
        "https://gw.example/r?x=1",
        "https://gw.example/r#f",
        "https://",
        "https://gw.example:port",
        "https://[::1",
        "https://gw exa/",
        "https://gw.example\\evil",
    ],
)
def test_a_gateway_that_would_lose_its_path_is_refused(url: str) -> None:
    """User info, query, fragment or no host: none of them works."""
    error = _refusal(token=f"{url}|{_VALUE}")
    assert error.code == "bad_gateway"
    assert "u:p" not in str(error)


@pytest.mark.parametrize(
    "address",
    [
        "ftp://gw.example",
        "HTTP+unix://gw",
        "ws://gw.example/relay",
        "https:/gw.example",
        "https:gw.example",
        "https//gw.example",
        "gw.example/relay",
        "gw.example:8443",
        "://gw.example",
        "<https://gw.example",
        "'https://gw.example",
        "",
    ],
)
@pytest.mark.parametrize("pipe", ["|", "%7C", "%7c"])
def test_a_token_whose_address_is_misspelt_is_told_how_one_begins(address: str, pipe: str) -> None:
    """Not "names no gateway": there is something where the address belongs."""
    error = _refusal(token=f"{address}{pipe}{_VALUE}")
    assert error.code in ("bad_gateway", "no_gateway")
    assert "must start with http:// or https://" in str(error)
    assert _VALUE not in str(error)
    assert "gw.example" not in str(error)


@pytest.mark.parametrize("token", [f"ftp://gw.example|{_VALUE}", f"https:/gw.example%7C{_VALUE}"])
def test_a_misspelt_address_never_becomes_the_secret(token: str) -> None:
    """Neither beside a gateway of its own nor by a rotation."""
    assert _refusal(token=token, base_url=_GATEWAY).code == "bad_gateway"
    current = Credential(gateway=_GATEWAY, secret=Secret(_VALUE))
    outcome = credential.reload(current, token)
    assert (outcome.rotated, outcome.credential) == (False, current)
    assert "http:// or https://" in outcome.refused


@pytest.mark.parametrize("base_url", ["ftp://gw.example", "gw.example/relay", "gw.example:8443"])
def test_a_separate_gateway_of_another_kind_is_told_how_one_begins(base_url: str) -> None:
    """The same sentence's middle, wherever the address came from."""
    error = _refusal(token=_VALUE, base_url=base_url)
    assert error.code == "bad_gateway"
    assert "http:// or https://" in str(error)


def test_a_bare_secret_may_hold_a_separator() -> None:
    """It is never split: with a gateway beside it, it is what it says."""
    made = credential.build(token="a|b:c", base_url=_GATEWAY)
    assert made.secret.reveal() == "a|b:c"


def test_our_own_name_comes_first_in_a_file() -> None:
    """A ``config.env`` given as the token file is not read as empty (★17)."""
    text = f"REMOTE_TASK_TOKEN=old\nAGENT_CONNECT_TOKEN={_GATEWAY}|{_VALUE}\n"
    assert credential.build(file_text=text).secret.reveal() == _VALUE


def test_spaces_round_the_equals_sign_do_not_become_the_secret() -> None:
    """The line is an assignment, with a warning that names no value (★17)."""
    found = credential.read_token_file(f"REMOTE_TASK_TOKEN = {_VALUE}\nFOO = bar\n")
    assert found.token.reveal() == _VALUE
    assert len(found.warnings) == 1
    assert _VALUE not in found.warnings[0]
    assert credential.read_token_file("FOO = bar\n").token.reveal() == ""


def test_plain_http_is_warned_about_unless_it_is_loopback() -> None:
    """The bearer would travel in clear text."""
    assert credential.build(token=f"http://gw.example|{_VALUE}").warnings
    for host in ("127.0.0.1:8080", "localhost", "[::1]:9"):
        assert not credential.build(token=f"http://{host}/relay|{_VALUE}").warnings


def test_a_separate_gateway_that_differs_is_warned_about() -> None:
    """The one that came with the token wins."""
    made = credential.build(token=f"{_GATEWAY}|{_VALUE}", base_url="https://other.example")
    assert made.gateway == _GATEWAY
    assert len(made.warnings) == 1
    assert not credential.build(token=f"{_GATEWAY}|{_VALUE}", base_url=_GATEWAY + "/").warnings


def test_a_refused_move_names_components_and_no_value() -> None:
    """The log says what differs, never what it is."""
    current = Credential(gateway=_GATEWAY, secret=Secret(_VALUE))
    outcome = credential.reload(current, "https://u:p@gw.example:9/Relay?t=1#x|new-one")
    assert not outcome.rotated
    assert "user info, host" not in outcome.refused
    for name in ("user info", "port", "path", "query", "fragment"):
        assert name in outcome.refused
    for value in ("u:p", "Relay", "new-one", "t=1"):
        assert value not in outcome.refused


@pytest.mark.parametrize("text", [f"{_GATEWAY}|a b", f"{_GATEWAY}|https://x.example/y"])
def test_a_rotation_to_an_unusable_secret_is_refused(text: str) -> None:
    """The old one stays."""
    current = Credential(gateway=_GATEWAY, secret=Secret(_VALUE))
    outcome = credential.reload(current, text)
    assert (outcome.rotated, outcome.credential) == (False, current)
    assert outcome.refused


def test_a_missing_file_is_no_rotation() -> None:
    """Unreadable counts as "nothing to apply"."""
    current = Credential(gateway=_GATEWAY, secret=Secret(_VALUE))
    assert credential.reload(current, None) == credential.Reload(credential=current)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://u:p@[2001:DB8::1]:8443/r?x", "https://[2001:db8::1]:8443/r"),
        ("what?token=abc", "what"),
        ("u:p@host/path", credential.UNPARSEABLE),
        ("https:/u:p@host/path", credential.UNPARSEABLE),
        (f"{_GATEWAY}|{_VALUE}", _GATEWAY),
        (f"{_GATEWAY}%7C{_VALUE}", _GATEWAY),
        (f"https://gw.example|{_VALUE}", credential.UNPARSEABLE),
        (None, credential.UNPARSEABLE),
    ],
)
def test_a_redacted_url_holds_no_secret(url: object, expected: str) -> None:
    """Not even where an onboarding string was taken for a URL."""
    assert credential.redact_url(url) == expected
