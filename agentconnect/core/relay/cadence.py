"""When to ask again: back-off, the poll loop's state, and gates as functions of ``mono_now``.

Owns no clock and no randomness: both come in as arguments. "Never yet" is None, not 0 (a
monotonic clock may start near 0). The guard is judged in ``guard``, stranded ids in ``journal``.
relay-wire.md §3.1, §6, §16, §17.
"""

from email.utils import mktime_tz, parsedate_tz
from enum import StrEnum

import msgspec

BACKOFF_START_S = 1.0
BACKOFF_CAP_S = 60.0  # equals the visibility window: a longer wait loses leases for sure
JITTER_FROM_S = 4.0
JITTER_SHARE = 0.2
AUTH_RECHECK_S = 30.0
AUTH_REJECTIONS = 3  # an edge answers 403 too, so one rejection proves nothing
AUTH_SPAN_S = 60.0
RETRY_AFTER_CAP_S = 60.0
ANTI_SPIN_S = 1.0


class Backoff:
    """The ladder 1, 2, 4 … 60 s; one success clears it."""

    def __init__(self, start_s: float = BACKOFF_START_S, cap_s: float = BACKOFF_CAP_S) -> None:
        self._start_s = start_s
        self._cap_s = cap_s
        self.current_s = 0.0

    def next(self) -> float:
        """One more failure: the nominal seconds to wait."""
        self.current_s = next_rung(self.current_s, self._start_s, self._cap_s)
        return self.current_s

    def reset(self) -> None:
        """A success."""
        self.current_s = 0.0


class PollKind(StrEnum):
    """What a poll came to."""

    OK = "ok"
    FAILED = "failed"
    ANOMALY = "anomaly"  # a 2xx without a list of tasks: a batch may be lost in it
    REJECTED = "rejected"
    ROTATED = "rotated"  # rejected, and the token file holds a new secret


class AuthRule(msgspec.Struct, frozen=True, kw_only=True):
    """How many rejections over how long end a worker that has no token file to watch (§16)."""

    rejections: int = AUTH_REJECTIONS
    span_s: float = AUTH_SPAN_S


class LoopState(msgspec.Struct, frozen=True, kw_only=True):
    """What the loop remembers between polls."""

    ladder_s: float = 0.0
    rejections: int = 0
    first_rejection: float | None = None


class LoopVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What to show and how long to wait after a poll; ``delay_s`` is nominal, without jitter."""

    state: str
    delay_s: float = 0.0
    backoff_s: float = 0.0
    stopped: bool = False


_DEFAULT_RULE = AuthRule()


def next_rung(current_s: float, start_s: float, cap_s: float) -> float:
    """The rung after ``current_s``; 0 stands for "healthy"."""
    return min(current_s * 2 if current_s > 0 else start_s, cap_s)


def jittered(nominal_s: float, unit: float) -> float:
    """``nominal_s`` ± 20 % from 4 s on; ``unit`` is a random number in [0, 1).

    The longest wait only gets shorter: a minute is what others count on.
    """
    if nominal_s < JITTER_FROM_S:
        return nominal_s
    least_s = nominal_s * (1.0 - JITTER_SHARE)
    most_s = min(nominal_s * (1.0 + JITTER_SHARE), max(nominal_s, BACKOFF_CAP_S))
    return least_s + (most_s - least_s) * unit


def poll_kind(status: int | None, *, listed: bool) -> PollKind:
    """Class of a poll's answer; ``status`` None is the network, ``listed`` a list of tasks."""
    if status in (401, 403):
        return PollKind.REJECTED
    if status is None or not 200 <= status < 300:
        return PollKind.FAILED
    return PollKind.OK if listed else PollKind.ANOMALY


def after_poll(
    state: LoopState,
    kind: PollKind,
    *,
    mono_now: float,
    has_file: bool,
    retry_after_s: float | None = None,
    rule: AuthRule = _DEFAULT_RULE,
) -> tuple[LoopState, LoopVerdict]:
    """The loop's next state and what the status shows (§6, §16)."""
    if kind is PollKind.OK:
        return LoopState(), LoopVerdict(state="connected")
    if kind is PollKind.ROTATED:
        return LoopState(ladder_s=state.ladder_s), LoopVerdict(state="reconnecting")
    if kind is PollKind.REJECTED:
        return _after_rejection(state, mono_now=mono_now, has_file=has_file, rule=rule)
    ladder_s = next_rung(state.ladder_s, BACKOFF_START_S, BACKOFF_CAP_S)
    wait_s = max(ladder_s, min(retry_after_s or 0.0, RETRY_AFTER_CAP_S))
    return (
        msgspec.structs.replace(state, ladder_s=ladder_s),
        LoopVerdict(state="reconnecting", delay_s=wait_s, backoff_s=wait_s),
    )


def anti_spin_s(elapsed_s: float, *, empty: bool) -> float:
    """Wait before the next poll after an empty list that came at once (★8); else 0."""
    return max(0.0, ANTI_SPIN_S - max(0.0, elapsed_s)) if empty else 0.0


def remaining_s(until: float | None, *, mono_now: float) -> float:
    """Seconds left of a pause that ends at ``until`` (None: no pause)."""
    return 0.0 if until is None else max(0.0, until - mono_now)


def retry_after_s(header: str | None, *, wall_now: float) -> float | None:
    """What a ``Retry-After`` header asks for, at most 60 s; None if it says nothing usable."""
    text = (header or "").strip()[:64]
    if text.isascii() and text.isdigit():
        return float(min(int(text), int(RETRY_AFTER_CAP_S)))
    try:
        parsed = parsedate_tz(text)
        moment = None if parsed is None else mktime_tz(parsed)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return None if moment is None else min(max(0.0, moment - wall_now), RETRY_AFTER_CAP_S)


def _after_rejection(
    state: LoopState, *, mono_now: float, has_file: bool, rule: AuthRule
) -> tuple[LoopState, LoopVerdict]:
    first = mono_now if state.first_rejection is None else state.first_rejection
    count = state.rejections + 1
    after = LoopState(ladder_s=state.ladder_s, rejections=count, first_rejection=first)
    if not has_file and count >= rule.rejections and mono_now - first >= rule.span_s:
        return after, LoopVerdict(state="fatal", stopped=True)
    return after, LoopVerdict(state="auth-wait", delay_s=AUTH_RECHECK_S, backoff_s=AUTH_RECHECK_S)
