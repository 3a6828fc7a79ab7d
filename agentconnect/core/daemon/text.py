"""Units, blank text and the one cut of what goes to a channel (channel-delivery.md §1, §4)."""

import re
from bisect import bisect_right

MAX_TEXT_UNITS = 100_000
"""The most that a worker is given; longer text is cut, never refused."""

MAX_NAME_UNITS = 2048
"""The most of a channel's name, a target's id or a delivery id."""

CUT_MARKER = "\n\n[cut: the text was longer than one delivery may be]"

WHITE = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""What counts as white; Python's own ``strip`` differs in both directions."""

_SURROGATE = re.compile("[\ud800-\udfff]")


def units(text: str) -> int:
    """The length in UTF-16 code units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def is_blank(text: str) -> bool:
    """Whether every character is white; the empty text is blank."""
    return not text.strip(WHITE)


def trimmed(text: str) -> str:
    """``text`` without white characters at its ends."""
    return text.strip(WHITE)


def first_units(text: str, room: int) -> str:
    """As many whole characters from the start as fit into ``room`` units; no pair is split."""
    if len(text) <= room // 2 or units(text[: room + 1]) <= room:
        return text
    return text[: bisect_right(range(room + 1), room, key=lambda at: units(text[:at])) - 1]


def cut(text: str) -> str:
    """``text`` as one delivery may be: whole, or its start and a marker, 100,000 units at most."""
    if units(text) <= MAX_TEXT_UNITS:
        return text
    return first_units(text, MAX_TEXT_UNITS - units(CUT_MARKER)) + CUT_MARKER


def whole_characters(text: str) -> str:
    """``text`` with each lone surrogate replaced by U+FFFD, so that it can be encoded."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)
