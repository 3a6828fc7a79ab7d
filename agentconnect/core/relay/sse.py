"""Server-sent events as the relay's event channel speaks them (relay-wire.md §19).

Bytes in any cut become frames: ``id`` is sticky, ``data`` lines are joined, a blank line
dispatches, a comment is a sign of life. A line or a frame beyond its bound is *poison*: it is
skipped to its end without being kept, so that no stream can fill the memory.
"""

import json
from collections.abc import Iterator

import msgspec

LINE_BYTES = 64 * 1024
FRAME_BYTES = 1024 * 1024
LOOK_AHEAD = 64
"""How far beyond known ground a broken frame's id is believed: it is broken data too."""

MAX_CURSOR = 2**62


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """One dispatched frame; ``cursor`` None: no usable id was ever seen."""

    cursor: int | None = None
    data: bytes = b""
    poison: bool = False


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event for the sink; ``fields`` is the object as it came, with its cursor."""

    cursor: int | None
    fields: dict[str, object]


class Reader:
    """The parser; :meth:`feed` never raises."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._long = False  # the line under way is past its bound
        self._ended_in_cr = False
        self._cursor: int | None = None
        self._data: list[bytes] = []
        self._size = 0
        self._poison = False

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """The frames that end in this chunk."""
        if self._ended_in_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._ended_in_cr = False
        if chunk:
            self._ended_in_cr = chunk.endswith(b"\r")
        *whole, rest = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for part in whole:
            self._extend(part)
            yield from self._end_of_line()
        self._extend(rest)

    def _extend(self, part: bytes) -> None:
        if self._long or len(self._line) + len(part) > LINE_BYTES:
            self._long = True
            self._line.clear()
        else:
            self._line += part

    def _end_of_line(self) -> Iterator[Frame]:
        line, self._line = bytes(self._line), bytearray()
        if self._long:
            self._long, self._poison = False, True
        elif line:
            self._field(line)
        else:
            yield from self._dispatch()

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"id" and value.isdigit() and len(value) <= 19:
            self._cursor = min(int(value), MAX_CURSOR)
        elif name == b"data":
            self._size += len(value) + 1
            if self._size > FRAME_BYTES:
                self._poison = True
                self._data.clear()
            elif not self._poison:
                self._data.append(value)

    def _dispatch(self) -> Iterator[Frame]:
        data, poison = self._data, self._poison
        self._data, self._size, self._poison = [], 0, False
        if data or poison:
            body = b"" if poison else b"\n".join(data)
            yield Frame(cursor=self._cursor, data=body, poison=poison)


def read_event(frame: Frame) -> Event | None:
    """The frame's object, None for poison and for what is no JSON object."""
    if frame.poison:
        return None
    try:
        found = json.loads(frame.data.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    cursor = found.setdefault("cursor", frame.cursor)
    usable = isinstance(cursor, int) and not isinstance(cursor, bool) and 0 <= cursor <= MAX_CURSOR
    return Event(cursor=cursor if usable else frame.cursor, fields=found)


def after_skip(marker: int | None, cursor: int | None) -> int | None:
    """The marker after a frame that was skipped: moved only by an id that may be true."""
    if cursor is None or marker is None:
        return marker
    return cursor if marker < cursor <= marker + LOOK_AHEAD else marker
