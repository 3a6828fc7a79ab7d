"""A prompt's content blocks, read: the person's message and what came with it.

Works on the plain values of the blocks (as the SDK's models give them), and never fails on one.
"""

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote, urlsplit

from agentconnect.demo.files import size_text
from agentconnect.demo.pictures import Picture, picture_of

_ADDRESS = re.compile(r"^\s*(?:!\S{1,64}|@[^\s:@]{1,64}:[^\s@]{1,200}?)[,:]?\s+(?=\S)")
_LABELS = re.compile(r"included below: (.+?)\.(?:\]| Files)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """One thing that came with the message. ``text`` is there for text files."""

    name: str
    mime: str
    data: bytes = b""
    text: str = ""
    picture: Picture | None = None

    def describe(self) -> str:
        """One line for the room."""
        name = f" `{self.name.replace('`', '')}`" if self.name else ""
        size = size_text(len(self.data))
        if self.picture is not None:
            width, height = self.picture.width, self.picture.height
            pixels = f"{width} x {height} pixels" if width and height else "size unknown"
            return f"a {self.picture.format} picture{name}, {pixels}, {size}"
        if self.text:
            lines = self.text.count("\n") + (not self.text.endswith("\n"))
            return f"a text file{name} ({self.mime}), {lines} line{'s' * (lines != 1)}, {size}"
        if not self.data:
            return f"a link to a file{name} ({self.mime})"
        return f"a file{name} ({self.mime}), {size}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What was asked and what came with it."""

    message: str
    attached: tuple[Attached, ...] = ()


def read_prompt(blocks: Sequence[Any]) -> Prompt:
    """The prompt of one turn; ``blocks`` are the SDK's content blocks."""
    texts: list[str] = []
    attached: list[Attached] = []
    for block in blocks:
        kind = getattr(block, "type", "")
        if kind == "text":
            texts.append(block.text)
        elif kind in {"image", "audio"}:
            attached.append(_bytes("", block.mime_type or "", _decoded(block.data)))
        elif kind == "resource":
            attached.append(_resource(block.resource))
        elif kind == "resource_link":
            attached.append(Attached(name=block.name, mime=block.mime_type or "unknown kind"))
    framing, message = split_framing(texts[0] if texts else "")
    return Prompt(message=without_address(message), attached=_labelled(tuple(attached), framing))


def split_framing(text: str) -> tuple[str, str]:
    """What a worker put before the message (one bracketed line, then a blank one), and the message.

    A text of any other shape is all message: that is what other clients send.
    """
    line, _, rest = text.lstrip().partition("\n")
    line = line.rstrip()
    framed = line.startswith("[") and line.endswith("]") and "working directory" in line
    if framed and (not rest or rest.startswith(("\n", "\r\n"))):
        return line, rest.strip()
    return "", text.strip()


def without_address(message: str) -> str:
    """The message without the name it was addressed to: ``!name …`` or a full id in front."""
    return _ADDRESS.sub("", message, count=1) or message


def _labelled(attached: tuple[Attached, ...], framing: str) -> tuple[Attached, ...]:
    """Names for pictures, which carry none themselves, from the framing where the count agrees."""
    match = _LABELS.search(framing)
    labels = match[1].split(", ") if match else []
    if len(labels) != len(attached):
        return attached
    return tuple(replace(item, name=label) for item, label in zip(attached, labels, strict=True))


def _resource(resource: Any) -> Attached:
    name = unquote(urlsplit(resource.uri).path.rpartition("/")[2]) or "file"
    mime = resource.mime_type or "application/octet-stream"
    if hasattr(resource, "blob"):
        return _bytes(name, mime, _decoded(resource.blob))
    return Attached(name=name, mime=mime, data=resource.text.encode(), text=resource.text)


def _bytes(name: str, mime: str, data: bytes) -> Attached:
    picture = picture_of(data)
    return Attached(
        name=name, mime=mime, data=data, picture=picture, text="" if picture else _text(data)
    )


def _text(data: bytes) -> str:
    if not data or b"\0" in data[:4096]:
        return ""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return ""


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=False)
    except (binascii.Error, ValueError):
        return b""
