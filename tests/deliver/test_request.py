"""What may be delivered: the rules of section 6, refused in words before anything is stored."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.deliver import Destination, File, InvalidDeliveryError, Outbox
from agentconnect.deliver.request import request
from tests.deliver.support import BINDING

REFUSED = {
    "no id": ("id", {"id": ""}),
    "a long id": ("id", {"id": "x" * 257}),
    "an id that is no text": ("id", {"id": 7}),
    "a control character": ("id", {"id": "a\nb"}),
    "a C1 control character": ("id", {"id": "a\x85b"}),
    "half a character in the id": ("id", {"id": "\ud800"}),
    "no binding": ("binding", {"binding": ""}),
    "a long binding": ("binding", {"binding": "a" * 129}),
    "a binding with a slash": ("binding", {"binding": "../x"}),
    "a binding with a line end": ("binding", {"binding": "a.b\n"}),
    "nothing to say": ("text", {"text": None}),
    "only blanks": ("text", {"text": " \n\t"}),
    "text that is none": ("text", {"text": 5}),
    "half a character": ("text", {"text": "a\udfff"}),
    "long text": ("text", {"text": "x" * 100_001}),
    "long text by UTF-16": ("text", {"text": "😀" * 50_001}),
    "one file instead of a list": ("files", {"files": "/tmp/x"}),
    "eleven files": ("files", {"files": ["file:///x"] * 11}),
    "a relative path": ("files", {"files": ["report.pdf"]}),
    "another host": ("files", {"files": ["file://host/x"]}),
    "another scheme": ("files", {"files": ["https://x/y"]}),
    "a relative URI": ("files", {"files": ["file:x"]}),
    "a URI with a query": ("files", {"files": ["file:///x?y"]}),
    "NUL in the path": ("files", {"files": ["file:///x%00y"]}),
    "dots that lead up": ("files", {"files": ["file:///x/%2e%2e/y"]}),
    "no such file": ("files", {"files": ["/nowhere/at/all"]}),
    "an empty name": ("name", {"files": [File("file:///x", name="")]}),
    "a name with a slash": ("name", {"files": [File("file:///x", name="a/b")]}),
    "a long name": ("name", {"files": [File("file:///x", name="n" * 256)]}),
    "half a character in a name": ("name", {"files": [File("file:///x", name="\udc80")]}),
    "half a character in a type": ("mime_type", {"files": [File("file:///x", mime_type="\udc80")]}),
    "a file that is a number": ("files", {"files": [3]}),
}


@pytest.mark.parametrize(("field", "change"), REFUSED.values(), ids=REFUSED)
def test_a_broken_rule_names_its_field(
    outbox: Outbox, field: str, change: dict[str, object]
) -> None:
    """Each broken rule is an error that names the field, and nothing is stored."""
    given = {"id": "x", "binding": BINDING, "text": "hello", **change}
    with pytest.raises(InvalidDeliveryError, match=field):
        outbox.put(**given)  # type: ignore[arg-type]
    assert [] == outbox.entries()


def test_the_limits_themselves_are_allowed() -> None:
    """The longest id, text and list of files pass."""
    files = [File("file://localhost/x", name="n" * 255)] * 10
    asked = request("i" * 256, "b" * 128, "😀" * 50_000, files)
    assert 11 == asked.parts


def test_a_blank_text_beside_files_is_no_part() -> None:
    """Both ends must count the same parts, so a text that shows nothing is not sent."""
    asked = request("x", BINDING, "  ", ["file:///x"])
    assert 1 == asked.parts
    assert "text" not in json.loads(asked.params)


def test_a_path_becomes_a_uri(tmp_path: Path) -> None:
    """A path with spaces, a percent sign and letters beyond ASCII comes back from its URI."""
    file = tmp_path / "ein Bericht 100% ü.txt"
    file.write_text("x")
    asked = request("x", Destination(BINDING, tmp_path), None, [File(file, "b.txt", "text/plain")])
    (told,) = json.loads(asked.params)["files"]
    assert told == {"uri": file.as_uri(), "name": "b.txt", "mimeType": "text/plain"}
    again = request(
        "x", Destination(BINDING, tmp_path), None, [File(told["uri"], "b.txt", "text/plain")]
    )
    assert asked == again


def test_files_outside_the_folder_are_refused(tmp_path: Path) -> None:
    """With a destination, only ordinary files of its own folder pass, as the client takes them."""
    inside, outside = tmp_path / "in", tmp_path / "out.txt"
    inside.mkdir()
    outside.write_text("x")
    (inside / "link").symlink_to(outside)
    (inside / "good").write_text("x")
    (inside / "alias").symlink_to(inside / "good")
    os.link(outside, inside / "hard")
    os.mkfifo(inside / "pipe")
    (inside / "folder").mkdir()
    to = Destination(BINDING, inside)
    for name in ("link", "alias", "hard", "pipe", "folder", "missing"):
        for where in (inside / name, (inside / name).as_uri()):
            with pytest.raises(InvalidDeliveryError, match=name):
                request("x", to, None, [where])
    for where in (outside, inside, outside.as_uri()):
        with pytest.raises(InvalidDeliveryError, match="files"):
            request("x", to, None, [where])
    assert 1 == request("x", to, None, [inside / "good"]).parts


_WHOLE = st.characters(exclude_categories=["Cs"])
_IDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=256)
_FILES = st.builds(
    File,
    st.text(_WHOLE).map(lambda name: f"file:///x/{name.encode().hex()}"),
    st.none()
    | st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="/"), min_size=1, max_size=255
    ),
    st.none() | st.text(_WHOLE, max_size=80),
)


@given(
    ident=_IDS,
    binding=st.from_regex(r"\A[0-9A-Za-z._-]{1,128}\Z"),
    text=st.text(_WHOLE, min_size=1).filter(str.strip),
    files=st.lists(_FILES, max_size=10),
)
def test_what_is_stored_is_what_was_given(
    tmp_path_factory: pytest.TempPathFactory, ident: str, binding: str, text: str, files: list[File]
) -> None:
    """Every allowed delivery comes out of a reopened file exactly as it went in."""
    path = tmp_path_factory.mktemp("box") / "outbox.db"
    with Outbox(path) as writer:
        assert writer.put(ident, binding, text, files)
        assert not writer.put(ident, binding, text, files)
    with Outbox(path) as reader:
        claim = reader.claim("me")
    assert claim is not None
    params = claim.params
    assert (ident, binding, text) == (params["id"], params["binding"], params["text"])
    assert [(f.where, f.name, f.mime_type) for f in files] == [
        (f["uri"], f.get("name"), f.get("mimeType")) for f in params.get("files", [])
    ]
    assert len(files) + 1 == claim.parts
