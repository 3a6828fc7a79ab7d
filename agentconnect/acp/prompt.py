"""A prompt's content: text, and attachments (worker.md §9) as their bytes, never a path or link.

Reading is done by :func:`read_attachment`, which blocks and belongs in a thread. A path here was
written by us but named by a sender's message, so it is opened as if it were hostile.
"""

import base64
import mimetypes
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec
import trio

from agentconnect.acp.messages import (
    Accepts,
    AudioBlock,
    BlobResource,
    ContentBlock,
    ImageBlock,
    ResourceBlock,
    TextBlock,
)
from agentconnect.core.surrogates import replace_surrogates
from agentconnect.core.task import Attachment

_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,60}/[a-z0-9!#$&^_.+-]{1,60}")
_SIZE_SETTING = "AGENT_CONNECT_ATTACHMENT_MAX_BYTES"
MAX_LABEL = 120


class Unsent(msgspec.Struct, frozen=True, kw_only=True):
    """An attachment that could not be passed on, and why."""

    label: str
    mime: str
    reason: str


class Attached(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a task's attachments, in their order."""

    blocks: tuple[ContentBlock, ...] = ()
    labels: tuple[str, ...] = ()
    unsent: tuple[Unsent, ...] = ()
    accepts: tuple[str, ...] = ()
    """What this agent takes beyond text, in words."""


def words(text: str) -> TextBlock:
    """A text as content, fit to be sent whatever it holds."""
    return TextBlock(text=replace_surrogates(text))


async def attach(
    attachments: Sequence[Attachment], accepts: Accepts, max_bytes: int, *, local: bool = True
) -> Attached:
    """Read and encode what this agent takes; the rest comes back with its reason.

    ``local`` is false for an agent on another machine: a path of ours says nothing there.
    """
    blocks: list[ContentBlock] = []
    labels: list[str] = []
    unsent: list[Unsent] = []
    for item in attachments:
        label, mime = label_of(item), media_type(item)
        refused = _refused(item, mime, accepts)
        if not refused:
            try:
                uri = "" if local else _named(label)
                block = await trio.to_thread.run_sync(
                    read_attachment, item.path, mime, max_bytes, uri
                )
            except _CannotRead as error:
                refused = str(error)
            else:
                blocks.append(block)
                labels.append(label)
        if refused:
            unsent.append(Unsent(label=label, mime=mime, reason=refused))
    return Attached(
        blocks=tuple(blocks),
        labels=tuple(labels),
        unsent=tuple(unsent),
        accepts=_accepted_words(accepts),
    )


def media_type(item: Attachment) -> str:
    """The declared type, else one guessed from the file name; a label, never a decision to read."""
    declared = item.mime.split(";")[0].strip().lower()
    if _TYPE.fullmatch(declared) and declared != "application/octet-stream":
        return declared
    guessed, _ = mimetypes.guess_type(item.name or item.path)
    return guessed or "application/octet-stream"


def label_of(item: Attachment) -> str:
    """A name to call it by, on one line."""
    name = item.name or (Path(item.path).name if item.path else "")
    clean = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return clean[:MAX_LABEL] or "a file"


def _named(label: str) -> str:
    """An address that names it and no place; the protocol wants one for each file."""
    return f"attachment:{quote(label, errors='replace')}"


def _accepted_words(accepts: Accepts) -> tuple[str, ...]:
    pairs = ((accepts.image, "images"), (accepts.audio, "audio"), (accepts.embedded, "other files"))
    return tuple(word for yes, word in pairs if yes)


class _CannotRead(Exception):
    """Why a file was not read."""


def read_attachment(path: str, mime: str, max_bytes: int, uri: str = "") -> ContentBlock:
    """Open, judge by the descriptor, read and encode; ``uri`` "" is the file's own.

    Raises: _CannotRead.
    """
    data = base64.b64encode(_read(path, max_bytes)).decode("ascii")
    if mime.startswith("image/"):
        return ImageBlock(mime_type=mime, data=data)
    if mime.startswith("audio/"):
        return AudioBlock(mime_type=mime, data=data)
    uri = uri or Path(path).as_uri()
    return ResourceBlock(resource=BlobResource(uri=uri, mime_type=mime, blob=data))


def _refused(item: Attachment, mime: str, accepts: Accepts) -> str:
    if not item.ok:
        return item.reason or "it could not be fetched"
    if mime.startswith("image/"):
        return "" if accepts.image else "this agent takes no images"
    if mime.startswith("audio/"):
        return "" if accepts.audio else "this agent takes no audio"
    return "" if accepts.embedded else "this agent takes no files of this kind"


def _read(path: str, max_bytes: int) -> bytes:
    if not path or "\0" in path:
        raise _CannotRead("it has no usable path")
    if not Path(path).is_absolute():
        raise _CannotRead("its path is not absolute")
    try:
        real = Path(path).resolve(strict=True)
        handle = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise _CannotRead("it is no longer on this machine") from error
    except (OSError, RuntimeError) as error:
        raise _CannotRead(f"it cannot be opened ({_cause(error)})") from error
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            raise _CannotRead("it is not a regular file")
        _check_size(facts.st_size, max_bytes)
        with open(handle, "rb", closefd=False) as file:
            data = file.read(max_bytes + 1 if max_bytes else -1)
    except OSError as error:
        raise _CannotRead(f"it cannot be read ({_cause(error)})") from error
    finally:
        os.close(handle)
    _check_size(len(data), max_bytes)
    return data


def _check_size(size: int, max_bytes: int) -> None:
    if max_bytes and size > max_bytes:
        mega = 1024 * 1024
        raise _CannotRead(
            f"it is too big: {size / mega:.1f} MB, the limit is {max_bytes / mega:.1f} MB "
            f"({_SIZE_SETTING})"
        )


def _cause(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or "unknown cause"
