"""Scheduled tasks of all workspaces: kept in their files, fired when they are due (§7).

What a look at the clock comes to is written down first and carried out then, so that a fire that
was persisted is not run again.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

import trio
from msgspec.structs import replace

from agentconnect.core.daemon.cron import Zone
from agentconnect.core.daemon.outcomes import Shown, newest, overview, told
from agentconnect.core.daemon.refusals import (
    TASK_NOT_FOUND,
    TASK_SESSION_FAILED,
    TASKS_UNREADABLE,
    TASKS_UNWRITABLE,
    TOO_MANY_TASKS,
    Refusal,
)
from agentconnect.core.daemon.schedule import MAX_SLEEP_S, Fire, Plan, next_look_s, plan
from agentconnect.core.daemon.tasks import (
    MAX_RUNS,
    MAX_TASKS,
    NewTask,
    Run,
    RunKind,
    Task,
    TaskPatch,
    created,
    patched,
)
from agentconnect.core.daemon.workspaces import Workspace
from agentconnect.core.errors import StoreUnreadableError
from agentconnect.daemon.asking import RefusedError
from agentconnect.daemon.sessions import Sessions
from agentconnect.store.schedules import ScheduleFile

log = logging.getLogger("agentconnect.daemon")

TASK_BUSY = Refusal(
    status=409, error="This task is queued or runs still.", code="scheduled_task_busy"
)


class Scheduler:
    """One for the daemon. ``now`` is in whole milliseconds since the epoch."""

    def __init__(
        self,
        files: Mapping[str, ScheduleFile],
        workspaces: Sequence[Workspace],
        sessions: Sessions,
        *,
        zone: Zone,
        now: Callable[[], int],
        problem: Callable[[str, str], None],
    ) -> None:
        """``problem`` hears of a file that cannot be read, once for each time it breaks, and ``""``
        when it is whole again; what it is about comes second.
        """
        self._files = files
        self._workspaces = workspaces
        self._sessions = sessions
        self.zone = zone
        self.now = now
        self._problem = problem
        self._broken: dict[str, str] = {}
        self._wake = trio.Event()
        self._ended: set[str] = set()
        self._news = trio.Event()
        sessions.outcomes.on_end = self._heard

    async def register(self) -> None:
        """Rebuild the authorizations of all stored tasks, at the start."""
        for workspace in self._workspaces:
            for task in await self._loaded(workspace):
                self._sessions.register(workspace, task)

    async def run(self) -> None:
        """Fire what is due until cancelled."""
        started_at: int | None = self.now()
        while True:
            sleep_s = MAX_SLEEP_S
            for workspace in self._workspaces:
                sleep_s = min(sleep_s, await self._look(workspace, started_at))
            started_at = None
            with trio.move_on_after(sleep_s):  # may end: it is time to look
                await self._wake.wait()
            self._wake = trio.Event()

    def wake(self) -> None:
        """Look at the clock and the tasks again."""
        self._wake.set()

    async def _look(self, workspace: Workspace, started_at: int | None) -> float:
        """One look at one workspace; seconds until the next."""
        try:
            planned: list[Plan] = []

            def rule(tasks: tuple[Task, ...]) -> Sequence[Task] | None:
                found = plan(
                    tasks,
                    now=self.now(),
                    zone=self.zone,
                    busy=self._sessions.busy_tasks(),
                    started_at=started_at,
                )
                planned.append(found)
                return found.tasks if found.changed else None

            tasks = await self._files[workspace.id].change(rule)
            self._mended(workspace)
            for found in planned:
                self._carry_out(workspace, found)
            return next_look_s(tasks, now=self.now(), zone=self.zone)
        except (StoreUnreadableError, OSError) as error:
            self._told(workspace, error)
            return MAX_SLEEP_S
        except Exception as error:  # noqa: BLE001 - the other workspaces' tasks go on
            log.error("looking at tasks failed by our mistake: %s", type(error).__name__)  # noqa: TRY400
            return MAX_SLEEP_S

    def _carry_out(self, workspace: Workspace, found: Plan) -> None:
        for task in found.revoked:
            self._sessions.revoke(workspace, task)
        for fire in found.fires:
            self._sessions.fire(workspace, fire)
        for missed in found.missed:
            self._sessions.catch_up(workspace, missed)

    # --- what came of them ------------------------------------------------------------------

    def _heard(self, workspace: str) -> None:
        self._ended.add(workspace)
        self._news.set()

    async def keep(self) -> None:
        """Write down what came of fires as soon as it is known, until cancelled."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            await self.kept()

    async def kept(self) -> None:
        """Write down now what is not yet; what cannot be written waits for the next one."""
        for workspace in [each for each in self._workspaces if each.id in self._ended]:
            self._ended.discard(workspace.id)
            try:
                await self._files[workspace.id].change(self._sessions.outcomes.remembered)
            except (StoreUnreadableError, OSError) as error:
                self._ended.add(workspace.id)
                self._told(workspace, error)
            except Exception as error:  # noqa: BLE001 - the tasks themselves run on
                log.error("an outcome was not written by our mistake: %s", type(error).__name__)  # noqa: TRY400

    def outcome(self, workspace: Workspace, task: Task) -> dict[str, Any] | None:
        """What came of a task's newest fire, as the API shows it."""
        busy = self._sessions.busy_tasks()
        return told(newest(workspace.id, task, self._sessions.outcomes, busy))

    # --- the routes -------------------------------------------------------------------------

    async def tasks(self, workspace: Workspace) -> tuple[Task, ...]:
        """The stored tasks. Raises: RefusedError."""
        try:
            return await self._files[workspace.id].load()
        except (StoreUnreadableError, OSError) as error:
            self._told(workspace, error)
            raise RefusedError(TASKS_UNREADABLE) from None

    async def overview(self) -> list[Shown]:
        """Every task as its owner sees it, with what came of it; trouble with a file is a row."""
        stored: dict[str, tuple[Task, ...]] = {}
        broken: list[Shown] = []
        for each in self._workspaces:
            try:
                stored[each.id] = await self.tasks(each)
            except RefusedError as error:
                told = error.refusal.error
                broken.append(Shown(title=each.id, workspace=each.id, result=told, failed=True))
        sessions = self._sessions
        busy = sessions.busy_tasks()
        return broken + overview(stored, sessions.outcomes, busy, now=self.now(), zone=self.zone)

    async def add(self, workspace: Workspace, new: NewTask) -> Task:
        """Store a task, in a session of its own. Raises: RefusedError."""
        self._sessions.check(workspace)
        if len(await self.tasks(workspace)) >= MAX_TASKS:
            raise RefusedError(TOO_MANY_TASKS)
        session = await self._sessions.create(workspace)
        if session is None:
            raise RefusedError(TASK_SESSION_FAILED)
        stored = False
        try:
            task = created(new, task_id=str(uuid4()), session_id=session.id, now=self.now())

            def rule(tasks: tuple[Task, ...]) -> Sequence[Task]:
                if len(tasks) >= MAX_TASKS:
                    raise RefusedError(TOO_MANY_TASKS)
                return (*tasks, task)

            await self._change(workspace, rule)
            stored = True
        finally:
            if not stored:
                self._sessions.close(session)
        self._sessions.register(workspace, task)
        self.wake()
        return task

    async def patch(self, workspace: Workspace, task_id: str, patch: TaskPatch) -> Task:
        """Change a stored task. Raises: RefusedError."""
        found: list[Task] = []

        def rule(tasks: tuple[Task, ...]) -> Sequence[Task]:
            found.append(patched(_of(tasks, task_id), patch, now=self.now()))
            return [found[0] if task.id == task_id else task for task in tasks]

        await self._change(workspace, rule)
        if found[0].target is None:
            self._sessions.revoke(workspace, found[0])
        self._sessions.register(workspace, found[0])
        self.wake()
        return found[0]

    async def remove(self, workspace: Workspace, task_id: str) -> None:
        """Delete a stored task. Raises: RefusedError."""
        found: list[Task] = []

        def rule(tasks: tuple[Task, ...]) -> Sequence[Task]:
            found.append(_of(tasks, task_id))
            return [task for task in tasks if task.id != task_id]

        await self._change(workspace, rule)
        self._sessions.revoke(workspace, found[0])

    async def run_now(self, workspace: Workspace, task_id: str) -> Fire:
        """Fire a task out of turn, as at a slot of now. Raises: RefusedError."""
        self._sessions.check(workspace)
        fired: list[Fire] = []

        def rule(tasks: tuple[Task, ...]) -> Sequence[Task]:
            task = _of(tasks, task_id)
            if task_id in self._sessions.busy_tasks():
                raise RefusedError(TASK_BUSY)
            at = max(self.now(), (task.last_fired_at or 0) + 1)
            fired.append(Fire(task=task, fired_at=at, kind=RunKind.SCHEDULED))
            run = Run(at=at, kind=RunKind.SCHEDULED)
            after = replace(task, last_fired_at=at, runs=(*task.runs, run)[-MAX_RUNS:])
            return [
                after if each.id == task_id else each
                for each in tasks
                if each.id != task_id or each.recurring
            ]

        await self._change(workspace, rule)
        self._sessions.fire(workspace, fired[0])
        return fired[0]

    async def _change(
        self, workspace: Workspace, rule: Callable[[tuple[Task, ...]], Sequence[Task]]
    ) -> None:
        try:
            await self._files[workspace.id].change(rule)
        except StoreUnreadableError as error:
            self._told(workspace, error)
            raise RefusedError(TASKS_UNREADABLE) from None
        except OSError as error:
            log.warning("the tasks of %s cannot be written: %s", workspace.id, error.strerror)
            raise RefusedError(TASKS_UNWRITABLE) from None

    # --- a file that cannot be read ---------------------------------------------------------

    async def _loaded(self, workspace: Workspace) -> tuple[Task, ...]:
        try:
            return await self._files[workspace.id].load()
        except (StoreUnreadableError, OSError) as error:
            self._told(workspace, error)
            return ()

    def _told(self, workspace: Workspace, error: Exception) -> None:
        sentence = (
            str(error)
            if isinstance(error, StoreUnreadableError)
            else (
                f"The scheduled tasks of {workspace.id} cannot be read or written: "
                f"{getattr(error, 'strerror', '') or type(error).__name__}."
            )
        )
        if self._broken.get(workspace.id) != sentence:
            self._broken[workspace.id] = sentence
            log.warning("%s", sentence)
            self._problem(sentence, _about(workspace))

    def _mended(self, workspace: Workspace) -> None:
        if self._broken.pop(workspace.id, None) is not None:
            self._problem("", _about(workspace))


def _about(workspace: Workspace) -> str:
    return f"the tasks of {workspace.id}"


def _of(tasks: tuple[Task, ...], task_id: str) -> Task:
    found = next((task for task in tasks if task.id == task_id), None)
    if found is None:
        raise RefusedError(TASK_NOT_FOUND)
    return found
