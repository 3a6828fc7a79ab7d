"""Export folders: one for each binding, made for the agent and removed without following it.

Blocking. The agent writes in them as the same user, so everything below one is taken for hostile:
folders are opened without following a link, and what goes is named relative to an open descriptor
(deferred-delivery.md §5).
"""

import contextlib
import itertools
import os
import stat
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_DIRECTORY
_MOVED = ".agent-connect-removing-"

MAX_ROUNDS = 100_000
"""Folders emptied in one removal: an agent that still writes is not chased for ever."""


class ExportFolders:
    """The delivery root. Methods raise OSError; no method follows a link below the root."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def prepare(self) -> None:
        """Make the root, ours alone to read."""
        self.root.mkdir(mode=0o700, exist_ok=True)
        root = self._open_root()
        try:
            os.fchmod(root, 0o700)
        finally:
            os.close(root)

    def make(self, name: str) -> str:
        """Make the folder of a binding, or find it; its absolute path."""
        self.root.mkdir(mode=0o700, exist_ok=True)
        root = self._open_root()
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=root)
            folder = os.open(name, _FOLDER, dir_fd=root)
            try:
                os.fchmod(folder, 0o700)
            finally:
                os.close(folder)
        finally:
            os.close(root)
        return str(self.root / name)

    def names(self) -> list[str]:
        """Everything that lies in the root."""
        root = self._open_root()
        try:
            return _names(root)
        finally:
            os.close(root)

    def remove(self, name: str) -> None:
        """Remove a folder with all that is in it; a link or a file in its place goes itself."""
        root = self._open_root()
        try:
            with contextlib.suppress(FileNotFoundError):
                if _unlinked(root, name):
                    return
                folder = _open(root, name, os.fstat(root).st_dev)
                try:
                    _empty(folder)
                finally:
                    os.close(folder)
                os.rmdir(name, dir_fd=root)
        finally:
            os.close(root)

    def _open_root(self) -> int:
        return os.open(self.root, _FOLDER)


def _empty(top: int) -> None:
    """Remove what is in an open folder.

    A folder in a folder is moved up before it is emptied, so that no depth costs descriptors.
    """
    device = os.fstat(top).st_dev
    fresh = itertools.count()
    for _ in range(MAX_ROUNDS):
        left = [name for name in _names(top) if not _unlinked(top, name)]
        if not left:
            return
        for name in left:
            folder = _open(top, name, device)
            try:
                for inner in _names(folder):
                    if not _unlinked(folder, inner):
                        os.close(_open(folder, inner, device))  # made fit to be moved
                        moved = f"{_MOVED}{os.urandom(8).hex()}-{next(fresh)}"
                        os.rename(inner, moved, src_dir_fd=folder, dst_dir_fd=top)
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=top)
    raise OSError("it is still being written to")


def _names(folder: int) -> list[str]:
    return os.listdir(folder)


def _unlinked(folder: int, name: str) -> bool:
    """Remove what is no folder; False: it is one."""
    try:
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return False
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    return True


def _open(parent: int, name: str, device: int) -> int:
    """Open a folder that is to go, and let ourselves write in it; not one of another disk."""
    folder = os.open(name, _FOLDER, dir_fd=parent)
    try:
        elsewhere = os.fstat(folder).st_dev != device
        if not elsewhere:
            os.fchmod(folder, 0o700)
    except OSError:
        os.close(folder)
        raise
    if elsewhere:
        os.close(folder)
        raise OSError("another disk is mounted in it")
    return folder
