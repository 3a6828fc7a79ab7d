"""``_ag2/deliver`` and ``_ag2/notify`` as they arrive: every row of §6, and hostile bytes."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.delivery.ledger import BindingId
from agentconnect.core.delivery.request import (
    DeliverRequest,
    Invalid,
    NotifyRequest,
    fingerprint,
    is_binding,
    read_deliver,
    read_notify,
)
from agentconnect.core.destination import units

WORKER = "9f86d081884c7d659a2feaa0c55ad015"
TEXT = "Nightly build is green."
BINDING = f"{WORKER}.00112233445566778899aabbccddeeff"
URI = f"file:///w/export/{BINDING}/report.pdf"


def params(**changes: Any) -> bytes:
    """A good request with members changed; ``...`` takes one away."""
    plain: dict[str, Any] = {
        "id": "build-4711",
        "binding": BINDING,
        "text": "Nightly build is green.",
    }
    plain.update(changes)
    return json.dumps({name: v for name, v in plain.items() if v is not ...}).encode()


def read(**changes: Any) -> DeliverRequest:
    found = read_deliver(params(**changes))
    assert isinstance(found, DeliverRequest), found
    return found


def refused(**changes: Any) -> str:
    found = read_deliver(params(**changes))
    assert isinstance(found, Invalid), found
    assert found.detail.startswith(found.field)
    return found.field


def test_the_example_of_the_specification() -> None:
    """Id, binding, text and a file with a name and a type."""
    found = read(files=[{"uri": URI, "name": "report.pdf", "mimeType": "application/pdf"}])
    assert ("build-4711", BINDING) == (found.id, found.binding)
    assert TEXT == found.text
    (file,) = found.files
    assert (URI, "report.pdf", "application/pdf") == (file.uri, file.name, file.mime)
    assert f"/w/export/{BINDING}/report.pdf".encode() == file.path


@pytest.mark.parametrize("good", ["x", "é" * 256, "😀" * 256, "a b", "a\u2028b", '",0]', "任务"])
def test_ids_are_any_characters(good: str) -> None:
    """1 to 256 of them, kept as they are; a character is one code point."""
    assert good == read(id=good).id


@pytest.mark.parametrize(
    "bad",
    [..., None, "", "x" * 257, "a\nb", "a\x00", "a\x7f", "a\x85", "\ud800", "a\udfffb", 1, ["x"]],
)
def test_bad_ids(bad: Any) -> None:
    """Missing, empty, too long, with control characters or half a character, no string."""
    assert "id" == refused(id=bad)


@pytest.mark.parametrize("bad", [..., None, "", "x" * 129, "a/b", "a b", "é", "a\n", 7])
def test_bad_bindings(bad: Any) -> None:
    """1 to 128 of ``[0-9A-Za-z._-]``, and required."""
    assert "binding" == refused(binding=bad)


@pytest.mark.parametrize("good", ["x", "x" * 128, "A.b_c-9", "..", "-"])
def test_good_bindings(good: str) -> None:
    """Any of them is a name; whose it is comes later."""
    assert good == read(binding=good).binding
    assert is_binding(good)


def test_text_is_measured_in_utf16() -> None:
    """At most 100,000 code units, of which an emoji takes two."""
    assert read(text="x" * 100_000).speaks
    assert read(text="😀" * 50_000).speaks
    assert "text" == refused(text="x" * 100_001)
    assert "text" == refused(text="😀" * 50_001)


@pytest.mark.parametrize("blank", [..., None, "", "  \n\t", "\u2003"])
def test_without_files_the_text_has_to_say_something(blank: Any) -> None:
    """With files it may be missing, and a blank one is no part."""
    assert "text" == refused(text=blank)
    assert not read(text=blank, files=[{"uri": URI}]).speaks


@pytest.mark.parametrize("bad", [7, ["x"], {}, True, "\ud83d"])
def test_bad_texts(bad: Any) -> None:
    """No string, or half a character."""
    assert "text" == refused(text=bad)


def test_at_most_ten_files() -> None:
    """Ten are taken in their order, eleven are not."""
    uris = [f"{URI}{number}" for number in range(11)]
    taken = read(files=[{"uri": uri} for uri in uris[:10]])
    assert uris[:10] == [file.uri for file in taken.files]
    assert "files" == refused(files=[{"uri": uri} for uri in uris])


@pytest.mark.parametrize(
    ("file", "field"),
    [
        ("x", "files[0]"),
        ({}, "files[0].uri"),
        ({"uri": None}, "files[0].uri"),
        ({"uri": 7}, "files[0].uri"),
        ({"uri": "/w/report.pdf"}, "files[0].uri"),
        ({"uri": "http://h/report.pdf"}, "files[0].uri"),
        ({"uri": "file://other/w/x"}, "files[0].uri"),
        ({"uri": "file:relative"}, "files[0].uri"),
        ({"uri": "file://"}, "files[0].uri"),
        ({"uri": "file:///"}, "files[0].uri"),
        ({"uri": "file:///a%00b"}, "files[0].uri"),
        ({"uri": "file:///a?b"}, "files[0].uri"),
        ({"uri": "file:///a#b"}, "files[0].uri"),
        ({"uri": "file:///\ud800"}, "files[0].uri"),
        ({"uri": "file:///" + "x" * 16_384}, "files[0].uri"),
        ({"uri": URI, "name": "a/b"}, "files[0].name"),
        ({"uri": URI, "name": "x" * 256}, "files[0].name"),
        ({"uri": URI, "name": "\udc00"}, "files[0].name"),
        ({"uri": URI, "name": 1}, "files[0].name"),
        ({"uri": URI, "mimeType": "\ud800"}, "files[0].mimeType"),
        ({"uri": URI, "mimeType": []}, "files[0].mimeType"),
    ],
)
def test_bad_files(file: Any, field: str) -> None:
    """The field is named with its place."""
    assert field == refused(files=[file])


@pytest.mark.parametrize("bad", ["x", 1, {"uri": URI}])
def test_files_are_a_list(bad: Any) -> None:
    """Nothing else is."""
    assert "files" == refused(files=bad)


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///a/b", b"/a/b"),
        ("FILE:///a/b", b"/a/b"),
        ("file://localhost/a", b"/a"),
        ("file://LOCALHOST/a", b"/a"),
        ("file:///a%20b%2Fc", b"/a b/c"),
        ("file:///a%2520b", b"/a%20b"),
        ("file:///a/%2e%2e/b", b"/a/../b"),
        ("file:///%ff", b"/\xff"),
        ("file:////etc/x", b"//etc/x"),
        ("file:///grün", "/grün".encode()),
    ],
)
def test_an_address_is_decoded_once(uri: str, path: bytes) -> None:
    """What it leads to is judged elsewhere, on the opened descriptor."""
    assert path == read(files=[{"uri": uri}]).files[0].path


@pytest.mark.parametrize(
    ("name", "mime", "shown"),
    [
        (None, None, "report.pdf"),
        ("", None, "report.pdf"),
        ("Bericht.pdf", "text/plain", "Bericht.pdf"),
        ("Bericht", "application/pdf", "Bericht.pdf"),
        ("Bericht", "text/plain; charset=utf-8", "Bericht.txt"),
        ("Bericht", "x/unheard-of", "Bericht"),
        (".hidden", "image/png", ".hidden.png"),
    ],
)
def test_the_name_shown(name: str | None, mime: str | None, shown: str) -> None:
    """The agent's, else the file's own; a type only lends an extension to a name without one."""
    assert shown == read(files=[{"uri": URI, "name": name, "mimeType": mime}]).files[0].shown_name


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"7",
        b"{",
        b"\xff",
        b'{"id":"\xff"}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"1" * 100_000,
        b'{"x":' + b"9" * 10_000 + b"}x",
    ],
)
def test_hostile_params(raw: bytes) -> None:
    """Whatever it is, it is refused in a sentence."""
    found = read_deliver(raw)
    assert isinstance(found, Invalid)
    assert "params" == found.field


def test_a_member_that_is_there_twice_is_refused() -> None:
    """Which one was meant is anybody's guess; among ignored members it does not matter."""
    twice = params()[:-1] + b', "id": "other"}'
    found = read_deliver(twice)
    assert isinstance(found, Invalid)
    assert "id" == found.field
    assert isinstance(
        read_deliver(params()[:-1] + b', "x": 1, "x": {"y":2,"y":3}}'), DeliverRequest
    )


def test_unknown_members_are_ignored() -> None:
    """Huge numbers, deep values and other types among them."""
    raw = params()[:-1] + b', "later": {"a": [1, 1e999, ' + b"9" * 5000 + b"]}}"
    assert isinstance(read_deliver(raw), DeliverRequest)


def test_the_fingerprint_tells_content_apart() -> None:
    """Binding, text, files, their order, names and types; not what is ignored."""
    file = {"uri": URI, "name": "a", "mimeType": "b"}
    prints = [
        read().fingerprint,
        read(text="Nightly build is red.").fingerprint,
        read(binding=BINDING + "0").fingerprint,
        read(files=[file]).fingerprint,
        read(files=[{**file, "name": None}]).fingerprint,
        read(files=[{**file, "mimeType": None}]).fingerprint,
        read(files=[{**file, "name": "b", "mimeType": "a"}]).fingerprint,
        read(files=[file, {"uri": URI}]).fingerprint,
        read(files=[{"uri": URI}, file]).fingerprint,
        read(text=None, files=[file]).fingerprint,
        read(text="", files=[file]).fingerprint,
    ]
    assert len(prints) == len(set(prints))
    assert prints[0] == read(later=1).fingerprint == read(files=[]).fingerprint


def test_the_fingerprint_is_sha256_of_canonical_json() -> None:
    """Of ``[binding, text, [[uri, name, mimeType]…]]``, null for what is absent."""
    plain = f'["b","é",[["{URI}",null,"x"]]]'
    assert hashlib.sha256(plain.encode()).hexdigest() == fingerprint("b", "é", ((URI, None, "x"),))


def test_notify() -> None:
    """A destination and a text that says something."""
    good = json.dumps({"destination": BINDING, "text": "hello"}).encode()
    assert NotifyRequest(destination=BindingId(BINDING), text="hello") == read_notify(good)
    for changed, field in [
        ({"destination": "a/b", "text": "x"}, "destination"),
        ({"text": "x"}, "destination"),
        ({"destination": BINDING}, "text"),
        ({"destination": BINDING, "text": " "}, "text"),
        ({"destination": BINDING, "text": "\ud800"}, "text"),
        ({"destination": BINDING, "text": "x" * 100_001}, "text"),
    ]:
        found = read_notify(json.dumps(changed).encode())
        assert isinstance(found, Invalid)
        assert field == found.field


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
MEMBERS = st.sampled_from(["id", "binding", "text", "files", "uri", "name", "mimeType", "x"])


@given(st.dictionaries(MEMBERS, JSON | st.sampled_from([BINDING, "x", [{"uri": URI}]])))
def test_any_json_is_a_request_or_a_refusal(plain: dict[str, Any]) -> None:
    """And what is taken keeps every rule."""
    found = read_deliver(json.dumps(plain).encode())
    if isinstance(found, Invalid):
        assert found.field
        return
    assert 1 <= len(found.id) <= 256
    assert is_binding(found.binding)
    assert found.speaks or found.files
    assert units(found.text or "") <= 100_000
    found.fingerprint.encode("ascii")


@given(st.binary(max_size=300))
def test_any_bytes_are_refused(raw: bytes) -> None:
    """Nothing raises, and nothing of the bytes is quoted."""
    for found in (read_deliver(raw), read_notify(raw)):
        assert isinstance(found, Invalid)
        assert found.detail.isascii()


@given(st.text(st.characters()))
def test_utf16_units_are_those_of_the_encoding(text: str) -> None:
    """Also for text that holds half characters."""
    assert len(text.encode("utf-16-le", "surrogatepass")) // 2 == units(text)
