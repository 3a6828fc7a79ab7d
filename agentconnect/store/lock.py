"""One process per state folder: an exclusive ``flock`` on ``<state_dir>/lock`` (worker.md §18).

The kernel frees it however the process ends, so there is no stale lock to clean up. The file holds
the holder's pid for the refusal sentence and is never unlinked: two inodes would be two locks.
"""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from agentconnect.core.errors import WorkspaceHeldError

MEND = "AGENT_CONNECT_WORKSPACE"


class WorkspaceLock:
    """A held lock; keep it for the life of the process."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self._handle = handle

    @classmethod
    def acquire(cls, path: Path, *, mend: str = MEND) -> Self:
        """Take the lock now or refuse; ``mend`` says how to run a second one.

        Raises: WorkspaceHeldError naming the holder's pid; OSError if the file cannot be opened.
        """
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(handle)
            raise WorkspaceHeldError(
                f"another agent-connect (pid {holder}) already uses {path.parent}: stop it, or "
                f"give this one a folder of its own with {mend}"
            ) from None
        except OSError:
            os.close(handle)
            raise
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        return cls(path, handle)

    def release(self) -> None:
        """Give the lock up. Idempotent."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a worker holds a lock, and the pid it wrote down."""

    held: bool = False
    pid: str = ""


def holder_of(lock: Path) -> Holder:
    """Asked of the kernel by a lock that many may hold, given back at once."""
    try:
        handle = os.open(lock, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return Holder()
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.pread(handle, 32, 0).decode("ascii", "replace").strip()
        return Holder(held=True, pid=pid or "unknown")
    except OSError:
        return Holder()
    finally:
        os.close(handle)
    return Holder()
