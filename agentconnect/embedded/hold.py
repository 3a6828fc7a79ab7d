"""One relay per state folder: an exclusive ``flock`` for the life of the process.

The kernel drops it when the process ends, however it ends; the file itself is never removed.
"""

import fcntl
import os
from pathlib import Path

from agentconnect.core.errors import WorkspaceHeldError


class Hold:
    """The lock on a state folder.

    Raises:
        WorkspaceHeldError: another relay has it; the sentence names its pid.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            pid = os.read(self._descriptor, 20).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            raise WorkspaceHeldError(
                f"another relay (pid {pid}) is using {path.parent}: stop it, or use another folder"
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let another relay have the folder."""
        os.close(self._descriptor)
