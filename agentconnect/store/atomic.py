"""The one recipe for a file that people read: unique temp beside it, 0600, rename.

``durable`` adds the two fsyncs (file, folder); a heartbeat file skips them (stack.md §6). A reader
sees the old text or the new one, never a torn one. Blocking: call it from a worker thread.
"""

import contextlib
import os
import tempfile
from pathlib import Path

from agentconnect.core.errors import StoreUnreadableError


def write_file(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace ``path`` by ``data``. Raises: OSError, with nothing left behind."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        try:
            os.fchmod(handle, 0o600)
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
            if durable:
                os.fsync(handle)
        finally:
            os.close(handle)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
    if durable:
        fsync_folder(path.parent)


def read_file(path: Path) -> bytes | None:
    """The bytes, or None where there is no such file.

    Raises: StoreUnreadableError if something is there that cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreUnreadableError(f"{path} cannot be read: {error.strerror}") from error


def fsync_folder(folder: Path) -> None:
    """Make a rename or a new file in ``folder`` survive a power cut. Raises: OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
