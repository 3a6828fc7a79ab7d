"""JSON objects that remember which of their members stood in them more than once.

Two readers of one text may each take another of the values (relay-wire.md §4.3,
channel-delivery.md §2.2), so whoever reads an object must be able to tell.
"""

from typing import Any


class Repeating(dict[str, Any]):
    """An object of which ``repeated`` names the members that stood in it more than once."""

    repeated: frozenset[str] = frozenset()


def from_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The ``object_pairs_hook`` of a reader: plain where no member repeats; the last value wins."""
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    found = Repeating(plain)
    seen: set[str] = set()
    twice: set[str] = set()
    for key, _ in pairs:
        (twice if key in seen else seen).add(key)
    found.repeated = frozenset(twice)
    return found


def repeats(value: object) -> frozenset[str]:
    """The members that stood in ``value`` more than once; of what is no such object, none."""
    return value.repeated if isinstance(value, Repeating) else frozenset()
