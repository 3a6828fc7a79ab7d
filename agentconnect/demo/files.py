"""The working directory and nothing else: every name is resolved, symlinks included, and judged.

Hidden files are left alone, links that lead out are as good as not there, an existing file is
never overwritten, and what is read is bounded.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentconnect.demo import words

READ_BYTES = 64 * 1024
WHOLE_BYTES = 4 * 1024 * 1024  # counting and searching look at more than a room can show
MAX_NAMES = 2000
SEND_BYTES = 24 * 1024 * 1024
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})


class FileProblemError(Exception):
    """A file that cannot be used; the message is a sentence for the room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a listing; ``name`` is relative to the working directory."""

    name: str
    size: int
    folder: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A file's beginning. ``binary``: not text, ``text`` is empty then."""

    name: str
    text: str
    size: int
    cut: bool = False
    binary: bool = False


class Folder:
    """The working directory of one conversation."""

    def __init__(self, root: str) -> None:
        self.root = Path(root).resolve()

    def names(self) -> list[str]:
        """All files below, relative, sorted by depth and name, bounded."""
        found = [entry.name for entry in self._walk()]
        return sorted(found, key=lambda name: (name.count("/"), name.lower()))

    def entries(self, name: str = "") -> list[Entry]:
        """What lies directly in a folder: folders first.

        Raises: FileProblemError when it is no folder of ours.
        """
        place = self.resolve(name) if name else self.root
        if not place.is_dir():
            raise FileProblemError(f"`{shown(name)}` is not a folder.")
        found = list(self._scan(place))
        return sorted(found, key=lambda entry: (not entry.folder, entry.name.lower()))

    def is_folder(self, name: str) -> bool:
        """Whether the name is a folder in the working directory."""
        try:
            return self.resolve(name).is_dir()
        except FileProblemError:
            return False

    def find(self, wanted: str) -> str:
        """The file or folder meant by a name as people write it.

        Raises: FileProblemError with what to do about it.
        """
        try:
            place = self.resolve(wanted)
        except FileProblemError:
            if "/" in wanted or "\\" in wanted or wanted.startswith((".", "~")):
                raise
            place = self.root / "\0"
        if "\0" not in str(place) and place.exists():
            return self._relative(place)
        names = self.names()
        found = words.best_names(wanted, names)
        if len(found) == 1:
            return found[0]
        if found:
            some = ", ".join(f"`{shown(name)}`" for name in found[:8])
            raise FileProblemError(f"“{shown(wanted)}” could be {some}. Which one do you mean?")
        tail = _some_names(names)
        raise FileProblemError(f"There is no file `{shown(wanted)}` in the working folder. {tail}")

    def read(self, name: str, limit: int = READ_BYTES) -> Text:
        """The beginning of a file.

        Raises: FileProblemError.
        """
        data, size = self._bytes(name, limit)
        cut = size > len(data)
        if b"\0" in data:
            return Text(name=name, text="", size=size, binary=True)
        text = data.decode("utf-8", "replace")
        if text.count("\ufffd") > max(8, len(text) // 20):
            return Text(name=name, text="", size=size, binary=True)
        return Text(name=name, text=text.removeprefix("\ufeff"), size=size, cut=cut)

    def head(self, name: str, limit: int = READ_BYTES) -> bytes:
        """The first bytes of a file. Raises: FileProblemError."""
        return self._bytes(name, limit)[0]

    def target(self, name: str) -> tuple[str, Path]:
        """A free name for a new file, and its path.

        Raises: FileProblemError when it would lie outside or under something hidden.
        """
        stem, dot, ending = name.rpartition(".") if "." in name else (name, "", "")
        for number in range(1, 1000):
            tried = name if number == 1 else f"{stem}-{number}{dot}{ending}"
            place = self.resolve(tried)
            if not os.path.lexists(place):
                return self._relative(place), place
        raise FileProblemError(f"There are too many files called `{shown(name)}` already.")

    def write(self, name: str, data: bytes) -> None:
        """A new file, whole; never over an existing one.

        Raises: FileProblemError.
        """
        place = self.resolve(name)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(place, flags, 0o644), "wb") as file:
                file.write(data)
        except OSError as error:
            raise FileProblemError(
                f"`{shown(name)}` could not be written: {error.strerror}."
            ) from error

    def resolve(self, name: str) -> Path:
        """The real path of a name.

        Raises: FileProblemError when it lies outside, is hidden or is no name at all.
        """
        if "\0" in name or not name.strip() or len(name) > 1000:
            raise FileProblemError("That is not a file name.")
        try:
            place = (self.root / name.strip()).resolve()
        except (OSError, RuntimeError) as error:  # a loop of links
            raise FileProblemError(f"`{shown(name)}` leads nowhere.") from error
        if place != self.root and self.root not in place.parents:
            raise FileProblemError(
                f"`{shown(name)}` lies outside the working folder, and I touch nothing outside it."
            )
        if any(part.startswith(".") for part in place.relative_to(self.root).parts):
            raise FileProblemError(f"`{shown(name)}` is hidden, and I leave hidden files alone.")
        return place

    def _relative(self, place: Path) -> str:
        return place.relative_to(self.root).as_posix()

    def _bytes(self, name: str, limit: int) -> tuple[bytes, int]:
        place = self.resolve(name)
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(place, flags), "rb") as file:
                about = os.fstat(file.fileno())
                if not stat.S_ISREG(about.st_mode):
                    raise FileProblemError(f"`{shown(name)}` is not an ordinary file.")
                return file.read(limit), about.st_size
        except FileNotFoundError as error:
            raise FileProblemError(f"There is no file `{shown(name)}`.") from error
        except IsADirectoryError as error:
            raise FileProblemError(f"`{shown(name)}` is a folder.") from error
        except OSError as error:
            raise FileProblemError(f"`{shown(name)}` cannot be read: {error.strerror}.") from error

    def _walk(self) -> Iterator[Entry]:
        todo = [self.root]
        seen = 0
        while todo:
            for entry in self._scan(todo.pop(0)):
                seen += 1
                if seen > MAX_NAMES:
                    return
                if not entry.folder:
                    yield entry
                elif entry.name.rpartition("/")[2] not in _SKIPPED:
                    todo.append(self.root / entry.name)

    def _scan(self, place: Path) -> Iterator[Entry]:
        try:
            with os.scandir(place) as scan:
                found = sorted((item for item in scan), key=lambda item: item.name)[:MAX_NAMES]
        except OSError:
            return
        for item in found:
            name = self._relative(place / item.name)
            try:
                # a link that stays inside may be read by name; listings show only what is here
                about = item.stat(follow_symlinks=False)
            except OSError:
                continue
            if item.name.startswith(".") or not _printable(item.name):
                continue
            if stat.S_ISDIR(about.st_mode):
                yield Entry(name=name, size=0, folder=True)
            elif stat.S_ISREG(about.st_mode):
                yield Entry(name=name, size=about.st_size)


def shown(name: str) -> str:
    """A name that is safe between backticks."""
    return "".join(c if c.isprintable() and c != "`" else "?" for c in name)[:120]


def size_text(size: int) -> str:
    """A size for people."""
    if size < 1000:
        return f"{size} byte{'' if size == 1 else 's'}"
    if size < 1_000_000:
        return f"{size / 1000:.1f} kB"
    return f"{size / 1_000_000:.1f} MB"


def _printable(name: str) -> bool:
    return name.isprintable() and not any("\ud800" <= c <= "\udfff" for c in name)


def _some_names(names: list[str]) -> str:
    if not names:
        return "The working folder is empty."
    some = ", ".join(f"`{shown(name)}`" for name in names[:6])
    return f"I see {some}{' and more' if len(names) > 6 else ''}."
