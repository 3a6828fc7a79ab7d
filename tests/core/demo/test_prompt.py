"""Reading a framed prompt, against the sentence the worker really writes."""

import base64
from types import SimpleNamespace

import pytest

from agentconnect.core.turns.wording_acp import framing
from agentconnect.demo.prompt import read_prompt, split_framing, without_address
from tests.core.demo.test_pictures import PNG


def _framed(message: str, *files: str) -> str:
    head = framing(sender="Ada", room="Lab [1]", cwd="/w", files=files, unread=())
    return f"{head}\n\n{message}"


def test_message_of_the_worker() -> None:
    """The person's words come out verbatim, blank lines and brackets included."""
    message = "first line\n\n[second] paragraph\n\nthird"

    assert message == split_framing(_framed(message))[1]


def test_message_without_framing() -> None:
    """Another client's prompt is all message."""
    assert split_framing("[x] is done\n\nnext") == ("", "[x] is done\n\nnext")


def test_attachments_and_their_labels() -> None:
    """A picture gets its name from the framing; a text resource its lines."""
    blocks = [
        SimpleNamespace(type="text", text=_framed("look", "cat.png", "a.txt")),
        SimpleNamespace(type="image", mime_type="image/png", data=base64.b64encode(PNG).decode()),
        SimpleNamespace(
            type="resource",
            resource=SimpleNamespace(
                uri="file:///m/0-a.txt",
                mime_type="text/plain",
                blob=base64.b64encode(b"one\ntwo\n").decode(),
            ),
        ),
    ]

    prompt = read_prompt(blocks)

    assert prompt.message == "look"
    assert [item.describe() for item in prompt.attached] == [
        "a PNG picture `cat.png`, 640 x 480 pixels, 29 bytes",
        "a text file `a.txt` (text/plain), 2 lines, 8 bytes",
    ]


def test_broken_data_is_described() -> None:
    """Bytes that are no base64 are an empty file, not an error."""
    block = SimpleNamespace(type="image", mime_type="image/png", data="!")

    assert read_prompt([block]).attached[0].data == b""


@pytest.mark.parametrize(
    ("typed", "heard"),
    [
        ("!helper hello", "hello"),
        ("  !Helper: list files", "list files"),
        ("@helper:local list files", "list files"),
        ("@helper:local, hello", "hello"),
        ("!helper", "!helper"),
        ("wow! hello", "wow! hello"),
        ("write to @ana:local please", "write to @ana:local please"),
    ],
)
def test_the_name_it_was_called_by_is_no_part_of_the_request(typed: str, heard: str) -> None:
    """Somebody calls the agent by name in a room with several: the rest is what they want."""
    assert without_address(typed) == heard
