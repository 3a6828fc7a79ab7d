"""A look at a file of ours from outside: bounded, never waiting, never changing anything.

For ``status`` and ``doctor``, who read what another process writes and what anybody may have put in
its place: a pipe, a folder, a file without end.
"""

from pathlib import Path

from agentconnect.core.errors import StoreUnreadableError
from agentconnect.store.owners import read_owners

PEEK_BYTES = 8 * 1024 * 1024
"""More than any of our small files has."""


def peek(path: Path, limit: int = PEEK_BYTES) -> bytes | None:
    """The bytes; None where there is no such file. Blocking, but for a disk's time only.

    Raises: StoreUnreadableError for what is no regular file, is too big or cannot be read.
    """
    try:
        return read_owners(path, limit=limit)
    except NotADirectoryError:
        return None
    except (OSError, ValueError) as error:
        raise StoreUnreadableError(f"{path} cannot be read: {_why(error)}") from error


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
