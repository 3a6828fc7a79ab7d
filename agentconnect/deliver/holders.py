"""Who holds a claim: a process by name, and whether it still lives.

A claim of a process that was killed is free at once where that can be known (Linux, same boot, same
process namespace); elsewhere, and for a process that hangs, its expiry frees it.
"""

import os
import secrets
from pathlib import Path


def holder_name() -> str:
    """A name for one sender in this process; no two are alike."""
    return f"{_here()} {os.getpid()} {_started(os.getpid())} {secrets.token_hex(8)}"


def lives(name: str) -> bool:
    """False only where the holder is known to be gone."""
    try:
        here, pid, started, _ = name.split(" ")
        number = int(pid)
    except ValueError:
        return False
    if here != _here() or not started.isdigit():
        return True
    return _started(number) == started


def _here() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        space = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - not a path, a name
    except OSError:
        return "elsewhere"
    return f"{boot}:{space}"


def _started(pid: int) -> str:
    """The process's start in clock ticks; ``gone`` for none or one that only waits to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return "gone"
    fields = stat.rpartition(b")")[2].split()  # the name before it may hold anything
    return "gone" if fields[0] in {b"Z", b"X"} else fields[19].decode()
