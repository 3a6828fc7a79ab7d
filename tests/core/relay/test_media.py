"""The inbound media marker: stripping, hints, and where the bearer may go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.relay import media
from agentconnect.core.relay.media import Stripped, is_listed, is_public

_BASE = "https://gw.example/relay"
_PIECES = st.sampled_from(
    ["[ag2space-media:", "[ag2space-", "media:", "]", " ", "\n", "u", "name=", "size=9", "\u00a0"]
)


@given(st.lists(_PIECES, max_size=50).map("".join))
def test_stripping_again_finds_nothing(text: str) -> None:
    """No marker and no URL ever reaches a consumer."""
    body = media.read_media(text).body
    assert media.read_media(body) == Stripped(body)


@given(st.text())
def test_text_without_the_tag_is_returned_untouched(text: str) -> None:
    """Not even stripped."""
    if "[ag2space-media:" not in text:
        assert media.read_media(text) == Stripped(text)


@pytest.mark.parametrize(
    "path",
    [
        "/relay/%2e%2e/admin",
        "/relay/%2E./x",
        "/relay/%252e%252e/x",
        "/relay/a%2fb",
        "/relay/a%5cb",
        "/relay/a\\b",
        "/relay/./x",
        "/relay//x",
        "/relay/x/",
        "/relay/%00",
        "/relay/a%0ab",
        "/relay/%c0%ae%c0%ae/x",
        "/relayx",
        "/relay/é",
        "/relay/ x",
    ],
)
def test_the_bearer_is_not_sent_to_an_encoded_way_out(path: str) -> None:
    """What a proxy might decode to somewhere else is not under base (★4b)."""
    assert media.origin(f"https://gw.example{path}", _BASE)[1] is False


@pytest.mark.parametrize(
    "url",
    [
        "https://user@gw.example/relay/x",
        "https://gw.example@evil.example/relay/x",
        "https://gw.example\\@evil.example/relay/x",
        "https://gw.example:444/relay/x",
        "https://gw.exa\tmple/relay/x",
        "//gw.example/relay/x",
        None,
    ],
)
def test_the_bearer_is_not_sent_to_a_lookalike(url: object) -> None:
    """User info, other ports and characters that parsers drop are refused."""
    assert media.origin(url, _BASE)[1] is False


@pytest.mark.parametrize(
    "url",
    [_BASE, f"{_BASE}/v1/media/h%3A8448/a", "https://GW.EXAMPLE:443/relay/m?x=1", f"{_BASE}/a%20b"],
)
def test_the_gateways_own_urls_are_under_base(url: str) -> None:
    """Percent-encoded server names and queries are ordinary."""
    assert media.origin(url, _BASE) == (True, True)


def test_a_gateway_at_the_root_of_a_host() -> None:
    """Everything on that host is under it, dot segments still not."""
    assert media.origin("https://gw.example/v1/media/h/a", "https://gw.example") == (True, True)
    assert media.origin("https://gw.example/../a", "https://gw.example") == (True, False)


@given(st.text(), st.text())
def test_no_url_raises(url: str, base: str) -> None:
    """Any text is judged."""
    media.origin(url, base)


@given(st.text(), st.text())
def test_a_name_on_disk_is_always_plain(name: str, mime: str) -> None:
    """One path piece of safe characters, whatever the hints were."""
    stem, extension = media.on_disk(name, mime)
    assert stem
    assert set(stem) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
    assert extension == "" or extension[1:].isalnum()


def test_a_size_in_other_digits_is_no_size() -> None:
    """Only ASCII digits count, and only below 2^62."""
    for size in ("٣", "4611686018427387904", "9" * 5000):
        assert media.read_media(f"[ag2space-media: u size={size}]").markers[0].size == 0


def test_half_a_character_in_a_marker_is_replaced() -> None:
    """Nothing unencodable is handed on."""
    (marker,) = media.read_media("[ag2space-media: u\ud800 name=\udfff]").markers
    assert (marker.url, marker.name) == ("u\ufffd", "\ufffd")


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.1", "172.16.5.4", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "0.0.0.0", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0",
        "fc00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1",
        "2002:7f00:1::", "2001:0:53aa:64c::80ff:fffe", "localhost", "", "not an address",
    ],
)  # fmt: skip
def test_no_inner_address_is_public(address: str) -> None:
    """Loopback, private, link-local and metadata addresses, in every wrapping (★4c)."""
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "64:ff9b::808:808"])
def test_an_address_of_the_open_network_is_public(address: str) -> None:
    """What an owner lists can be fetched."""
    assert is_public(address)


def test_only_listed_origins_are_fetched_besides_the_relay() -> None:
    """Scheme, host and port must agree; a name that merely begins alike is another one."""
    origins = ("https://files.example", "http://h:8080")
    for url in ("https://files.example/a", "https://FILES.example:443/b?c", "http://h:8080/"):
        assert is_listed(url, origins)
    for url in (
        "http://files.example/a",
        "https://files.example.evil/a",
        "https://files.example@evil/a",
        "https://user@files.example/a",
        "https://files.example:444/a",
        "http://h/",
        "https://files.example\\@evil/",
        "",
    ):
        assert not is_listed(url, origins)
    assert not is_listed("https://files.example/a", ())
