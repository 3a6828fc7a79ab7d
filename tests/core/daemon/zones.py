"""Time zones from their rules alone: what a machine knows of zones does not change a test."""

import io
import struct
from zoneinfo import ZoneInfo


def zone(name: str, standard_s: int, rule: str) -> ZoneInfo:
    """A zone of one POSIX ``rule`` for all years, as a file of version 2 holds it."""
    letters = b"STD\0"
    counts = struct.pack(">6l", 0, 0, 0, 0, 1, len(letters))
    block = b"TZif2" + bytes(15) + counts + struct.pack(">lbb", standard_s, 0, 0) + letters
    return ZoneInfo.from_file(io.BytesIO(block + block + f"\n{rule}\n".encode()), key=name)


BERLIN = zone("Berlin", 3600, "CET-1CEST,M3.5.0,M10.5.0/3")
NEW_YORK = zone("New York", -5 * 3600, "EST5EDT,M3.2.0,M11.1.0")
LORD_HOWE = zone("Lord Howe", 37800, "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0")
"""Half an hour of summer time, in the south."""
CAIRO = zone("Cairo", 7200, "EET-2EEST,M4.5.5/0,M10.5.4/24")
"""The gap is at midnight."""
UTC0 = zone("UTC", 0, "UTC0")
