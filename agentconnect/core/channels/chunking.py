"""A long text in pieces that a channel takes; joined, they are the text (channel-delivery.md §15).

Cut behind a newline, else behind a space, else anywhere that does not tear what a person sees as
one character. A break in the first half of a piece is not used: it would make many small messages.
"""

import re
import unicodedata
from collections.abc import Callable
from typing import TypeAlias

from agentconnect.core.destination import blank, units

Measure: TypeAlias = Callable[[str], int]
"""The size of a text; that of two texts joined is the sum of theirs."""

_LOOK_BACK = 64
_JOINER = "\u200d"
_ESCAPED = re.compile(r'["\\\x08\t\n\f\r]')
_CONTROL = re.compile(r"[\x00-\x07\x0b\x0e-\x1f]")


def utf8(text: str) -> int:
    """Bytes in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def json_bytes(text: str) -> int:
    """Bytes between the quotes of a JSON string in UTF-8."""
    return utf8(text) + len(_ESCAPED.findall(text)) + 5 * len(_CONTROL.findall(text))


def characters(text: str) -> int:
    """Code points."""
    return len(text)


__all__ = ["Measure", "characters", "json_bytes", "pieces", "sendable", "units", "utf8"]


def pieces(text: str, limit: int, measure: Measure) -> list[str]:
    """``text`` in pieces of at most ``limit`` each, which is at least 8: one character's most."""
    found: list[str] = []
    start = 0
    while start < len(text):
        stop = _fits(text, start, limit, measure)
        end = len(text) if stop >= len(text) else _cut(text, start, stop)
        found.append(text[start:end])
        start = end
    return found


def sendable(text: str, limit: int, measure: Measure) -> list[str]:
    """The pieces that show something: providers refuse an empty message."""
    return [piece for piece in pieces(text, limit, measure) if not blank(piece)]


def _fits(text: str, start: int, limit: int, measure: Measure) -> int:
    """How far a piece that begins at ``start`` may go: the largest end that keeps the limit."""
    low, high = start + 1, min(len(text), start + limit)  # no character measures less than one
    if measure(text[start:high]) <= limit:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if measure(text[start:middle]) <= limit:
            low = middle
        else:
            high = middle - 1
    return low


def _cut(text: str, start: int, stop: int) -> int:
    """Where a piece ends that may go up to ``stop``, which is inside the text."""
    half = start + (stop - start) // 2
    for mark in ("\n", " "):
        found = text.rfind(mark, half, stop)
        if found >= 0:
            return found + 1
    for end in range(stop, max(half, stop - _LOOK_BACK, start), -1):
        if not _inside(text, end):
            return end
    return stop


def _inside(text: str, at: int) -> bool:
    """A cut before ``text[at]`` would tear what is shown as one."""
    before, after = text[at - 1], text[at]
    if after.isascii():
        return before == "\r" and after == "\n"
    if _JOINER in (before, after) or unicodedata.category(after).startswith("M"):
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff":  # skin tones
        return True
    return _flag(after) and _flag(before) and _flags_before(text, at) % 2 == 1


def _flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flags_before(text: str, at: int) -> int:
    first = at
    while first > max(0, at - _LOOK_BACK) and _flag(text[first - 1]):
        first -= 1
    return at - first
