"""IRC: lines out, lines in, and what a numeric means (channel-delivery.md §15.8)."""

import re
from collections.abc import Iterator

import msgspec

from agentconnect.core.channels.chunking import pieces, utf8
from agentconnect.core.channels.sending import bad_target
from agentconnect.core.destination import Target, blank

LINE_BYTES = 400
_PERMANENT = frozenset(("401", "402", "403", "404", "407", "411", "442", "464", "465"))
_NICK = re.compile(r"[A-Za-z\[\]\\`_^{|}][A-Za-z0-9\[\]\\`_^{|}-]{0,63}")
_CHANNEL = re.compile(r"[#&+!][^\s\x00-\x20\x07,:\x7f]{1,199}")
_BREAKS = re.compile(r"[\r\n\0]+")


class Line(msgspec.Struct, frozen=True):
    """One message of the server."""

    command: str
    words: tuple[str, ...] = ()

    @property
    def error(self) -> bool:
        """A numeric that says no."""
        return len(self.command) == 3 and self.command.isdigit() and self.command >= "400"

    @property
    def permanent(self) -> bool:
        """It will say so again."""
        return self.command in _PERMANENT


def checked(target: Target) -> Target:
    """Raises: DeliveryError for what is no nick, or no channel."""
    form = _NICK if target.type == "user" else _CHANNEL
    if not form.fullmatch(target.id) or utf8(target.id) > 200:
        raise bad_target("the id is no IRC name of this type")
    return target


def is_nick(text: str) -> bool:
    """Whether a server could take it."""
    return _NICK.fullmatch(text) is not None


def lines(text: str) -> Iterator[str]:
    """``text`` as lines that fit; one that shows nothing cannot be sent in IRC and is left out."""
    for line in _BREAKS.split(text):
        yield from (piece for piece in pieces(line, LINE_BYTES, utf8) if not blank(piece))


def read(line: bytes) -> Line:
    """A line of the server, without its prefix."""
    text = line.decode("utf-8", "replace").strip("\r\n ")
    if text.startswith(("@", ":")):  # tags, who it is from
        text = text.partition(" ")[2].lstrip(" ")
        if text.startswith(":"):
            text = text.partition(" ")[2].lstrip(" ")
    head, colon, trailing = text.partition(" :")
    words = head.split()
    if not words:
        return Line("")
    return Line(words[0].upper(), (*words[1:], trailing) if colon else tuple(words[1:]))
