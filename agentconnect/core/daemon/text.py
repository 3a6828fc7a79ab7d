"""The one cut of what goes to a channel, and other care of texts (channel-delivery.md §4)."""

from bisect import bisect_right

from agentconnect.core.destination import MAX_TEXT_UNITS, WHITE, units

CUT_MARKER = "\n\n[cut: the text was longer than one delivery may be]"


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
