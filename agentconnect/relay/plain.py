"""The common exchange as bytes, without a parser: a short request, and an answer in one piece.

Nearly every call is one of these, and h11 takes ten times as long for what is said here in a
few lines. Only what is beyond doubt is recognised: anything else is None, and h11's to write or to
judge. What is recognised here means the same to h11 (a property test holds that).
"""

import re
from typing import NamedTuple, TypeAlias

Headers: TypeAlias = list[tuple[bytes, bytes]]

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_NAME = re.compile(_TOKEN)
_STATUS = re.compile(rb"HTTP/1\.1 ([2-5][0-9][0-9])(?: [\t\x20-\x7e]*)?\r\n")
_LINE = re.compile(rb"(%s):[ \t]*([\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?[ \t]*" % _TOKEN)
_LENGTH = re.compile(rb"[0-9]{1,9}")
_NOT_PLAIN = frozenset({b"transfer-encoding", b"connection", b"upgrade", b"expect"})
_BODILESS = frozenset({204, 205, 304})
_METHODS = frozenset({"GET", "POST"})


class PlainAnswer(NamedTuple):
    """A whole answer; header names in lower case."""

    status: int
    headers: Headers
    body: bytes


def write_request(method: str, target: bytes, headers: Headers, body: bytes) -> bytes | None:
    """The request with its body, if it is of the plain kind and safe as it stands."""
    if method not in _METHODS or not target or b" " in target:
        return None
    parts = [b"%s %s HTTP/1.1\r\n" % (method.encode("ascii"), target)]
    parts += [b"%s: %s\r\n" % header for header in headers]
    head = b"".join(parts)
    breaks = len(parts)  # one each, or something brought its own
    if head.count(b"\r") != breaks or head.count(b"\n") != breaks or b"\0" in head:
        return None
    named = {name.lower(): value for name, value in headers}
    if len(named) != len(headers) or b"host" not in named or not all(map(_NAME.fullmatch, named)):
        return None
    length = named.get(b"content-length", b"" if body else b"0")
    if length != b"%d" % len(body) or not _NOT_PLAIN.isdisjoint(named):
        return None
    return b"%s\r\n%s" % (head, body)


def read_answer(block: bytes) -> PlainAnswer | None:
    """The answer that ``block`` is, if it is exactly one whole plain answer."""
    head, found, body = block.partition(b"\r\n\r\n")
    start = _STATUS.match(block)
    if not found or start is None or start.end() > len(head):
        return None
    status = int(start[1])
    headers: Headers = []
    length = b""
    for line in head[start.end() :].split(b"\r\n"):
        parts = _LINE.fullmatch(line)
        if parts is None:
            return None
        name = parts[1].lower()
        value = parts[2] or b""
        if name in _NOT_PLAIN and (name, value.lower()) != (b"connection", b"keep-alive"):
            return None
        if name == b"content-length":
            if length:
                return None
            length = value
        headers.append((name, value))
    if _LENGTH.fullmatch(length) is None or int(length) != len(body) or status in _BODILESS:
        return None
    return PlainAnswer(status, headers, body)
