"""Does a conversation go on, and if not, why not (worker.md §12).

Owns the rule; the file is ``store/sessions``, the announcement ``wording_acp``. A record counts
attempts, not answers, so that a turn that crashed still uses up the budget.
"""

from enum import StrEnum

import msgspec

from agentconnect.core.task import SessionId, SessionKey


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of one conversation. ``updated_at`` is wall-clock seconds."""

    key: SessionKey
    session_id: SessionId
    cwd: str
    turns: int = 0
    updated_at: float = 0.0


class Retired(StrEnum):
    """Why a stored conversation is not continued."""

    CWD = "cwd"
    BUDGET = "budget"
    IDLE = "idle"


class SessionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """0 means no limit."""

    turns: int = 20
    idle_s: float = 3600.0


def retired(
    record: SessionRecord, limits: SessionLimits, *, cwd: str, wall_now: float
) -> Retired | None:
    """Why ``record`` must not be continued; None: go on."""
    if record.cwd != cwd:
        return Retired.CWD
    if limits.turns and record.turns >= limits.turns:
        return Retired.BUDGET
    if limits.idle_s and wall_now - record.updated_at > limits.idle_s:
        return Retired.IDLE
    return None


def attempt(record: SessionRecord, wall_now: float) -> SessionRecord:
    """The record of a turn that is about to be prompted."""
    return msgspec.structs.replace(record, turns=record.turns + 1, updated_at=wall_now)


def touched(record: SessionRecord, wall_now: float) -> SessionRecord:
    """The record of a turn that ended: silence is counted from here."""
    return msgspec.structs.replace(record, updated_at=wall_now)


def idle_words(seconds: float) -> str:
    """How long a conversation was silent, in the unit a person would use."""
    if seconds < 90:
        return f"{seconds:.0f}s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f}m"
    return f"{seconds / 3600:.1f}h"
