"""``children.json``: which agent processes are ours, so that orphans can be ended (stack §5).

Class: convenience. A child is known by pid *and* kernel start time, since pids come back; what a
dead child left in its process group, by a mark in the environment that it inherited (``npx`` is
such a child). Blocking: call from a thread. An entry goes when its child was reaped in order.
"""

import contextlib
import logging
import os
import secrets
import signal
import time
from pathlib import Path

import msgspec

from agentconnect.core.errors import StoreUnreadableError
from agentconnect.store.atomic import read_file, write_file

log = logging.getLogger("agentconnect.store")

TERM_GRACE_S = 0.5
MARK_VARIABLE = "AGENTCONNECT_CHILD_MARK"
_PGRP_FIELD = 5
_STARTTIME_FIELD = 22


class Child(msgspec.Struct, frozen=True, kw_only=True):
    """One process group of ours; ``started`` is in clock ticks since boot."""

    pid: int
    started: int


class _File(msgspec.Struct):
    children: list[Child] = []
    boot: str = ""
    mark: str = ""


class ChildrenFile:
    """The children of this run. Not thread-safe: one caller at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._children: dict[int, Child] = {}
        self._mark = secrets.token_hex(8)

    @property
    def environment(self) -> dict[str, str]:
        """What a child's environment must hold for its own children to be found."""
        return {MARK_VARIABLE: self._mark}

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
        same_boot = old.boot == _boot_id()
        left = [child for child in old.children if same_boot and _is_left(child, old.mark)]
        for child in left:
            _signal(child, signal.SIGTERM)
        until = time.monotonic() + TERM_GRACE_S
        while left and time.monotonic() < until:
            if not any(_is_left(child, old.mark) for child in left):
                break
            time.sleep(0.02)
        for child in left:
            if _is_left(child, old.mark):
                _signal(child, signal.SIGKILL)
        if data is not None:
            self._save()
        return len(left)

    def _save(self) -> None:
        content = _File(children=list(self._children.values()), boot=_boot_id(), mark=self._mark)
        try:
            write_file(self._path, msgspec.json.encode(content), durable=False)
        except OSError as error:
            log.warning("%s cannot be written: %s", self._path.name, error.strerror or error)


def problem(data: bytes) -> str:
    """Why these bytes are no record of processes; "" where they are. For ``doctor``."""
    try:
        msgspec.json.decode(data, type=_File)
    except (msgspec.MsgspecError, RecursionError) as error:
        return str(error)
    return ""


def start_ticks(pid: int) -> int | None:
    """The kernel's start time of a process; None where there is none or no ``/proc``."""
    return _stat(pid, _STARTTIME_FIELD)


def _stat(pid: int, field: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        state, *rest = text.rpartition(")")[2].split()
        return None if state == "Z" else int(rest[field - 4])
    except (OSError, ValueError, IndexError):
        return None


def _is_left(child: Child, mark: str) -> bool:
    """Does the child run, or anything of its group that carries our mark?"""
    if child.pid <= 1:
        return False
    if start_ticks(child.pid) == child.started:
        return True
    wanted = f"{MARK_VARIABLE}={mark}".encode()
    for entry in Path("/proc").glob("[0-9]*") if mark else ():
        if _stat(int(entry.name), _PGRP_FIELD) != child.pid:
            continue
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                return True
    return False


def _signal(child: Child, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
