"""Files out: the sealed list of roots, judged on the open descriptor (relay-wire.md §11.1).

The roots are fixed when this is built and nothing can widen them. A path is resolved, must lie
below a root, and is then opened one component at a time without following a link; what was judged
is what is read. The state folder, the config file and well-known secrets are refused wherever they
are. A policy, not a prison: a copy of a secret inside a root can be sent.
"""

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

LIMIT_BYTES: Final = 24 * 1024 * 1024
"""Base64 of 25 MiB only just fits the relay's 35 MB."""

PRIVATE_NAMES: Final = frozenset(
    [".env", ".netrc", ".git-credentials"]
    + [
        f"id_{kind}{suffix}"
        for kind in ("rsa", "dsa", "ecdsa", "ed25519")
        for suffix in ("", "_sk")
    ]
)
PRIVATE_FOLDERS: Final = frozenset({".ssh", ".gnupg", ".aws", ".git"})


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a file is not sent: one of the spec's codes, and its size where that is the reason."""

    code: str
    size: int = 0
    limit: int = 0


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """An approved file, read."""

    path: str
    content: bytes


class Egress:
    """The allowlist. Blocking; sealed: no attribute can be set after construction."""

    __slots__ = ("_limit", "_private", "_private_files", "_roots", "dropped")

    _roots: tuple[str, ...]
    _private: tuple[str, ...]
    _private_files: tuple[str, ...]
    _limit: int
    dropped: tuple[str, ...]

    def __init__(
        self,
        roots: Sequence[str],
        *,
        private_folders: Sequence[str] = (),
        private_files: Sequence[str] = (),
        limit: int = LIMIT_BYTES,
    ) -> None:
        """``dropped`` names, as typed, the roots that are no usable folder."""
        kept: list[str] = []
        dropped: list[str] = []
        for root in roots:
            found = _root(root)
            if found is None:
                dropped.append(root)
            elif found not in kept:
                kept.append(found)
        seal = object.__setattr__
        seal(self, "_roots", tuple(kept))
        seal(self, "dropped", tuple(dropped))
        seal(self, "_private", tuple(os.path.realpath(_home(path)) for path in private_folders))
        seal(self, "_private_files", tuple(private_files))
        seal(self, "_limit", limit)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("the list of roots is sealed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("the list of roots is sealed")

    @property
    def roots(self) -> tuple[str, ...]:
        """The usable ones, resolved."""
        return self._roots

    def read(self, path: str, base_dir: str = "", *, own: str = "") -> Outgoing | Refusal:
        """Judge and read one file. Never raises.

        ``own`` is a folder of ours whose files belong to this one answer: a root for this call,
        wherever it lies.
        """
        try:
            resolved, root = self._place(path, base_dir, _own(own))
            handle = _open_below(root, resolved)
            try:
                size = judge(handle, self._limit, self._private_files)
                return Outgoing(path=resolved, content=read_whole(handle, size))
            finally:
                os.close(handle)
        except RefusedError as refused:
            return refused.refusal

    def _place(self, path: str, base_dir: str, own: str) -> tuple[str, str]:
        """The resolved path and the root it lies below."""
        path = path.strip()
        if not path:
            raise RefusedError("no_path")
        if "\0" in path:
            raise RefusedError("not_a_path")
        if not self._roots and not own:
            raise RefusedError("no_roots")
        path = _home(path)
        if not path.startswith("/"):
            base = _home(base_dir.strip())
            if not base.startswith("/") or "\0" in base:
                raise RefusedError("relative_without_base")
            path = f"{base}/{path}"
        try:
            resolved = os.path.realpath(path)
        except (OSError, ValueError):
            raise RefusedError("not_a_path") from None
        if own and resolved.startswith(own + "/"):
            return resolved, own
        for root in self._roots:
            if resolved.startswith(root + "/"):
                self._check_private(resolved)
                return resolved, root
        raise RefusedError("outside")

    def _check_private(self, resolved: str) -> None:
        *folders, name = resolved.split("/")
        lowered = name.lower()
        if (
            lowered in PRIVATE_NAMES
            or lowered.startswith(".env.")
            or PRIVATE_FOLDERS.intersection(folder.lower() for folder in folders)
            or any(resolved.startswith(folder + "/") for folder in self._private)
        ):
            raise RefusedError("private")


class RefusedError(Exception):
    """A file is not sent."""

    def __init__(self, code: str, *, size: int = 0, limit: int = 0) -> None:
        super().__init__(code)
        self.refusal = Refusal(code=code, size=size, limit=limit)


def open_steps(folder: int, steps: Sequence[str] | Sequence[bytes]) -> int:
    """Open a file below an open folder, component by component, following no link.

    Raises: RefusedError.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    *folders, name = steps
    at = folder
    try:
        for step in folders:
            deeper = os.open(step, flags | os.O_DIRECTORY, dir_fd=at)
            if at != folder:
                os.close(at)
            at = deeper
        return os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=at)
    except OSError as error:
        raise _unopened(error) from None
    finally:
        if at != folder:
            os.close(at)


def judge(handle: int, limit: int, private_files: Sequence[str] = ()) -> int:
    """What an open file has to be; ``limit`` in bytes, 0: none. → its size.

    Raises: RefusedError.
    """
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        raise RefusedError("not_regular")
    if (found.st_dev, found.st_ino) in _identities(private_files):
        raise RefusedError("private")
    if found.st_nlink != 1:
        raise RefusedError("multi_linked")
    if limit and found.st_size > limit:
        raise RefusedError("too_big", size=found.st_size, limit=limit)
    return found.st_size


def read_whole(handle: int, size: int) -> bytes:
    """All of a file as judged; one that grew meanwhile is not sent. Raises: RefusedError."""
    chunks: list[bytes] = []
    left = size + 1
    try:
        while left:
            chunk = os.read(handle, min(left, 1 << 20))
            if not chunk:
                break
            chunks.append(chunk)
            left -= len(chunk)
    except OSError:
        raise RefusedError("unreadable") from None
    if not left:
        raise RefusedError("grew")
    return b"".join(chunks)


def _own(folder: str) -> str:
    """A folder by its place: a link in its stead leads nowhere."""
    parent, _, name = folder.rpartition("/")
    return f"{os.path.realpath(parent)}/{name}" if name else ""


def _open_below(root: str, resolved: str) -> int:
    """Open ``resolved`` from its root."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_DIRECTORY
    try:
        folder = os.open(root, flags)
    except OSError as error:
        raise _unopened(error) from None
    try:
        return open_steps(folder, resolved[len(root) + 1 :].split("/"))
    finally:
        os.close(folder)


def _unopened(error: OSError) -> RefusedError:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return RefusedError("swapped")
    return RefusedError("missing" if error.errno == errno.ENOENT else "unopenable")


def _root(typed: str) -> str | None:
    """A root resolved, or None where it is blank, ``/`` or no folder."""
    if not typed.strip() or "\0" in typed:
        return None
    path = os.path.realpath(_home(typed.strip()))
    return path if path != "/" and Path(path).is_dir() else None


def _home(path: str) -> str:
    return os.path.expanduser(path)  # noqa: PTH111 - a str in, a str out, never an exception


def _identities(paths: Sequence[str]) -> list[tuple[int, int]]:
    """Asked at each judgement: an editor replaces a file rather than changing it."""
    found: list[tuple[int, int]] = []
    for path in paths:
        try:
            entry = os.stat(_home(path))  # noqa: PTH116
        except (OSError, ValueError):
            continue
        found.append((entry.st_dev, entry.st_ino))
    return found
