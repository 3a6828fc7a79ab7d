"""JSON as it really arrives: one bad escape, NaN or deep value must not cost a whole answer.

Owns reading of answers (relay-wire.md §1.3) that msgspec has refused: by the standard library on
text whose lone surrogate escapes became U+FFFD, then by a scanner without recursion that reads
each member on its own. Never raises; remembers which members an object names twice (§4.3).
"""

import json
import re
from collections.abc import Iterator

import msgspec

from agentconnect.core.repeating import Repeating, from_pairs

_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a whole pair
    r"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"  # half of one
    r"|\\.",
    re.S,
)
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|["\[\]{}:,]', re.S)
_MAX_NUMBER_CHARS = 300  # longer ones are no id, count or time; int() refuses 4,300 digits


class Document(msgspec.Struct, frozen=True):
    """A decoded answer. ``malformed``: it was no JSON at all; ``value`` is then ``{}``."""

    value: object
    malformed: bool = False


def decode_text(text: str) -> Document:
    """Read JSON text leniently, blank text as ``{}``; members that repeat are remembered."""
    text = text.strip()
    if not text:
        return Document({})
    fixed = _ESCAPE.sub(_mend, text)
    try:
        return Document(_loads(fixed))
    except RecursionError:
        return _shallow(fixed)
    except ValueError:
        return Document({}, malformed=True)


def elements(text: str) -> Iterator[str] | None:
    """The elements of the JSON array ``text`` as slices, however deep they nest; None if broken."""
    if not text.startswith("["):
        return None
    spans = _spans(text)
    if spans is None:
        return None
    return (part for start, _, end in spans if (part := text[start:end].strip()))


def members(text: str) -> Repeating | None:
    """The JSON object ``text`` with each value decoded alone; values too deep are left out.

    A value that is an array too deep to decode stays its own text, as :class:`DeepArray`.
    """
    if not text.startswith("{"):
        return None
    spans = _spans(text)
    if spans is None:
        return None
    found = Repeating()
    repeated: set[str] = set()
    for start, colon, end in spans:
        if colon < 0:
            continue
        try:
            key = json.loads(text[start:colon].strip(), strict=False)
        except (ValueError, RecursionError):
            continue
        if not isinstance(key, str):
            continue
        if key in found:
            repeated.add(key)
        found[key] = _member_value(text[colon + 1 : end].strip())
    found.repeated = frozenset(repeated)
    return found


class DeepArray(str):
    """The text of an array that nests too deep to be decoded whole."""

    __slots__ = ()


def _loads(text: str) -> object:
    """Raises: ValueError, RecursionError."""
    return json.loads(
        text,
        strict=False,  # raw control characters in one body must not cost the batch
        object_pairs_hook=from_pairs,
        parse_int=_integer,
        parse_float=_float,
    )


def _member_value(text: str) -> object:
    try:
        return _loads(text)
    except RecursionError:
        return DeepArray(text) if text.startswith("[") else None
    except ValueError:
        return None


def _shallow(text: str) -> Document:
    found = members(text)
    return Document({}, malformed=True) if found is None else Document(found)


def _spans(text: str) -> list[tuple[int, int, int]] | None:
    """(start, colon or -1, end) of each part of the container ``text``; one linear pass."""
    spans: list[tuple[int, int, int]] = []
    depth, start, colon = 0, 1, -1
    for match in _TOKEN.finditer(text):
        mark = text[match.start()]
        if mark in "[{":
            depth += 1
        elif mark in "]}":
            depth -= 1
            if depth == 0:
                spans.append((start, colon, match.start()))
                return spans
        elif mark == '"':
            if match.end() - match.start() == 1:  # a string without an end
                return None
        elif depth == 1 and mark == ":" and colon < 0:
            colon = match.start()
        elif depth == 1 and mark == ",":
            spans.append((start, colon, match.start()))
            start, colon = match.end(), -1
    return None


def _mend(match: re.Match[str]) -> str:
    return "\\ufffd" if match.group(1) else match.group()


def _integer(digits: str) -> int:
    return int(digits) if len(digits) <= _MAX_NUMBER_CHARS else -1


def _float(digits: str) -> float:
    return float(digits) if len(digits) <= _MAX_NUMBER_CHARS else float("nan")
