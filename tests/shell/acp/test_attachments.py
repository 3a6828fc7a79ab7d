"""What comes with a message, on its way to the agent (worker.md §9)."""

import base64
import os
import socket
from pathlib import Path

import pytest
import trio

from agentconnect.acp.messages import Accepts, AudioBlock, ContentBlock, ImageBlock, ResourceBlock
from agentconnect.acp.prompt import Attached, attach, label_of, media_type
from agentconnect.core.task import Attachment
from tests.shell.acp.rig import running

EVERYTHING = Accepts(image=True, audio=True, embedded=True)
BYTES = bytes(range(256)) * 3


def file(path: Path, mime: str = "text/plain") -> Attachment:
    return Attachment(path=str(path), name=path.name, mime=mime, ok=True)


async def reason_of(item: Attachment, accepts: Accepts = EVERYTHING, max_bytes: int = 1000) -> str:
    """Why one attachment was not passed on."""
    (unsent,) = (await attach([item], accepts, max_bytes)).unsent
    return unsent.reason


@pytest.mark.parametrize(
    ("mime", "kind"),
    [
        ("image/png", ImageBlock),
        ("IMAGE/PNG; q=1", ImageBlock),
        ("audio/mpeg", AudioBlock),
        ("video/mp4", ResourceBlock),
        ("text/plain", ResourceBlock),
        ("application/x-unheard-of", ResourceBlock),
    ],
)
async def test_each_kind_has_its_block(mime: str, kind: type[ContentBlock], tmp_path: Path) -> None:
    """The bytes are those on disk, whatever they are."""
    path = tmp_path / "a file.bin"
    path.write_bytes(BYTES)
    found = await attach([file(path, mime)], EVERYTHING, 1000)
    (block,) = found.blocks
    assert isinstance(block, kind)
    if isinstance(block, ResourceBlock):
        assert path.as_uri() == block.resource.uri
        assert BYTES == base64.b64decode(block.resource.blob)
    else:
        assert isinstance(block, ImageBlock | AudioBlock)
        assert mime.lower().partition(";")[0] == block.mime_type
        assert BYTES == base64.b64decode(block.data)
    assert ("a file.bin",) == found.labels


@pytest.mark.parametrize(
    ("declared", "name", "expected"),
    [
        ("Text/HTML; charset=utf-8", "a.png", "text/html"),
        ("no type", "a.png", "image/png"),
        ("", "a.unheard-of", "application/octet-stream"),
        ("application/octet-stream", "shot.jpeg", "image/jpeg"),
        ("image/png\nx", "a.txt", "text/plain"),
    ],
)
def test_a_media_type_is_a_label(declared: str, name: str, expected: str) -> None:
    """What was declared, if it is a type at all; else what the name says."""
    assert expected == media_type(Attachment(path="/x/y", mime=declared, name=name, ok=True))


@pytest.mark.parametrize(
    ("mime", "accepts", "word"),
    [
        ("image/png", Accepts(audio=True, embedded=True), "no images"),
        ("audio/wav", Accepts(image=True, embedded=True), "no audio"),
        ("video/mp4", Accepts(image=True, audio=True), "no files of this kind"),
    ],
)
async def test_what_was_not_offered_is_not_sent(
    mime: str, accepts: Accepts, word: str, tmp_path: Path
) -> None:
    """And not looked at: the file is not even there."""
    assert word in await reason_of(file(tmp_path / "gone", mime), accepts)


async def test_a_failed_fetch_comes_before_any_other_reason() -> None:
    """The platform's own reason, or that it could not be fetched."""
    said = Attachment(name="a.png", mime="image/png", reason="the relay has lost it")
    assert "the relay has lost it" == await reason_of(said, Accepts())
    assert "could not be fetched" in await reason_of(Attachment(name="a.png", mime="image/png"))


async def test_each_fault_of_a_file_has_its_own_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sender chose the name: whatever lies there is judged by what was opened."""
    big, loop, fifo, plug = (tmp_path / name for name in ("big", "loop", "fifo", "plug"))
    big.write_bytes(bytes(1001))
    loop.symlink_to(loop)
    os.mkfifo(fifo)
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(tmp_path)  # such an address may not be long
        listener.bind("plug")
        with trio.fail_after(60):  # a pipe without a writer blocks whoever opens it plainly
            reasons = {
                name: await reason_of(item)
                for name, item in {
                    "no path": Attachment(name="a", ok=True),
                    "NUL": Attachment(path="/a\0b", name="a", ok=True),
                    "relative": Attachment(path="a/b", name="a", ok=True),
                    "gone": file(tmp_path / "gone"),
                    "loop": file(loop),
                    "below a file": file(big / "x"),
                    "folder": file(tmp_path),
                    "pipe": file(fifo),
                    "socket": file(plug),
                    "big": file(big),
                }.items()
            }
    assert "it has no usable path" == reasons["no path"] == reasons["NUL"]
    assert "its path is not absolute" == reasons["relative"]
    assert "it is no longer on this machine" == reasons["gone"]
    assert reasons["loop"].startswith("it cannot be opened (")
    assert reasons["below a file"].startswith("it cannot be opened (")
    assert reasons["socket"].startswith("it cannot be opened (")
    assert "it is not a regular file" == reasons["folder"] == reasons["pipe"]
    assert "it is too big: 0.0 MB, the limit is 0.0 MB" in reasons["big"]
    assert "AGENT_CONNECT_ATTACHMENT_MAX_BYTES" in reasons["big"]
    assert str(tmp_path) not in "".join(reasons.values())


async def test_the_limit_is_inclusive_and_zero_is_none(tmp_path: Path) -> None:
    """Exactly as many bytes pass; without a limit any number does."""
    path = tmp_path / "a"
    path.write_bytes(BYTES)
    for limit in (len(BYTES), 0):
        assert 1 == len((await attach([file(path)], EVERYTHING, limit)).blocks)
    assert "too big" in await reason_of(file(path), max_bytes=len(BYTES) - 1)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (Attachment(name="a\nb\t[file: x]\x1b"), "a b [file: x]"),
        (Attachment(path="/spool/local.txt"), "local.txt"),
        (Attachment(name="x" * 500), "x" * 120),
        (Attachment(name=" \n "), "a file"),
    ],
)
def test_a_label_is_one_short_line(item: Attachment, expected: str) -> None:
    """The name that the platform gives, else the local one, else a word."""
    assert expected == label_of(item)


async def test_the_loop_runs_on_while_a_file_is_read(tmp_path: Path) -> None:
    """Reading and encoding are done in a thread, ten megabytes or one byte."""
    path = tmp_path / "a"
    path.write_bytes(BYTES)
    found: list[Attached] = []
    steps = 0

    async def read() -> None:
        found.append(await attach([file(path)] * 3, EVERYTHING, 0))
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        while True:
            steps += 1
            await trio.lowlevel.checkpoint()
    assert 3 == len(found[0].blocks)
    assert steps > 3


async def test_order_and_framing(tmp_path: Path) -> None:
    """The text first, then the files in their order; the labels of both kinds stand in front."""
    names = ("one.png", "two.wav", "three.txt")
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    files = (
        file(tmp_path / "one.png", "image/png"),
        file(tmp_path / "two.wav", "audio/wav"),
        file(tmp_path / "three.txt"),
        file(tmp_path / "four.txt"),
    )
    options = {"prompt": {"image": True, "audio": True, "embeddedContext": True}}
    async with running(tmp_path, options) as rig:
        outcome = await rig.turn("#blocks\n#prompt", attachments=files)
    assert outcome.answer.startswith("[text image audio resource]")
    assert "included below: one.png, two.wav, three.txt." in outcome.answer
    assert "could not be read (say so if it matters): four.txt." in outcome.answer
    (notice,) = outcome.notices
    assert "four.txt (text/plain): it is no longer on this machine" in notice
    assert "takes text and images, audio and other files" in notice
