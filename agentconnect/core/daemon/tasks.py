"""Scheduled tasks: their fields, their file and how the API shows them (§7.1, §7.2).

Times are whole milliseconds since the epoch. Where the file is and that it is durable is
``store/schedules``.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from agentconnect.core.daemon.cron import MAX_CRON_UNITS, Cron, Zone, check_cron
from agentconnect.core.daemon.fields import read_optional_delivery
from agentconnect.core.daemon.refusals import EMPTY_PATCH, Refusal, field_refusal
from agentconnect.core.daemon.target import Target, read_delivery
from agentconnect.core.daemon.text import trimmed
from agentconnect.core.destination import MAX_TEXT_UNITS, blank, units

MAX_TASKS = 50
MAX_RUNS = 20
MAX_TASK_NAME_UNITS = 200
MAX_OUTCOME_CHARS = 300

_FIELDS = ("cron", "prompt", "name", "recurring", "enabled", "delivery")

BAD_CRON = field_refusal("invalid_cron", "`cron` needs five fields and a time that will come.")
BAD_TASK_PROMPT = field_refusal(
    "invalid_prompt", "`prompt` must be a text that is not blank, of at most 100,000 units."
)
BAD_NAME = field_refusal("invalid_name", "`name` must be a text of at most 200 units.")
BAD_RECURRING = field_refusal("invalid_recurring", "`recurring` must be true or false.")
BAD_ENABLED = field_refusal("invalid_enabled", "`enabled` must be true or false.")


class RunKind(StrEnum):
    """What came of a slot: a run in time, one that was overdue, none because one was under way."""

    SCHEDULED = "scheduled"
    CATCHUP = "catchup"
    SKIPPED = "skipped"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One slot of a task that has passed."""

    at: int
    kind: RunKind


class Last(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the fire at ``at``, in our own sentences: nothing that anybody wrote."""

    at: int
    result: str
    delivery: str = ""
    failed: bool = False


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One stored task. Slots up to ``since`` do not count: it was changed, or skipped them.

    ``last`` is of the newest fire that has ended, as far as that could be written down.
    """

    id: str
    cron: str
    prompt: str
    recurring: bool
    enabled: bool
    created_at: int
    session_id: str
    last_fired_at: int | None = None
    name: str | None = None
    target: Target | None = None
    runs: tuple[Run, ...] = ()
    since: int = 0
    last: Last | None = None

    def __repr__(self) -> str:
        return f"Task({self.id!r}, {self.cron!r})"

    @property
    def anchor(self) -> int:
        """Only slots later than this one are still to come."""
        return max(self.created_at, self.last_fired_at or 0, self.since)


class NewTask(msgspec.Struct, frozen=True, kw_only=True):
    """The checked body of POST."""

    cron: str
    prompt: str
    name: str | None
    recurring: bool
    enabled: bool
    target: Target | None

    def __repr__(self) -> str:
        return f"NewTask({self.cron!r})"


class TaskPatch(msgspec.Struct, frozen=True, kw_only=True):
    """The checked body of PATCH; UNSET is what it does not speak of, None clears."""

    cron: str | UnsetType = UNSET
    prompt: str | UnsetType = UNSET
    name: str | UnsetType | None = UNSET
    recurring: bool | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    target: Target | UnsetType | None = UNSET

    def __repr__(self) -> str:
        return "TaskPatch(…)"


def read_new_task(body: dict[str, Any], *, now: int, zone: Zone) -> NewTask | Refusal:
    """The body of POST; the first field that is wrong decides."""
    defaults = {"cron": None, "prompt": None, "recurring": True, "enabled": True}
    found = _read(defaults | body, now=now, zone=zone)
    if isinstance(found, Refusal):
        return found
    target = read_optional_delivery(body)
    if isinstance(target, Refusal):
        return target
    return NewTask(
        cron=str(found.cron),
        prompt=str(found.prompt),
        name=found.name or None,
        recurring=found.recurring is True,
        enabled=found.enabled is True,
        target=target,
    )


def read_patch(body: dict[str, Any], *, now: int, zone: Zone) -> TaskPatch | Refusal:
    """The body of PATCH: at least one of the six; ``null`` clears the name or the delivery."""
    if not any(key in body for key in _FIELDS):
        return EMPTY_PATCH
    cleared = {"name": ""} if "name" in body and body["name"] is None else {}
    found = _read(body | cleared, now=now, zone=zone)
    if isinstance(found, Refusal) or "delivery" not in body:
        return found
    if body["delivery"] is None:
        return replace(found, target=None)
    target = read_optional_delivery(body)
    return target if isinstance(target, Refusal) else replace(found, target=target)


def created(new: NewTask, *, task_id: str, session_id: str, now: int) -> Task:
    """The task that POST stores."""
    return Task(
        id=task_id,
        cron=new.cron,
        prompt=new.prompt,
        recurring=new.recurring,
        enabled=new.enabled,
        created_at=now,
        session_id=session_id,
        name=new.name,
        target=new.target,
    )


def patched(task: Task, patch: TaskPatch, *, now: int) -> Task:
    """The task after a PATCH. Slots before a new cron, or while it was disabled, are not owed."""
    stated = {
        name: value
        for name in patch.__struct_fields__
        if (value := getattr(patch, name)) is not UNSET
    }
    changed = replace(task, **stated)
    if changed.cron != task.cron or (changed.enabled and not task.enabled):
        return replace(changed, since=now)
    return changed


def next_run(task: Task, *, now: int, zone: Zone) -> int | None:
    """The next slot; None for a disabled task, or where none is left."""
    return Cron(task.cron, zone).after(max(task.anchor, now)) if task.enabled else None


def view(
    task: Task, *, now: int, zone: Zone, outcome: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The task as the API shows it; ``delivery`` is there only if the task has one.

    ``outcome``: what came of its newest fire, where there was one.
    """
    shown: dict[str, Any] = {
        "id": task.id,
        "name": task.name,
        "cron": task.cron,
        "prompt": task.prompt,
        "recurring": task.recurring,
        "enabled": task.enabled,
        "createdAt": task.created_at,
        "lastFiredAt": task.last_fired_at,
        "nextRunAt": next_run(task, now=now, zone=zone),
        "sessionId": task.session_id,
        "runs": [{"at": run.at, "kind": run.kind.value} for run in task.runs],
    }
    if outcome is not None:
        shown["outcome"] = outcome
    return shown if task.target is None else shown | {"delivery": task.target.as_delivery()}


def encode_tasks(tasks: Iterable[Task]) -> bytes:
    """The text of ``scheduled_tasks.json``."""
    text = msgspec.json.encode({"v": 1, "tasks": [_entry(task) for task in tasks]})
    return msgspec.json.format(text, indent=2) + b"\n"


def decode_tasks(data: bytes) -> tuple[Task, ...]:
    """The tasks of a file. Raises: ValueError if any of it is malformed; nothing is left out."""
    try:
        file = _decoder.decode(data)
    except RecursionError as error:
        raise ValueError("it nests too deep") from error
    if file.v != 1:
        raise ValueError(f"it is of version {file.v}, this program reads 1")
    tasks = tuple(_task(entry) for entry in file.tasks)
    if len({task.id for task in tasks}) != len(tasks):
        raise ValueError("two of its tasks have the same id")
    return tasks


def _read(body: dict[str, Any], *, now: int, zone: Zone) -> TaskPatch | Refusal:
    """Every stated field but ``delivery``, in the order of §7.1."""
    found = TaskPatch()
    if "cron" in body:
        cron = _cron(body["cron"], now=now, zone=zone)
        if cron is None:
            return BAD_CRON
        found = replace(found, cron=cron)
    if "prompt" in body:
        prompt = _text(body["prompt"], MAX_TEXT_UNITS)
        if not prompt:
            return BAD_TASK_PROMPT
        found = replace(found, prompt=prompt)
    if "name" in body:
        name = _text(body["name"], MAX_TASK_NAME_UNITS)
        if name is None:
            return BAD_NAME
        found = replace(found, name=name or None)
    for key, refusal in (("recurring", BAD_RECURRING), ("enabled", BAD_ENABLED)):
        if key in body:
            if not isinstance(body[key], bool):
                return refusal
            found = replace(found, **{key: body[key]})
    return found


def _cron(value: object, *, now: int, zone: Zone) -> str | None:
    text = _text(value, MAX_CRON_UNITS)
    try:
        return text if text and Cron(text, zone).after(now) is not None else None
    except ValueError:
        return None


def _text(value: object, limit: int) -> str | None:
    """``value`` trimmed; None where it is no text or longer than ``limit`` units."""
    if not isinstance(value, str):
        return None
    text = trimmed(value)
    return text if units(text) <= limit else None


class _Entry(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    id: str
    cron: str
    prompt: str
    recurring: bool
    enabled: bool
    created_at: int
    last_fired_at: int | None
    session_id: str
    name: str | UnsetType | None = UNSET
    delivery: Any = UNSET
    runs: tuple[Run, ...] = ()
    since: int = 0
    last: Last | None = None


class _File(msgspec.Struct):
    v: int
    tasks: tuple[_Entry, ...]


_decoder = msgspec.json.Decoder(_File)


def _entry(task: Task) -> _Entry:
    return _Entry(
        id=task.id,
        cron=task.cron,
        prompt=task.prompt,
        recurring=task.recurring,
        enabled=task.enabled,
        created_at=task.created_at,
        last_fired_at=task.last_fired_at,
        session_id=task.session_id,
        name=UNSET if task.name is None else task.name,
        delivery=UNSET if task.target is None else task.target.as_delivery(),
        runs=task.runs,
        since=task.since if task.since > max(task.created_at, task.last_fired_at or 0) else 0,
        last=task.last,
    )


def _task(entry: _Entry) -> Task:
    """One stored task. Raises: ValueError."""
    if not entry.id or not entry.session_id or blank(entry.prompt):
        raise ValueError("a task lacks its id, session or prompt")
    times = (entry.created_at, entry.last_fired_at or 0, entry.since, *(r.at for r in entry.runs))
    if min(times) < 0:
        raise ValueError("a task holds a time before 1970")
    check_cron(entry.cron)
    target = None if entry.delivery is UNSET else read_delivery(entry.delivery)
    if target is None and entry.delivery is not UNSET:
        raise ValueError("a task's delivery is malformed")
    return Task(
        id=entry.id,
        cron=entry.cron,
        prompt=entry.prompt,
        recurring=entry.recurring,
        enabled=entry.enabled,
        created_at=entry.created_at,
        session_id=entry.session_id,
        last_fired_at=entry.last_fired_at,
        name=None if entry.name is UNSET else entry.name,
        target=target,
        runs=entry.runs,
        since=entry.since,
        last=entry.last,
    )
