"""What is due: from stored tasks and the clock to fires, skips and one catch-up (§7.3).

:func:`plan` is pure. The caller writes ``Plan.tasks`` down first and carries out the rest after:
a fire that was persisted is not run again, one that was not persisted did not happen. A clock set
back fires nothing twice, because only slots after a task's anchor count; one set forward leaves
slots overdue, as a start does.
"""

from collections.abc import Container, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from agentconnect.core.daemon.cron import Cron, Zone, describe_time
from agentconnect.core.daemon.tasks import MAX_RUNS, Run, RunKind, Task

GRACE_MS = 60_000
"""A slot that is found later than this is overdue: the machine slept, or its clock was set."""

MAX_SLEEP_S = 20.0
"""Look again at least this often: a sleeping loop does not notice that the clock was set."""


class Fire(msgspec.Struct, frozen=True, kw_only=True):
    """One run to queue in ``task.session_id``; ``task`` is as it was, its target included."""

    task: Task
    fired_at: int
    kind: RunKind


class Missed(msgspec.Struct, frozen=True, kw_only=True):
    """The overdue one-shots of one session, to be queued as one prompt that delivers nowhere."""

    session_id: str
    tasks: tuple[Task, ...]
    prompt: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What one look at the clock comes to. ``tasks`` is the file's new content."""

    tasks: tuple[Task, ...]
    fires: tuple[Fire, ...] = ()
    missed: tuple[Missed, ...] = ()
    skipped: tuple[Fire, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether there is anything to write down."""
        return bool(self.fires or self.missed or self.skipped)

    @property
    def revoked(self) -> tuple[Task, ...]:
        """Tasks whose authorization goes: enabling a channel later must not burst old alerts."""
        return tuple(task for each in self.missed for task in each.tasks if task.target is not None)


class _Due(msgspec.Struct, frozen=True):
    slot: int
    overdue: bool


def plan(
    tasks: Sequence[Task],
    *,
    now: int,
    zone: Zone,
    busy: Container[str] = (),
    started_at: int | None = None,
) -> Plan:
    """Look once. ``busy`` are ids of tasks whose last fire is queued or runs still.

    ``started_at``: given with the first look of a run only; what was due before it is overdue.
    """
    kept: list[Task] = []
    fires: list[Fire] = []
    skipped: list[Fire] = []
    missed: dict[str, list[tuple[int, Task]]] = {}
    for task in tasks:
        due = _due(task, now=now, zone=zone, started_at=started_at)
        if due is None:
            kept.append(task)
            continue
        kind = RunKind.CATCHUP if due.overdue else RunKind.SCHEDULED
        if not task.recurring:
            if due.overdue:
                missed.setdefault(task.session_id, []).append((due.slot, task))
            else:
                fires.append(Fire(task=task, fired_at=due.slot, kind=kind))
        elif task.id in busy:
            skipped.append(Fire(task=task, fired_at=due.slot, kind=RunKind.SKIPPED))
            kept.append(_recorded(replace(task, since=due.slot), due.slot, RunKind.SKIPPED))
        else:
            fires.append(Fire(task=task, fired_at=due.slot, kind=kind))
            kept.append(_recorded(replace(task, last_fired_at=due.slot), due.slot, kind))
    return Plan(
        tasks=tuple(kept),
        fires=tuple(sorted(fires, key=lambda fire: fire.fired_at)),
        missed=tuple(_missed(session, found, zone) for session, found in missed.items()),
        skipped=tuple(skipped),
    )


def next_look_s(tasks: Iterable[Task], *, now: int, zone: Zone) -> float:
    """Seconds until something may be due, never more than :data:`MAX_SLEEP_S`."""
    slots = (Cron(task.cron, zone).after(task.anchor) for task in tasks if task.enabled)
    first = min((slot for slot in slots if slot is not None), default=None)
    if first is None:
        return MAX_SLEEP_S
    return min(max(first - now, 0) / 1000, MAX_SLEEP_S)


def _due(task: Task, *, now: int, zone: Zone, started_at: int | None) -> _Due | None:
    if not task.enabled:
        return None
    cron = Cron(task.cron, zone)
    first = cron.after(task.anchor)
    if first is None or first > now:
        return None
    before = -1 if started_at is None else started_at
    overdue = first <= before or now - first > GRACE_MS
    latest = cron.last_until(now) if task.recurring else first
    return _Due(max(first, latest or first), overdue)


def _recorded(task: Task, at: int, kind: RunKind) -> Task:
    return replace(task, runs=(*task.runs, Run(at=at, kind=kind))[-MAX_RUNS:])


def _missed(session_id: str, found: list[tuple[int, Task]], zone: Zone) -> Missed:
    found.sort(key=lambda pair: pair[0])
    lines = [f"- due {describe_time(slot, zone)}: {task.prompt}" for slot, task in found]
    text = "These one-time tasks were due while nothing could run. Do them now, in this order:"
    return Missed(
        session_id=session_id,
        tasks=tuple(task for _, task in found),
        prompt="\n".join((text, *lines)),
    )
