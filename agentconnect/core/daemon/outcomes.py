"""What came of the fires of scheduled tasks, in sentences for their owner.

Fed with the events of §12 as sessions tell them. The newest that has ended is written into the file
of §7.2 beside its task, so that a restart knows it too; a one-shot has no task there any more, and
what came of it is known until the worker ends.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from agentconnect.core.daemon.capture import END_TURN
from agentconnect.core.daemon.cron import Zone
from agentconnect.core.daemon.events import DELIVERY_RESULT, TURN_COMPLETE, TURN_ERROR
from agentconnect.core.daemon.host import Status
from agentconnect.core.daemon.tasks import MAX_OUTCOME_CHARS, Last, RunKind, Task, next_run

MOST = 200
TITLE_CHARS = 120

OPEN = "It runs, or waits for its turn."
STOPPED = "It was stopped before it had ended."
LEFT_OUT = "It was left out: the run before it was not over."
BEFORE_START = "It ran before the worker was last started; what came of it is not known any more."
ON_ITS_WAY = "On its way."
UNHEARD = "The worker ended meanwhile: it may have been delivered."
OVERDUE = "It was overdue: the agent was asked late, and nothing was delivered."

_REASONS = {
    END_TURN: "It ran and was answered.",
    "cancelled": STOPPED,
    "max_tokens": "It ended early: the answer became longer than the agent may write.",
    "max_turn_requests": "It ended early: the agent took more steps than a turn has.",
    "refusal": "The agent refused it.",
}
_NOT_GOOD = "Not delivered: only the answer of a run that ended well is."
_DELIVERIES = {
    Status.DELIVERED.value: "Delivered.",
    Status.SKIPPED.value: "Not delivered: the answer was empty.",
}


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one fire. ``delivery`` is "" where nothing is delivered, or none yet."""

    workspace: str
    task: Task
    at: int | None = None
    result: str = OPEN
    delivery: str = ""
    failed: bool = False


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """One task as its owner sees it. Times are milliseconds since 1970; ``to`` is a channel."""

    title: str
    workspace: str
    cron: str = ""
    once: bool = False
    enabled: bool = True
    to: str = ""
    next_at: int | None = None
    last_at: int | None = None
    result: str = ""
    delivery: str = ""
    failed: bool = False


class Outcomes:
    """The newest fire of each task, of at most :data:`MOST` tasks.

    ``on_end`` hears of the workspace in which something has ended that is worth writing down.
    """

    def __init__(self) -> None:
        self._newest: dict[str, Outcome] = {}
        self.on_end: Callable[[str], None] = lambda workspace: None

    def fired(self, workspace: str, task: Task, at: int) -> None:
        """A fire was queued."""
        self._keep(Outcome(workspace=workspace, task=task, at=at))

    def missed(self, workspace: str, task: Task) -> None:
        """A one-shot was overdue, and is asked for without its delivery."""
        self._keep(Outcome(workspace=workspace, task=task, result=OVERDUE, failed=True))

    def heard(self, kind: str, data: Mapping[str, Any]) -> None:
        """An event of a session; one of no fire, or of an older one, says nothing."""
        found = self._newest.get(str(data.get("taskId", "")))
        if found is not None and found.at == data.get("firedAt"):
            self._newest[found.task.id] = _after(found, kind, data)
            if found.task.recurring:
                self.on_end(found.workspace)

    def of(self, task_id: str) -> Outcome | None:
        """The newest fire of a task since the start."""
        return self._newest.get(task_id)

    def remembered(self, tasks: Sequence[Task]) -> list[Task] | None:
        """The tasks with what came of their newest fires; None where nothing is new."""
        after = [self._with_last(task) for task in tasks]
        return after if after != list(tasks) else None

    def _with_last(self, task: Task) -> Task:
        known = self._newest.get(task.id)
        if known is None or known.result == OPEN or known.at is None:
            return task
        if known.at != task.last_fired_at:  # fired again meanwhile
            return task
        result, delivery = known.result[:MAX_OUTCOME_CHARS], known.delivery[:MAX_OUTCOME_CHARS]
        last = Last(at=known.at, result=result, delivery=delivery, failed=known.failed)
        return replace(task, last=last)

    def past(self, stored: Container[str]) -> list[Outcome]:
        """Of one-shots that are in no file any more, the newest first."""
        found = reversed(self._newest.values())
        return [one for one in found if not one.task.recurring and one.task.id not in stored]

    def _keep(self, outcome: Outcome) -> None:
        self._newest.pop(outcome.task.id, None)
        self._newest[outcome.task.id] = outcome
        if len(self._newest) > MOST:
            del self._newest[next(iter(self._newest))]


def overview(
    stored: Mapping[str, Sequence[Task]],
    outcomes: Outcomes,
    busy: Container[str],
    *,
    now: int,
    zone: Zone,
) -> list[Shown]:
    """The stored tasks of each workspace, what comes next first; then one-shots that are done."""
    found: list[Shown] = []
    for workspace, tasks in stored.items():
        for task in tasks:
            shown = _shown(workspace, task, newest(workspace, task, outcomes, busy))
            found.append(replace(shown, next_at=next_run(task, now=now, zone=zone)))
    found.sort(key=lambda one: (one.next_at is None, one.next_at or 0))
    ids = {task.id for tasks in stored.values() for task in tasks}
    past = (_ended(one, busy) or one for one in outcomes.past(ids))
    return found + [_shown(one.workspace, one.task, one) for one in past]


def newest(workspace: str, task: Task, outcomes: Outcomes, busy: Container[str]) -> Outcome | None:
    """What is known of the newest fire of a stored task; None: there was none."""
    known = _ended(outcomes.of(task.id), busy) or _from_file(workspace, task)
    return _newer(known, workspace, task)


def told(known: Outcome | None) -> dict[str, Any] | None:
    """An outcome as the API shows it."""
    if known is None:
        return None
    return {
        "at": known.at,
        "result": known.result,
        "delivery": known.delivery,
        "failed": known.failed,
    }


def _after(known: Outcome, kind: str, data: Mapping[str, Any]) -> Outcome:
    if kind == DELIVERY_RESULT:
        status = str(data.get("status"))
        why = _DELIVERIES.get(status) or f"Not delivered: {data.get('error')}"
        return replace(known, delivery=why, failed=known.failed or status == Status.FAILED)
    if kind == TURN_COMPLETE:
        reason = str(data.get("stopReason"))
        result, good = _REASONS.get(reason, STOPPED), reason == END_TURN
    elif kind == TURN_ERROR:
        result, good = str(data.get("message")), False
    else:
        return known
    if known.task.target is None:
        return replace(known, result=result, failed=not good)
    return replace(
        known, result=result, failed=not good, delivery=ON_ITS_WAY if good else _NOT_GOOD
    )


def _ended(known: Outcome | None, busy: Container[str]) -> Outcome | None:
    """A fire of which no more will be heard was stopped."""
    if known is None or known.result != OPEN or known.task.id in busy:
        return known
    return replace(known, result=STOPPED, failed=True)


def _from_file(workspace: str, task: Task) -> Outcome | None:
    if task.last_fired_at is None:
        return None
    last, at = task.last, task.last_fired_at
    if last is None or last.at != at:
        return Outcome(workspace=workspace, task=task, at=at, result=BEFORE_START)
    delivery, failed = last.delivery, last.failed
    if delivery == ON_ITS_WAY:
        delivery, failed = UNHEARD, True
    return Outcome(
        workspace=workspace, task=task, at=at, result=last.result, delivery=delivery, failed=failed
    )


def _newer(known: Outcome | None, workspace: str, task: Task) -> Outcome | None:
    """A slot that was left out after it is the newest, unless the run it waited for goes on."""
    last = task.runs[-1] if task.runs else None
    if last is None or last.kind is not RunKind.SKIPPED or (known and known.result == OPEN):
        return known
    if known is not None and (known.at or 0) > last.at:
        return known
    return Outcome(workspace=workspace, task=task, at=last.at, result=LEFT_OUT, failed=True)


def _shown(workspace: str, task: Task, known: Outcome | None) -> Shown:
    line = " ".join((task.name or task.prompt).split())
    made = Shown(
        title=line if len(line) <= TITLE_CHARS else f"{line[: TITLE_CHARS - 1]}…",
        workspace=workspace,
        cron=task.cron,
        once=not task.recurring,
        enabled=task.enabled,
        to="" if task.target is None else task.target.channel_name,
    )
    if known is None:
        return made
    return replace(
        made, last_at=known.at, result=known.result, delivery=known.delivery, failed=known.failed
    )
