"""The inbound media marker: stripping, hints, and where the bearer may go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.relay import media

_BASE = "https://gw.example/relay"
_PIECES = st.sampled_from(
    ["[ag2space-media:", "[ag2space-", "media:", "]", " ", "\n", "u", "name=", "size=9", "\u00a0"]
)


@given(st.lists(_PIECES, max_size=50).map("".join))
def test_stripping_again_finds_nothing(text: str) -> None:
    """No marker and no URL ever reaches a consumer."""
    body, _ = media.strip_media(text)
    assert media.strip_media(body) == (body, ())


@given(st.text())
def test_text_without_the_tag_is_returned_untouched(text: str) -> None:
    """Not even stripped."""
    if "[ag2space-media:" not in text:
        assert media.strip_media(text) == (text, ())


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
    media.is_fetchable(url)
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
        assert media.strip_media(f"[ag2space-media: u size={size}]")[1][0].size == 0


def test_half_a_character_in_a_marker_is_replaced() -> None:
    """Nothing unencodable is handed on."""
    (marker,) = media.strip_media("[ag2space-media: u\ud800 name=\udfff]")[1]
    assert (marker.url, marker.name) == ("u\ufffd", "\ufffd")
