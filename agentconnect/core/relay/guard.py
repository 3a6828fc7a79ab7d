"""One poller per bearer: the judgement of the guard record (relay-wire.md §15).

Life is a fresh stamp, never a process id. The shell reads, asks :func:`judge` and writes in one
locked section; a guard that cannot be evaluated is *degraded* and polling goes on.
"""

import hashlib
import json
import math
from enum import StrEnum

import msgspec

STALE_S = 150.0  # longest single call, throttle and one missed stamp, with room
SKEW_S = 5.0
REFRESH_S = 20.0


class Guard(StrEnum):
    """The guard's states as the status shows them."""

    IDLE = "idle"
    HELD = "held"
    LOST = "lost"
    DEGRADED = "degraded"


class GuardRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Who polls. ``flock``: its writer held the workspace lock, so a dead one is known at once."""

    owner: str
    pid: int = 0
    host: str = ""
    acquired_ts: float = 0.0
    heartbeat_ts: float = 0.0
    flock: bool = False


class GuardVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """``write``: stamp the record now, in the same locked section."""

    state: Guard
    displaced: bool = False
    write: bool = False


def read_record(text: str | None) -> GuardRecord | None:
    """The record on disk; None for none, blank, not JSON or without an owner."""
    try:
        raw = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict) or not isinstance(raw.get("owner"), str):
        return None
    return GuardRecord(
        owner=raw["owner"],
        pid=_whole(raw.get("pid")),
        host=raw["host"] if isinstance(raw.get("host"), str) else "",
        acquired_ts=_stamp(raw.get("acquired_ts")),
        heartbeat_ts=_stamp(raw.get("heartbeat_ts")),
        flock=raw.get("flock") is True,
    )


def claim_name(gateway: str, secret: str) -> str:
    """The name under which all state folders of a user agree on who uses a bearer (§15 b)."""
    return hashlib.sha256(f"{gateway}\n{secret}".encode()).hexdigest()[:32]


def judge(
    record: GuardRecord | None,
    *,
    me: str,
    wall_now: float,
    held: bool,
    owns_workspace: bool = False,
) -> GuardVerdict:
    """What ``me`` may do, given the record on disk; ``held``: it holds the guard already.

    ``owns_workspace``: the asker holds the workspace lock, so a record whose writer held that
    lock is a dead process's and is taken at once.
    """
    if held:
        return _judge_holder(record, me=me, wall_now=wall_now)
    if record is None or record.owner == me or (owns_workspace and record.flock):
        return GuardVerdict(state=Guard.HELD, write=True)
    age_s = wall_now - record.heartbeat_ts
    if -SKEW_S <= age_s < STALE_S:
        return GuardVerdict(state=Guard.LOST)
    return GuardVerdict(state=Guard.HELD, write=True)


def stamped(
    record: GuardRecord | None, *, me: str, pid: int, host: str, wall_now: float, flock: bool
) -> GuardRecord:
    """The record to write; the time of taking it is kept while it stays mine."""
    mine = record is not None and record.owner == me and record.acquired_ts > 0
    return GuardRecord(
        owner=me,
        pid=pid,
        host=host,
        acquired_ts=record.acquired_ts if mine and record is not None else wall_now,
        heartbeat_ts=wall_now,
        flock=flock,
    )


def _judge_holder(record: GuardRecord | None, *, me: str, wall_now: float) -> GuardVerdict:
    if record is None:
        return GuardVerdict(state=Guard.HELD, write=True)
    if record.owner != me:
        return GuardVerdict(state=Guard.LOST, displaced=True)
    age_s = wall_now - record.heartbeat_ts
    return GuardVerdict(state=Guard.HELD, write=not 0 <= age_s < REFRESH_S)


def _stamp(value: object) -> float:
    """A stamp in seconds; 0 (long stale) for anything that is no number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0.0
    try:
        number = float(value)
    except OverflowError:
        return math.inf
    return 0.0 if math.isnan(number) else number


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
