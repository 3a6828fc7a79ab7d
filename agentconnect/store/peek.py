"""A look at a file of ours from outside: bounded, never waiting, never changing anything.

For ``status`` and ``doctor``, who read what another process writes and what anybody may have put in
its place: a pipe, a folder, a file without end.
"""

import os
import stat
from pathlib import Path

from agentconnect.core.errors import StoreUnreadableError

PEEK_BYTES = 8 * 1024 * 1024
"""More than any of our small files has."""


def peek(path: Path, limit: int = PEEK_BYTES) -> bytes | None:
    """The bytes; None where there is no such file. Blocking, but for a disk's time only.

    Raises: StoreUnreadableError for what is no regular file, is too big or cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise StoreUnreadableError(f"{path} is a link to nothing") from None
        return None
    except (OSError, ValueError) as error:
        raise StoreUnreadableError(f"{path} cannot be read: {_why(error)}") from error
    try:
        return _content(handle, path, limit)
    except OSError as error:
        raise StoreUnreadableError(f"{path} cannot be read: {_why(error)}") from error
    finally:
        os.close(handle)


def _content(handle: int, path: Path, limit: int) -> bytes:
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        raise StoreUnreadableError(f"{path} is not a file")
    chunks: list[bytes] = []
    size = 0
    while chunk := os.read(handle, min(1 << 20, limit + 1 - size)):
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            raise StoreUnreadableError(f"{path} is larger than any file of ours")
    return b"".join(chunks)


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
