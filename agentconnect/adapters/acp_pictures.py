"""Pictures that an agent produced inline, kept as our files until sent (worker.md §10)."""

import base64
import binascii
import logging
from pathlib import Path

from agentconnect.store.atomic import write_file

log = logging.getLogger("agentconnect.adapters")

MAX_IMAGE_BYTES = 24 * 1024 * 1024

_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "png",
    b"\xff\xd8\xff": "jpg",
    b"GIF87a": "gif",
    b"GIF89a": "gif",
}


def save_picture(folder: Path, number: int, data: str) -> str | None:
    """Write an inline picture below our own folder; None when it is none we post. Blocking."""
    if len(data) > MAX_IMAGE_BYTES * 4 // 3 + 4:
        return None
    try:
        picture = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    kind = next((ext for magic, ext in _IMAGES.items() if picture.startswith(magic)), "")
    if picture[:4] == b"RIFF" and picture[8:12] == b"WEBP":
        kind = "webp"
    if not kind or len(picture) > MAX_IMAGE_BYTES:
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / f"picture-{number}.{kind}"
        write_file(path, picture)  # durable: the answer that names it will be
    except OSError as error:
        log.warning("an inline picture could not be kept: %s", error.strerror)
        return None
    return str(path)
