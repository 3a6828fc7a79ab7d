"""A status file in words, for ``agent-connect status`` (worker.md §15).

Owns the sentences. Every text of the file is somebody else's: it is cut, and what a terminal would
obey is taken out.
"""

import math
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from agentconnect.core.status import Judgement, RelayBlock, State, StatusView, Verdict

TEXT_CHARS = 1000
_WIDTH = 12
_LIVES = frozenset({State.STARTING.value, State.SERVING.value})

_MOST_WORKSPACES, _MOST_CHANNELS = 20, 8
_COUNTS = (
    ("in_flight", "in flight"),
    ("delivered", "delivered"),
    ("failed", "failed"),
    ("skipped", "with nothing to send"),
)


class Process(StrEnum):
    """What the reader's own machine says of the pid in the file."""

    RUNNING = "running"
    GONE = "gone"
    UNKNOWN = "unknown"


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One file, judged. ``extra`` are the blocks that the judge does not read."""

    path: str
    judgement: Judgement
    process: Process = Process.UNKNOWN
    extra: Mapping[str, object] = {}


def lines(seen: Seen, wall_now: float, *, moving: bool = True) -> list[str]:
    """The block for a person. Without ``moving`` what changes by the second is left out."""
    judged = seen.judgement
    view = judged.status
    shown = [headline(seen, moving=moving), _row("file", seen.path)]
    if view is None:
        return shown
    if judged.detail and view.state != State.SERVING:
        shown.append(_row("detail", judged.detail))
    shown.append(_row("process", _process(seen, view, moving=moving)))
    if view.instance not in ("", "default"):
        shown.append(_row("instance", view.instance))
    if view.adapter:
        known = view.agent.startswith(f"{view.adapter}:")
        shown.append(
            _row("agent", view.agent if known else f"{view.adapter} {view.agent}".rstrip())
        )
    if view.repo:
        shown.append(_row("works in", view.repo))
    shown.append(_row("tasks", _tasks(view, moving=moving)))
    if view.relay is not None:
        shown += _relay(view.relay, wall_now, moving=moving)
    shown += [_row(name, text) for name, text in _blocks(seen.extra, wall_now, moving=moving)]
    if view.last_error is not None:
        ago = f"{duration(wall_now - view.last_error.at)} ago: " if moving else ""
        shown.append(_row("last error", ago + view.last_error.message))
    return shown


def headline(seen: Seen, *, moving: bool = True) -> str:
    """The verdict in a sentence."""
    judged = seen.judgement
    view, age = judged.status, judged.age_s
    word = judged.verdict.value
    if view is None:
        return f"{word}: {clean(judged.detail)}"
    if judged.verdict is Verdict.STALE:
        since = f" for {duration(age)}" if moving and age is not None else ""
        return (
            f"{word}: no sign of life{since}, promised every {duration(view.heartbeat_seconds)}; "
            f"it said that it was {clean(view.state)}{_gone(seen)}"
        )
    if judged.verdict is Verdict.ERROR and view.state != State.ERROR:
        return f'{word}: "{clean(view.state)}" is no state of a worker'
    if judged.verdict is Verdict.ERROR:
        return f"{word}: the worker ended, or waits, with an error"
    if judged.verdict is Verdict.STOPPED:
        return f"{word}: the worker was asked to stop, and did"
    return f"{word}: {view.state}{_written(age) if moving else ''}{_gone(seen)}"


def clean(text: str, limit: int = TEXT_CHARS) -> str:
    """One line without what a terminal would obey."""
    if len(text) > limit:
        text = text[: limit - 3] + "..."
    return "".join(c if c.isprintable() else "?" if ord(c) != 10 else " " for c in text)


def duration(seconds: float | None) -> str:
    """A time span for people, in its two largest units."""
    if seconds is None or not math.isfinite(seconds):
        return "an unknown time"
    left = max(0, round(seconds))
    if left < 60:
        return f"{left} s"
    for size, name, small, small_name in _UNITS:
        if left >= size:
            whole, rest = divmod(left, size)
            tail = f" {rest // small} {small_name}" if rest >= small else ""
            return f"{min(whole, 99_999)} {name}{tail}"
    raise AssertionError


_UNITS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


def _row(name: str, text: str) -> str:
    return f"  {clean(name, 40):<{_WIDTH}}{clean(text)}"


def _written(age: float | None) -> str:
    if age is None:
        return ""
    if age < -1:
        return f", written {duration(-age)} in the future: a clock was set"
    return f", written {duration(age)} ago"


def _gone(seen: Seen) -> str:
    view = seen.judgement.status
    if seen.process is not Process.GONE or view is None or view.state not in _LIVES:
        return ""
    return f"; but no process {view.pid} runs on this machine"


def _process(seen: Seen, view: StatusView, *, moving: bool) -> str:
    pid = f"pid {view.pid}" if view.pid is not None else "no pid"
    if view.uptime_seconds is not None and moving:
        pid += f", up {duration(view.uptime_seconds)}"
    return pid + (", gone" if seen.process is Process.GONE else "")


def _tasks(view: StatusView, *, moving: bool) -> str:
    if view.tasks_running <= 0:
        return "none"
    oldest = f", the oldest for {duration(view.oldest_task_seconds)}" if moving else ""
    return f"{view.tasks_running} in work or waiting{oldest}"


def _relay(block: RelayBlock, wall_now: float, *, moving: bool) -> list[str]:
    state = block.state or ("connected" if block.connected else "not connected")
    words = [f"{state}, {block.gateway}" if block.gateway else state]
    if block.state == "standby":
        words.append("another worker polls with this token")
    if block.recheck_s:
        words.append(f"looks again in {duration(block.recheck_s)}" if moving else "looks again")
    elif block.backoff_s and not block.connected:
        words.append(f"tries again in {duration(block.backoff_s)}" if moving else "tries again")
    if not block.connected and block.last_ok_ts and moving:
        words.append(f"last heard of {duration(wall_now - block.last_ok_ts)} ago")
    if block.acks_paused_s:
        words.append("acks are paused")
    if block.pending_results:
        words.append(f"answers that wait to be posted: {block.pending_results}")
    shown = [_row("relay", "; ".join(words))]
    if block.error:
        shown.append(_row("relay error", block.error))
    return shown


def _place(member: tuple[str, object]) -> tuple[int, str]:
    """How it is comes first, why comes last."""
    return {"state": 0, "reason": 2}.get(member[0], 1), member[0]


def _member(key: str, value: object, wall_now: float, *, moving: bool) -> str:
    """A plain member in words; a moment as how long ago it was."""
    if not isinstance(value, str | int | float) or value in ("", False):
        return ""
    words = key.replace("_", " ")
    if not key.endswith("_at") or isinstance(value, str):
        return f"{words} {value}"
    return f"{words[:-3]} {duration(wall_now - value)} ago" if moving else ""


def _blocks(extra: Mapping[str, object], wall_now: float, *, moving: bool) -> list[tuple[str, str]]:
    """Further blocks by their plain members: those of later versions are shown too."""
    found: list[tuple[str, str]] = []
    for name in sorted(extra)[:10]:
        block = extra[name]
        workers = block.get("workspaces") if isinstance(block, dict) else None
        if name == "channels" and isinstance(workers, dict) and workers:
            found += _channels(workers)
        elif isinstance(block, dict):
            members = sorted(block.items(), key=_place)[:20]
            told = [_member(key, value, wall_now, moving=moving) for key, value in members]
            found.append((name, ", ".join(filter(None, told)) or "nothing to say"))
    return found


def _channels(workers: Mapping[str, object]) -> list[tuple[str, str]]:
    """A line for each workspace with IM channels (channel-delivery.md §16)."""
    found: list[tuple[str, str]] = []
    for workspace in sorted(workers)[:_MOST_WORKSPACES]:
        worker = workers[workspace]
        told = _worker(worker) if isinstance(worker, dict) else "unreadable"
        found.append(("channels", f"{clean(workspace, 40)}: {told}"))
    if (more := len(workers) - _MOST_WORKSPACES) > 0:
        found.append(("channels", f"and {more} more workspaces"))
    return found


def _worker(worker: Mapping[str, object]) -> str:
    """How one worker is, each of its channels, and what has come of its deliveries."""
    channels = worker.get("channels")
    known = channels if isinstance(channels, dict) else {}
    names = sorted(known)
    each = [f"{clean(name, 40)} {clean(str(known[name]), 20)}" for name in names[:_MOST_CHANNELS]]
    if len(names) > _MOST_CHANNELS:
        each.append(f"and {len(names) - _MOST_CHANNELS} more channels")
    counts = [
        f"{number} {words}"
        for name, words in _COUNTS
        if isinstance(number := worker.get(name), int) and (number or name == "delivered")
    ]
    code = worker.get("last_code")
    if isinstance(code, str) and code:
        counts.append(f"the last failure was {clean(code, 60)}")
    parts = (clean(str(worker.get("state", "unknown")), 20), ", ".join(each), ", ".join(counts))
    return "; ".join(filter(None, parts))
