"""``_ag2/deliver`` and ``_ag2/notify`` as the agent sends them (deferred-delivery.md §6, §13).

Owns the grammar: any bytes give a request or a refusal that names the field; nothing raises. What
a file's address leads to is judged on the opened descriptor elsewhere, never on its text.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import unquote_to_bytes

import msgspec
import rfc8785

from agentconnect.core.delivery.ledger import BindingId, DeliveryId
from agentconnect.core.destination import units
from agentconnect.core.surrogates import has_surrogate

MAX_ID_CHARS = 256
MAX_BINDING_CHARS = 128
MAX_TEXT_UTF16 = 100_000
MAX_FILES = 10
MAX_NAME_CHARS = 255
MAX_MIME_CHARS = 255
MAX_URI_CHARS = 16_384  # PATH_MAX percent-encoded, with room

_EXTENSIONS = {
    "application/json": ".json",
    "application/pdf": ".pdf",
    "application/xml": ".xml",
    "application/zip": ".zip",
    "audio/mpeg": ".mp3",
    "image/gif": ".gif",
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/svg+xml": ".svg",
    "image/webp": ".webp",
    "text/csv": ".csv",
    "text/html": ".html",
    "text/markdown": ".md",
    "text/plain": ".txt",
    "video/mp4": ".mp4",
}
"""What a file type lends a name that has no extension: the broker goes by the name alone."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_BINDING = re.compile(r"[0-9A-Za-z._-]+")
_MANY_DIGITS = 300


class FileRef(msgspec.Struct, frozen=True, kw_only=True):
    """A file as the agent named it; None is what it left out."""

    uri: str
    name: str | None = None
    mime: str | None = None

    @property
    def path(self) -> bytes:
        """The absolute path, percent-decoded once."""
        return _path(self.uri) or b""

    @property
    def shown_name(self) -> str:
        """The name for the room: the agent's, else the file's own; ``mime`` may end it."""
        name = self.name or self.path.rstrip(b"/").rsplit(b"/", 1)[-1].decode("utf-8", "replace")
        kind = (self.mime or "").partition(";")[0].strip().lower()
        return name if "." in name.strip(".") else name + _EXTENSIONS.get(kind, "")


class DeliverRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A valid ``_ag2/deliver``. ``fingerprint``: what a resend has to share."""

    id: DeliveryId
    binding: BindingId
    text: str | None = None
    files: tuple[FileRef, ...] = ()
    fingerprint: str

    @property
    def speaks(self) -> bool:
        """There is a text to post."""
        return self.text is not None and bool(self.text.strip())


class NotifyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A valid ``_ag2/notify``."""

    destination: BindingId
    text: str


class Invalid(msgspec.Struct, frozen=True, kw_only=True):
    """``-32602``: the field that breaks a rule, and a sentence about it that quotes nothing."""

    field: str
    detail: str


class _Members(dict[str, object]):
    """A JSON object; ``twice`` are the members it names more than once."""

    twice: frozenset[str] = frozenset()


class _Broken(Exception):
    def __init__(self, field: str, detail: str) -> None:
        super().__init__(f"{field} {detail}")
        self.invalid = Invalid(field=field, detail=f"{field} {detail}")


T = TypeVar("T")


def read_deliver(params: bytes) -> DeliverRequest | Invalid:
    """The request in the bytes of ``params``."""
    return _reading(params, _deliver)


def read_notify(params: bytes) -> NotifyRequest | Invalid:
    """The request in the bytes of ``params``."""
    return _reading(params, _notify)


def is_binding(text: str) -> bool:
    """1 to 128 of ``[0-9A-Za-z._-]``."""
    return len(text) <= MAX_BINDING_CHARS and _BINDING.fullmatch(text) is not None


def fingerprint(
    binding: str, text: str | None, files: tuple[tuple[str, str | None, str | None], ...]
) -> str:
    """SHA-256 of RFC 8785 ``[binding, text, [[uri, name, mimeType]…]]`` (§8)."""
    listed = [list(file) for file in files]
    return hashlib.sha256(rfc8785.dumps([binding, text, listed])).hexdigest()


def _reading(params: bytes, read: Callable[[_Members], T]) -> T | Invalid:
    try:
        return read(_object(params))
    except _Broken as broken:
        return broken.invalid


def _object(params: bytes) -> _Members:
    try:
        found = json.loads(
            params.decode("utf-8"),
            object_pairs_hook=_pairs,
            parse_int=_number,
            parse_float=_number,
        )
    except (ValueError, RecursionError):
        raise _Broken("params", "is not JSON that can be read") from None
    if not isinstance(found, _Members):
        raise _Broken("params", "must be an object")
    return found


def _pairs(pairs: list[tuple[str, object]]) -> _Members:
    found = _Members(pairs)
    if len(found) != len(pairs):
        counted = Counter(name for name, _ in pairs)
        found.twice = frozenset(name for name, times in counted.items() if times > 1)
    return found


def _member(found: _Members, field: str, where: str) -> object:
    if field in found.twice:  # which of the two was meant is anybody's guess
        raise _Broken(where, "is there twice")
    return found.get(field)


def _number(digits: str) -> float:
    """No field is a number: only that it is one matters."""
    return float(digits) if len(digits) <= _MANY_DIGITS else 0.0


def _deliver(found: _Members) -> DeliverRequest:
    delivery_id = _string(found, "id")
    if not 1 <= len(delivery_id) <= MAX_ID_CHARS:
        raise _Broken("id", f"must have 1 to {MAX_ID_CHARS} characters")
    if _CONTROL.search(delivery_id):
        raise _Broken("id", "must have no control characters")
    binding = _binding(found, "binding")
    text = None if _member(found, "text", "text") is None else _text(found)
    files = _files(_member(found, "files", "files"))
    if not files and not (text and text.strip()):
        raise _Broken("text", "must say something where there are no files")
    named = tuple((file.uri, file.name, file.mime) for file in files)
    return DeliverRequest(
        id=DeliveryId(delivery_id),
        binding=binding,
        text=text,
        files=files,
        fingerprint=fingerprint(binding, text, named),
    )


def _notify(found: _Members) -> NotifyRequest:
    destination = _binding(found, "destination")
    text = _text(found)
    if not text.strip():
        raise _Broken("text", "must say something")
    return NotifyRequest(destination=destination, text=text)


def _binding(found: _Members, field: str) -> BindingId:
    value = _string(found, field)
    if not is_binding(value):
        raise _Broken(
            field, f"must be 1 to {MAX_BINDING_CHARS} letters, digits, dots, dashes or underscores"
        )
    return BindingId(value)


def _text(found: _Members) -> str:
    text = _string(found, "text")
    if units(text) > MAX_TEXT_UTF16:
        raise _Broken("text", f"must have at most {MAX_TEXT_UTF16:,} UTF-16 code units")
    return text


def _files(value: object) -> tuple[FileRef, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _Broken("files", "must be a list")
    if len(value) > MAX_FILES:
        raise _Broken("files", f"must hold at most {MAX_FILES} files")
    return tuple(_file(item, f"files[{index}]") for index, item in enumerate(value))


def _file(item: object, at: str) -> FileRef:
    if not isinstance(item, _Members):
        raise _Broken(at, "must be an object")
    uri = _string(item, "uri", at)
    if len(uri) > MAX_URI_CHARS or _path(uri) is None:
        raise _Broken(f"{at}.uri", "must be an absolute file:// address on this machine")
    name = _optional(item, "name", at)
    if name is not None and (len(name) > MAX_NAME_CHARS or "/" in name):
        raise _Broken(f"{at}.name", f"must have at most {MAX_NAME_CHARS} characters and no slash")
    mime = _optional(item, "mimeType", at)
    if mime is not None and len(mime) > MAX_MIME_CHARS:
        raise _Broken(f"{at}.mimeType", f"must have at most {MAX_MIME_CHARS} characters")
    return FileRef(uri=uri, name=name, mime=mime)


def _optional(found: _Members, field: str, at: str) -> str | None:
    missing = _member(found, field, f"{at}.{field}") is None
    return None if missing else _string(found, field, at)


def _string(found: _Members, field: str, at: str = "") -> str:
    where = f"{at}.{field}" if at else field
    value = _member(found, field, where)
    if value is None:
        raise _Broken(where, "is required")
    if not isinstance(value, str):
        raise _Broken(where, "must be a string")
    if has_surrogate(value):
        raise _Broken(where, "holds half a character (a lone surrogate)")
    return value


def _path(uri: str) -> bytes | None:
    """The path of a ``file://`` address without a host or with ``localhost``; else None."""
    if uri[:7].lower() != "file://":
        return None
    host, slash, rest = uri[7:].partition("/")
    if not slash or host.lower() not in ("", "localhost") or "?" in rest or "#" in rest:
        return None
    path = b"/" + unquote_to_bytes(rest)
    return None if b"\0" in path or not path.strip(b"/") else path
