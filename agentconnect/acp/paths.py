"""Where a path that an agent names really leads (worker.md §8.7 rule 4). Blocking.

Answers with a real path, every symbolic link followed, or None when that cannot be told; it never
decides. Missing tails are allowed, since an agent asks before it makes a file.
"""

import os
import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit


def resolve(target: str, cwd: str) -> str | None:
    """The real path of ``target`` as read from ``cwd``; None: it cannot be resolved."""
    try:
        path = _local(target)
        if path is None or "\0" in path:
            return None
        if path.startswith("~"):
            expanded = os.path.expanduser(path)  # noqa: PTH111 - Path raises where this tells
            if expanded.startswith("~"):
                return None
            path = expanded
        real = os.path.realpath(os.path.join(cwd, path))  # noqa: PTH118 - an absolute path wins
        return real if _settled(real) else None
    except (OSError, ValueError):
        return None


def resolve_all(targets: tuple[str, ...], cwd: str) -> dict[str, str | None]:
    """Each target with its real path."""
    return {target: resolve(target, cwd) for target in targets}


def real_folder(path: str) -> str:
    """A folder as a root: its parent resolved, itself not, for an agent may put a link there."""
    parent, name = os.path.split(path)
    return os.path.join(os.path.realpath(parent), name)  # noqa: PTH118 - as in resolve


def _local(target: str) -> str | None:
    """The path of a ``file:`` URI; anything else as it is."""
    if target[:5].lower() != "file:":
        return target
    parts = urlsplit(target)
    if parts.netloc.lower() not in ("", "localhost"):
        return None
    return unquote(parts.path, errors="strict") or None


def _settled(real: str) -> bool:
    """False when a link is left in a resolved path: a loop, which no longer raises."""
    walked = Path("/")
    for part in Path(real).parts[1:]:
        walked /= part
        try:
            mode = walked.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return True
        if stat.S_ISLNK(mode):
            return False
    return True
