"""A megabyte of any hostile shape costs four times what a quarter of it does (★2)."""

import contextlib
from collections.abc import Callable

import pytest

from agentconnect.core.errors import SettingsError
from agentconnect.core.relay import credential, envelope, markers, media, text_out
from agentconnect.core.turns.wording import inert
from tests.support.growth import assert_linear


def _fill(piece: str) -> Callable[[int], str]:
    return lambda size: piece * (size // len(piece))


def _nested(size: int) -> str:
    half = size // 20
    return "[ag2space-" * half + "[ag2space-media: q]" + "media: q]" * half


def _growing_runs(size: int) -> str:
    return " ".join("`" * length for length in range(1, int((2 * size) ** 0.5))) + " [file: a]"


_TAIL = "\n[dm-only]\n`x [file: a] [file: "
_SHAPES: dict[str, Callable[[int], str]] = {
    "spaces and a media tag": lambda size: " " * size + "[ag2space-media: x]",
    "spaces and a metadata tag": lambda size: " " * size + "[room-ops metadata: x]",
    "spaces and a skip": lambda size: " " * size + "[no-send",
    "open media tags": _fill("[ag2space-media: "),
    "media tags": _fill("[ag2space-media: x y=1] "),
    "attributes": lambda size: "[ag2space-media: u " + "name= " * (size // 6) + "]",
    "nested media tags": _nested,
    "open metadata tags": _fill("[room-ops metadata:"),
    "metadata tags": _fill("  [room-ops metadata: x]"),
    "open file tags": _fill("[file: "),
    "file tags": _fill("[file: a]"),
    "file tags by line": _fill("[file: \n"),
    "file tags in one span": lambda size: "`` " + "[file: " * (size // 7) + "]``",
    "described files": lambda size: "[file: <" * (size // 8) + ">]",
    "a run of backticks": lambda size: "`" * size + _TAIL,
    "runs of backticks": _fill("` ``  ``` "),
    "growing runs": _growing_runs,
    "line breaks": lambda size: "\n" * size + _TAIL,
    "CR LF": lambda size: "\r\n" * (size // 2) + _TAIL,
    "short lines": lambda size: "a\n" * (size // 2) + _TAIL,
    "fences": lambda size: "```\n" * (size // 4) + _TAIL,
    "quoted fences": lambda size: "> ```\n" * (size // 6) + _TAIL,
    "indented lines": lambda size: "    a\n" * (size // 6) + _TAIL,
    "dm markers": _fill("  [dm-only] \n"),
    "a redirect and spaces": lambda size: "[channel: !a:b]" + " \n" * (size // 2) + "x",
    "open valued tags": _fill("[channel: ] [deduped: "),
    "cuts that reveal": _fill("[file: ` \n[file: a]"),
}


@pytest.mark.parametrize("shape", _SHAPES)
def test_an_answer_of_a_hostile_shape_is_parsed_in_linear_time(shape: str) -> None:
    """REF needed 176 s for 140 KB of open file tags."""
    assert_linear(markers.parse, _SHAPES[shape])


@pytest.mark.parametrize("shape", _SHAPES)
def test_a_message_of_a_hostile_shape_is_read_in_linear_time(shape: str) -> None:
    """REF needed 55 s for 60 KB, on the thread that polls."""
    assert_linear(envelope.read_body, _SHAPES[shape])


@pytest.mark.parametrize("shape", _SHAPES)
def test_the_smaller_readings_are_linear_too(shape: str) -> None:
    """Guarding, making inert and cutting into pieces."""

    def work(text: str) -> None:
        media.read_media(text)
        inert(text)
        markers.guard_prepared(text)
        text_out.chunks(text)

    assert_linear(work, _SHAPES[shape])


@pytest.mark.parametrize(
    "piece", ['"a":', "[", '{"a":', "\\ud83d", '"', '\\"', '{"id":"a","id":', "9"]
)
def test_a_batch_of_a_hostile_shape_is_read_in_linear_time(piece: str) -> None:
    """Deep nesting, half escapes and open strings."""

    def work(text: str) -> None:
        envelope.decode_batch(('{"tasks":[{"id":"q","x":' + text).encode())
        closed = text.replace('"', "").replace("\\", "\\\\")
        envelope.decode_batch(('{"tasks":[{"id":"q","task":"' + closed + '"}]}').encode())

    assert_linear(work, _fill(piece))


@pytest.mark.parametrize(
    "piece",
    [
        "|",
        "%7c",
        "%7",
        "https://",
        "https:",
        "a",
        "a.",
        " ",
        "export ",
        "A=",
        "A =\n",
        "==",
        "'",
        "@",
        "[",
        "\r",
        "?#",
    ],
)
def test_a_credential_of_a_hostile_shape_is_read_in_linear_time(piece: str) -> None:
    """Token, file, address and what may be shown of it."""

    def work(text: str) -> None:
        for given in (text, f"https://h|{text}", f"https://{text}|s", f"{text}://h|s"):
            with contextlib.suppress(SettingsError):
                made = credential.build(token=given, file_text=given, base_url=given)
                credential.reload(made, text)
        credential.redact_url(text)
        credential.redact_url(f"https://h/{text}")
        credential.gateway_difference(f"https://{text}", "https://h")

    assert_linear(work, _fill(piece))


@pytest.mark.parametrize("piece", ["@a:h, ", "@a:[1", "@", "@a", ":", "a@b:c.", "@a:h:1", "."])
def test_a_roster_of_a_hostile_shape_is_read_in_linear_time(piece: str) -> None:
    """Members of a room, as one string or as a list, and whom to mention."""

    def work(text: str) -> None:
        envelope.parse_task({"id": "q", "room_members": text})
        envelope.parse_task({"id": "q", "room_members": [text, "@" + text, "@a:" + text]})
        envelope.valid_mentions([text, "@" + text, "@a:" + text, "@a:[" + text])

    assert_linear(work, _fill(piece))
