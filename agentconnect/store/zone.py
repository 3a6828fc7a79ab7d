"""The time zone of this machine with its rules, as the C library finds it.

An offset would not do: a schedule needs to know when the clocks are changed.
"""

import io
import struct
from collections.abc import Mapping
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

LOCALTIME = Path("/etc/localtime")
_NO_ZONE = (ZoneInfoNotFoundError, OSError, ValueError, struct.error)


class FoundZone(msgspec.Struct, frozen=True, kw_only=True):
    """``problem`` is a sentence where UTC stands in for something unreadable, else ""."""

    zone: ZoneInfo
    problem: str = ""


def local_zone(environ: Mapping[str, str], localtime: Path = LOCALTIME) -> FoundZone:
    """The zone of ``TZ`` (a name, a path or a POSIX rule), else of the system. Blocking."""
    stated = environ.get("TZ")
    if stated is None:
        try:
            return FoundZone(zone=_from_file(localtime))
        except FileNotFoundError:
            return FoundZone(zone=rule_zone("UTC0"))
        except _NO_ZONE:
            return _utc(f"{localtime} holds no time zone")
    name = stated.removeprefix(":")
    if not name:
        return FoundZone(zone=rule_zone("UTC0"))
    try:
        return FoundZone(zone=_named(name))
    except _NO_ZONE:
        return _utc("TZ names no time zone that this machine knows")


def rule_zone(rule: str) -> ZoneInfo:
    """The zone of one POSIX rule (``CET-1CEST,M3.5.0,M10.5.0/3``). Raises: ValueError."""
    if not rule:
        raise ValueError("an empty rule names no zone")
    counts = struct.pack(">6l", 0, 0, 0, 0, 1, 4)  # one type of time, named by four bytes
    block = b"TZif2" + bytes(15) + counts + struct.pack(">lbb", 0, 0, 0) + b"STD\0"
    data = block + block + b"\n" + rule.encode("ascii") + b"\n"
    return ZoneInfo.from_file(io.BytesIO(data), key=rule)


def _named(name: str) -> ZoneInfo:
    if name.startswith("/"):
        return _from_file(Path(name))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError, ValueError):
        return rule_zone(name)


def _from_file(path: Path) -> ZoneInfo:
    with path.open("rb") as file:
        return ZoneInfo.from_file(file, key=str(path))


def _utc(why: str) -> FoundZone:
    return FoundZone(zone=rule_zone("UTC0"), problem=f"{why}: scheduled tasks run by UTC.")
