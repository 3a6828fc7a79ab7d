"""``children.json``: which agent processes are ours, so that orphans can be ended (stack §5).

Class: convenience. A child is known by pid *and* kernel start time, since pids come back. Blocking:
call from a thread. Entries are gone when the child was reaped in order.
"""

import contextlib
import logging
import os
import signal
import time
from pathlib import Path

import msgspec

from agentconnect.core.errors import StoreUnreadableError
from agentconnect.store.atomic import read_file, write_file

log = logging.getLogger("agentconnect.store")

TERM_GRACE_S = 0.5
_STARTTIME_FIELD = 22


class Child(msgspec.Struct, frozen=True, kw_only=True):
    """One process group of ours; ``started`` is in clock ticks since boot."""

    pid: int
    started: int


class _File(msgspec.Struct):
    children: list[Child] = []
    boot: str = ""


class ChildrenFile:
    """The children of this run. Not thread-safe: one caller at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._children: dict[int, Child] = {}

    def add(self, pid: int) -> None:
        """Remember a child that was just started."""
        started = start_ticks(pid)
        if started is not None:
            self._children[pid] = Child(pid=pid, started=started)
            self._save()

    def remove(self, pid: int) -> None:
        """Forget a child that is gone."""
        if self._children.pop(pid, None) is not None:
            self._save()

    def reap(self) -> int:
        """End what an earlier run left behind; how many groups were ended.

        Call it once, under the lock of the state folder, before the first child.
        """
        try:
            data = read_file(self._path)
            old = msgspec.json.decode(data, type=_File) if data is not None else _File()
        except (StoreUnreadableError, msgspec.MsgspecError, RecursionError):
            log.warning(
                "%s cannot be read; orphans of an earlier run are not looked for", self._path
            )
            return 0
        left = [child for child in old.children if old.boot == _boot_id() and _is_ours(child)]
        for child in left:
            _signal(child, signal.SIGTERM)
        until = time.monotonic() + TERM_GRACE_S
        while any(map(_is_ours, left)) and time.monotonic() < until:
            time.sleep(0.01)
        for child in left:
            _signal(child, signal.SIGKILL)
        if data is not None:
            self._save()
        return len(left)

    def _save(self) -> None:
        content = _File(children=list(self._children.values()), boot=_boot_id())
        try:
            write_file(self._path, msgspec.json.encode(content), durable=False)
        except OSError as error:
            log.warning("%s cannot be written: %s", self._path.name, error.strerror or error)


def start_ticks(pid: int) -> int | None:
    """The kernel's start time of a process; None where there is none or no ``/proc``."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return int(text.rpartition(")")[2].split()[_STARTTIME_FIELD - 3])
    except (OSError, ValueError, IndexError):
        return None


def _is_ours(child: Child) -> bool:
    return child.pid > 1 and start_ticks(child.pid) == child.started


def _signal(child: Child, number: signal.Signals) -> None:
    if _is_ours(child):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
