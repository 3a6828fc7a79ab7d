"""A small file that its owner writes by hand: read whole, within a bound, never waited for."""

import os
import shlex
import stat
from pathlib import Path

MAX_BYTES = 1 << 20


def read_owners(path: Path, *, private: bool = False, limit: int = MAX_BYTES) -> bytes | None:
    """The whole file; None where there is none. ``private``: nobody else may read or write it.

    Raises: OSError, ValueError with what is wrong with "it".
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        if path.is_symlink():
            raise ValueError("it is a link to nothing") from None
        return None
    with os.fdopen(handle, "rb") as file:
        mode = os.fstat(handle).st_mode  # of what was opened, not of what lies there by now
        if not stat.S_ISREG(mode):
            raise ValueError("it is not a regular file")
        if private and mode & 0o077:
            raise ValueError(f"others may read or write it; run chmod 600 {shlex.quote(str(path))}")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError("it is far too big")
    return data
