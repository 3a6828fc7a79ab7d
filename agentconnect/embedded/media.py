"""Files of the rooms: bytes on disk, names made harmless, and the marker a task carries.

A file is written whole before its row is, so a row always has its bytes; bytes without a row are
what a crash leaves and are swept at start. Names are shown, never used as paths.
"""

import base64
import binascii
import mimetypes
import os
import re
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import trio

from agentconnect.embedded import ids
from agentconnect.embedded.bodies import Refusal
from agentconnect.embedded.records import Media
from agentconnect.embedded.store import Tx
from agentconnect.embedded.syncs import sync_folder

_MIME = re.compile(r"[a-z0-9][a-z0-9.+-]{0,63}/[a-z0-9][a-z0-9.+-]{0,63}")
_INLINE = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def safe_name(name: str) -> str:
    """A file name that can break out of neither the marker nor a header."""
    base = name.replace("\\", "/").rpartition("/")[2]
    return re.sub(r"[^\w.\-]+", "_", base).strip("_")[:150].lstrip(".") or "file"


def mime_of(name: str, said: str = "") -> str:
    """The type the file's name says; what the client said only where the name is silent."""
    guessed = mimetypes.guess_type(name, strict=False)[0] or ""
    if guessed:
        return guessed
    clean = said.partition(";")[0].strip().lower()
    return clean if _MIME.fullmatch(clean) else "application/octet-stream"


def shown_inline(mime: str) -> bool:
    """Whether a browser may show the file in the page; all else is only for saving."""
    return mime in _INLINE


def kind_of(mime: str) -> str:
    """The kind of message a file makes."""
    family = mime.partition("/")[0]
    return f"m.{family}" if family in ("image", "audio", "video") else "m.file"


def marker(media: Media, base: str, domain: str) -> str:
    """What a task's text carries for a file; ``name`` comes last, since nothing is quoted."""
    url = f"{base}/v1/media/{quote(domain, safe='')}/{media.media_id}"
    kind = kind_of(media.mime)
    return (
        f"[ag2space-media: {url} mime={media.mime} size={media.size} kind={kind} name={media.name}]"
    )


def decode(content_b64: str) -> bytes | None:
    """The bytes of an upload, None where it is not base64."""
    try:
        return base64.b64decode(content_b64, validate=True)
    except (binascii.Error, ValueError):
        return None


class Shelf:
    """The folder that holds the files."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder

    async def keep(self, data: bytes) -> str:
        """Write a file durably; its id."""
        media_id = ids.media_id()
        await trio.to_thread.run_sync(self._write, media_id, data)
        return media_id

    async def read(self, media_id: str) -> bytes | None:
        """A file's bytes, None where they are gone."""
        try:
            return await trio.Path(self._folder / media_id).read_bytes()
        except OSError:
            return None

    async def drop(self, media_id: str) -> None:
        """Take back a file that no row came to name; one that stays is swept at the next start."""
        with suppress(OSError):
            await trio.Path(self._folder / media_id).unlink()

    def sweep(self, known: frozenset[str]) -> None:
        """Delete what no row names: an upload that a crash cut off."""
        for path in self._folder.iterdir():
            if path.name not in known and re.fullmatch(r"[0-9a-f]{32}(\.part)?", path.name):
                path.unlink(missing_ok=True)

    def _write(self, media_id: str, data: bytes) -> None:
        part = self._folder / f"{media_id}.part"
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)  # somebody may have cleaned up
            descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.rename(self._folder / media_id)
        except OSError as error:
            with suppress(OSError):  # a full disk gets its space back
                part.unlink(missing_ok=True)
            why = error.strerror or "the disk refused it"
            raise Refusal(507, f"The relay could not keep the file: {why}.") from error
        sync_folder(self._folder)


def record(tx: Tx, media_id: str, room_id: str, name: str, mime: str, size: int) -> Media:
    """Note a file that is on the shelf."""
    made = Media(media_id=media_id, room_id=room_id, name=safe_name(name), mime=mime, size=size)
    tx.run(
        "INSERT INTO media (media_id, room_id, name, mime, size, created) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        media_id,
        room_id,
        made.name,
        mime,
        size,
        tx.now,
    )
    return made


def find(tx: Tx, media_id: str, member: str) -> Media | None:
    """A file in a room that ``member`` is in and whose message still stands."""
    return tx.one(
        Media,
        "SELECT f.media_id, f.room_id, f.name, f.mime, f.size FROM media f "
        "JOIN members m ON m.room_id = f.room_id "
        "JOIN messages e ON e.media_id = f.media_id AND e.room_id = f.room_id "
        "WHERE f.media_id = ? AND m.user_id = ? LIMIT 1",
        media_id,
        member,
    )
