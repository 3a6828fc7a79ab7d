"""Files out of one binding's export folder, judged on the descriptor (deferred-delivery.md §5).

The delivery root is fixed when this is built and is no root of ``egress``. A file has to lie below
the folder of the one binding its delivery names; nothing is concluded from how its path is spelt.
"""

import os
from typing import Final

from agentconnect.relay.egress import (
    LIMIT_BYTES,
    Outgoing,
    Refusal,
    RefusedError,
    judge,
    open_steps,
    read_whole,
)

_FOLDER: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_DIRECTORY


class Exports:
    """The delivery root. Blocking; sealed: no attribute can be set after construction."""

    __slots__ = ("_limit", "_root")

    _root: str
    _limit: int

    def __init__(self, root: str, *, limit: int = LIMIT_BYTES) -> None:
        """``root`` "" sends nothing. ``limit`` in bytes."""
        seal = object.__setattr__
        seal(self, "_root", _placed(root))
        seal(self, "_limit", limit)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("the delivery root is sealed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("the delivery root is sealed")

    def read(self, folder: str, path: bytes) -> Outgoing | Refusal:
        """Judge and read one absolute path for the binding with this folder. Never raises."""
        try:
            opened = self._open(folder)
            try:
                handle = open_steps(opened, _below(opened, path))
            finally:
                os.close(opened)
            try:
                size = judge(handle, self._limit)
                return Outgoing(path=os.fsdecode(path), content=read_whole(handle, size))
            finally:
                os.close(handle)
        except RefusedError as refused:
            return refused.refusal

    def _open(self, folder: str) -> int:
        """The binding's folder: one name strictly inside the root, and no link."""
        if not self._root or not folder or "/" in folder or folder in (".", ".."):
            raise RefusedError("outside")
        try:
            root = os.open(self._root, _FOLDER)
        except OSError:
            raise RefusedError("missing") from None
        try:
            return os.open(folder, _FOLDER, dir_fd=root)
        except FileNotFoundError:
            raise RefusedError("missing") from None
        except (OSError, ValueError):
            raise RefusedError("swapped") from None
        finally:
            os.close(root)


def _placed(root: str) -> str:
    """A folder by its place: a link in its stead leads nowhere."""
    parent, _, name = root.rpartition("/")
    return f"{os.path.realpath(parent)}/{name}" if name else ""


def _below(folder: int, path: bytes) -> list[bytes]:
    """The components of ``path`` below the open folder, by whichever name it is reached."""
    entry = os.fstat(folder)
    here = entry.st_dev, entry.st_ino
    steps = [step for step in path.split(b"/") if step not in (b"", b".")]
    for depth in range(1, len(steps)):
        try:
            entry = os.stat(b"/" + b"/".join(steps[:depth]))  # noqa: PTH116 - bytes
        except (OSError, ValueError):
            break
        if (entry.st_dev, entry.st_ino) == here:
            rest = steps[depth:]
            if b".." in rest:
                break
            return rest
    raise RefusedError("outside")
