"""One delivery checked and put into the form in which it is stored and sent (section 6).

The stored text is the request: every resend is read back from it, so it cannot change.
"""

import hashlib
import json
import os
import stat
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agentconnect.deliver.errors import InvalidDeliveryError
from agentconnect.deliver.wire import BINDING, Destination

MAX_ID = 256
MAX_TEXT_UNITS = 100_000
MAX_FILES = 10
MAX_NAME = 255
MAX_MIME = 255
MAX_URI = 16_384


@dataclass(frozen=True, slots=True)
class File:
    """A file to deliver. ``where``: a path, or a ``file://`` URI.

    ``name`` is the name shown in the room (default: the file's own), ``mime_type`` only gives an
    ending to a name that has none.
    """

    where: str | os.PathLike[str]
    name: str | None = None
    mime_type: str | None = None


Files = Iterable[File | str | os.PathLike[str]]


@dataclass(frozen=True, slots=True)
class Request:
    """A checked delivery: ``params`` is JSON text, ``parts`` how many room posts it means."""

    id: str
    binding: str
    params: str
    parts: int

    @property
    def fingerprint(self) -> str:
        """The same for the same id, binding, text and files, and for nothing else."""
        return hashlib.sha256(self.params.encode()).hexdigest()


def request(ident: str, to: str | Destination, text: str | None, files: Files) -> Request:
    """Check a delivery. With a :class:`Destination` its files must lie in its folder.

    What only has a path is looked at and brought to disk (fsync) here: a delivery that survives a
    power failure is worth nothing without its files.

    Raises: InvalidDeliveryError.
    """
    binding = to.binding if isinstance(to, Destination) else to
    folder = to.export_dir if isinstance(to, Destination) else None
    _check_id(ident)
    if not isinstance(binding, str) or BINDING.fullmatch(binding) is None:
        raise InvalidDeliveryError("binding: pass the client's own, 1 to 128 of 0-9 A-Z a-z . _ -")
    if isinstance(files, (str, os.PathLike, File)):
        raise InvalidDeliveryError("files: pass a list, not a single file")
    listed = [_file(item, folder) for item in files]
    if len(listed) > MAX_FILES:
        raise InvalidDeliveryError(f"files: {len(listed)} are too many, {MAX_FILES} are allowed")
    said = _text(text, needed=not listed)
    params: dict[str, object] = {"id": ident, "binding": binding}
    if said is not None:
        params["text"] = said
    if listed:
        params["files"] = listed
    stored = json.dumps(params, separators=(",", ":"))
    return Request(ident, binding, stored, len(listed) + (said is not None))


def _check_id(ident: object) -> None:
    if not isinstance(ident, str) or not 1 <= len(ident) <= MAX_ID:
        raise InvalidDeliveryError(f"id: must be text of 1 to {MAX_ID} characters")
    if any(unicodedata.category(c) == "Cc" for c in ident):
        raise InvalidDeliveryError("id: must not hold control characters")
    _whole(ident, "id")


def _text(text: object, *, needed: bool) -> str | None:
    """The text part; None where there is none. A blank one beside files is no part."""
    if text is not None and not isinstance(text, str):
        raise InvalidDeliveryError("text: must be text")
    if text is None or not text.strip():
        if needed:
            raise InvalidDeliveryError("text: must say something where there are no files")
        return None
    _whole(text, "text")
    units = len(text.encode("utf-16-le")) // 2
    if units > MAX_TEXT_UNITS:
        raise InvalidDeliveryError(
            f"text: {units} UTF-16 code units are too many, {MAX_TEXT_UNITS} are allowed"
        )
    return text


def _file(item: object, folder: Path | None) -> dict[str, str]:
    file = item if isinstance(item, File) else File(item)  # type: ignore[arg-type]
    if not isinstance(file.where, (str, os.PathLike)):
        raise InvalidDeliveryError("files: each is a path, a file:// URI or a File")
    where = os.fspath(file.where)
    if not isinstance(where, str) or "\0" in where:
        raise InvalidDeliveryError("files: a path must be text without NUL")
    if where.lower().startswith("file:"):
        uri, path = where, _path_of(where)
    else:
        path = Path(where)
        if not path.is_absolute():
            raise InvalidDeliveryError(f"files: {where!r} must be an absolute path or file:// URI")
        uri = path.as_uri()
    if ".." in path.parts:
        raise InvalidDeliveryError(f"files: {where!r} must not hold ..")
    if len(uri) > MAX_URI or not path.name:
        raise InvalidDeliveryError(f"files: {where[:80]!r} is too long or names no file")
    if folder is not None or uri is not where:
        _settle(path, folder)
    told = {"uri": uri}
    if file.name is not None:
        told["name"] = _name(file.name)
    if file.mime_type is not None:
        if not isinstance(file.mime_type, str):
            raise InvalidDeliveryError("files: mime_type must be text")
        if len(file.mime_type) > MAX_MIME:
            raise InvalidDeliveryError(f"files: mime_type must be {MAX_MIME} characters at most")
        _whole(file.mime_type, "files: mime_type")
        told["mimeType"] = file.mime_type
    return told


def _name(name: object) -> str:
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME or "/" in name:
        raise InvalidDeliveryError(f"files: name must be 1 to {MAX_NAME} characters without /")
    _whole(name, "files: name")
    return name


def _path_of(uri: str) -> Path:
    """The path of a ``file://`` URI, percent-decoded once."""
    _whole(uri, "files: uri")
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise InvalidDeliveryError(f"files: {uri!r} is not a URI") from error
    path = unquote(parts.path, errors="surrogateescape")
    right = uri.startswith("file://") and parts.netloc in {"", "localhost"}
    if not right or not path.startswith("/") or "\0" in path or parts.query or parts.fragment:
        raise InvalidDeliveryError(
            f"files: {uri!r} must be file:// and an absolute path on this machine"
        )
    return Path(path)


def _settle(path: Path, folder: Path | None) -> None:
    """Look whether the client can take the file, with a sentence if not, and bring it to disk."""
    try:
        if folder is not None:
            inside = path.resolve(strict=True)
            if folder.resolve() not in inside.parents:
                raise InvalidDeliveryError(f"files: {str(path)!r} must lie inside {str(folder)!r}")
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1:
                raise InvalidDeliveryError(
                    f"files: {str(path)!r} must be an ordinary file with no second hard link"
                )
            os.fsync(handle)
        finally:
            os.close(handle)
        _sync_folder(path.parent)
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or "leads nowhere"
        raise InvalidDeliveryError(f"files: {str(path)!r} cannot be used: {why}") from error


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _whole(text: str, field: str) -> None:
    """Refuse half a character: it has no form on the wire."""
    if any("\ud800" <= c <= "\udfff" for c in text):
        raise InvalidDeliveryError(f"{field}: must not hold a lone surrogate")
