"""``access.json``: the owner's cap on who may do what here (worker.md §6). We only read it.

Class: the owner's. Looked at for each task and read again where it changed, so a revocation needs
no restart. One that cannot be read never opens a door: the last good map of this process stays, and
without one everybody is a guest.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path

from agentconnect.core.turns.access import (
    ALL_GUESTS,
    AccessMap,
    Rank,
    broken_map,
    read_map,
    unknown_values,
)
from agentconnect.store.owners import read_owners

log = logging.getLogger("agentconnect.store")

SETTLED_S = 1.0
"""A file younger than this may change again without its times showing it: it is read again."""

Mark = tuple[int, ...]


class AccessFile:
    """The file and the map in force. ``on_change`` gets the sentence to show; ``""``: all is well.

    Blocking, but for one ``stat`` per task and a small read per change only.
    """

    def __init__(
        self,
        path: Path,
        on_change: Callable[[str], None],
        *,
        wall_now: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._on_change = on_change
        self._wall_now = wall_now
        self._seen: Mark | None = None
        self._settled = False
        self._said: tuple[Mark, str] | None = None
        self._map = AccessMap()
        self._good = False

    def cap(self, user_id: str) -> Rank:
        """The most this sender can be, by the file as it is now. Never raises."""
        self.look()
        return self._map.cap(user_id)

    def look(self) -> None:
        """Take up the file's present state, if it is another than last time."""
        mark = self._mark()
        if mark == self._seen and self._settled:
            return
        self._seen = mark
        self._settled = not mark or mark[0] < (self._wall_now() - SETTLED_S) * 1e9
        self._say(mark, self._take())

    def _mark(self) -> Mark:
        """What tells one state of the file from another; empty: there is none."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return (-1,) if self._path.is_symlink() else ()
        except OSError as error:
            return (-1, error.errno or 0)
        return found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev, found.st_ctime_ns

    def _take(self) -> str:
        """Read the map; what there is to say of it."""
        try:
            data = read_owners(self._path)
            self._map = AccessMap() if data is None else read_map(data)
        except OSError as error:
            return self._broken(error.strerror or "it cannot be read")
        except ValueError as error:
            return self._broken(str(error))
        self._good = data is not None
        return unknown_values(self._map.unknown) if self._map.unknown else ""

    def _broken(self, why: str) -> str:
        if not self._good:
            self._map = ALL_GUESTS
        return broken_map(why, kept=self._good)

    def _say(self, mark: Mark, sentence: str) -> None:
        known, self._said = self._said, (mark, sentence)
        if known == self._said or (known is None and not sentence):
            return
        if sentence:
            log.warning("%s", sentence)
        else:
            log.info("access.json was read again")
        self._on_change(sentence)
