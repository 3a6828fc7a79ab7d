"""Pictures and files that come with a message."""

import base64
from pathlib import Path

from tests.core.demo.test_pictures import PNG
from tests.support.acp_client import AcpClient, Json

IMAGE: Json = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}
TEXT: Json = {
    "type": "resource",
    "resource": {
        "uri": "file:///somewhere/list%20one.txt",
        "mimeType": "text/plain",
        "blob": base64.b64encode(b"one two\nthree\n").decode(),
    },
}


async def test_tells_what_picture_it_got(agent: AcpClient, work: Path) -> None:
    """Format and size in pixels come from the bytes; later it still knows."""
    session = await agent.new(work)
    heard = await agent.turn(session, "what is this?", IMAGE)
    assert "I got a PNG picture, 640 x 480 pixels, 29 bytes." in heard.text

    later = await agent.turn(session, "what picture did I send?")
    assert "a PNG picture, 640 x 480 pixels" in later.text


async def test_saves_what_came(agent: AcpClient, work: Path) -> None:
    """ "Save it" after a picture writes exactly its bytes, after asking."""
    session = await agent.new(work)
    await agent.turn(session, "look at this picture", IMAGE)
    saved = await agent.turn(session, "save it")

    assert PNG == (work / "picture.png").read_bytes()
    assert "[file: picture.png]" in saved.text
    assert 1 == len(agent.asked)


async def test_counts_words_of_an_attached_text(agent: AcpClient, work: Path) -> None:
    """A question about the file that came with it is answered from its content."""
    session = await agent.new(work)
    heard = await agent.turn(session, "count the words in this file", TEXT)

    assert "a text file `list one.txt` (text/plain), 2 lines, 14 bytes" in heard.text
    assert "`list one.txt` has 2 lines, 3 words" in heard.text


async def test_several_at_once(agent: AcpClient, work: Path) -> None:
    """Each of several attachments is named."""
    heard = await agent.turn(await agent.new(work), "here you are", IMAGE, TEXT)

    assert "I got 2 files:" in heard.text
    assert "- a PNG picture" in heard.text
    assert "- a text file `list one.txt`" in heard.text
