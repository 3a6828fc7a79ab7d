"""All sessions of the daemon, and their prompts with what each may deliver (§5, §6)."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import trio

from agentconnect.core.daemon.authorizations import Authorizations
from agentconnect.core.daemon.fields import Prompt
from agentconnect.core.daemon.outcomes import Outcomes
from agentconnect.core.daemon.refusals import (
    PROMPT_QUEUE_FULL,
    RUNTIME_UNAVAILABLE,
    session_not_found,
)
from agentconnect.core.daemon.reverse import (
    of_fire,
    of_prompt,
    prompt_submission,
    scheduled_submission,
)
from agentconnect.core.daemon.schedule import Fire, Missed
from agentconnect.core.daemon.tasks import Task
from agentconnect.core.daemon.workspaces import Workspace
from agentconnect.daemon.asking import RefusedError
from agentconnect.daemon.host import Host
from agentconnect.daemon.ports import Bridge, Channels, Talk
from agentconnect.daemon.session import Job, Pace, Session

MAX_SESSIONS = 256
OPEN_LIMIT_S = 150.0
"""For an agent to begin; longer than its own start limit."""


class Sessions:
    """The sessions by id. Usable while :meth:`run` runs."""

    def __init__(
        self,
        bridges: Mapping[str, Bridge],
        authorizations: Authorizations,
        channels: Channels,
        pace: Pace,
    ) -> None:
        """``bridges`` by the id of their workspace; none where the adapter has no sessions."""
        self._bridges = bridges
        self._authorizations = authorizations
        self._pace = pace
        self._by_id: dict[str, Session] = {}
        self._tasks: trio.Nursery | None = None
        self._opening = 0
        self.closing = False
        self.outcomes = Outcomes()
        self.host = Host(authorizations, channels, self._publish)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold agents, attempts and sessions, outermost first, until :meth:`stop` has ended them.

        Cancellation: turns are cut, agents ended.
        """
        async with trio.open_nursery() as standing:
            for bridge in self._bridges.values():
                await standing.start(bridge.run)
            await standing.start(self.host.run)
            async with trio.open_nursery() as tasks:
                self._tasks = tasks
                task_status.started()
                await trio.sleep_forever()

    async def stop(self, grace_s: float) -> None:
        """End every session: each turn has ``grace_s``."""
        self.closing = True
        left = tuple(self._by_id.values())
        for session in left:
            session.close(grace_s)
        for session in left:
            await session.ended.wait()

    # --- finding and making -----------------------------------------------------------------

    def get(self, session_id: str) -> Session:
        """A session. Raises: RefusedError."""
        found = self._by_id.get(session_id)
        if found is None or found.over.is_set():
            raise RefusedError(session_not_found(session_id))
        return found

    def check(self, workspace: Workspace) -> None:
        """Raises: RefusedError where that workspace can run no sessions now."""
        if self.closing or workspace.id not in self._bridges:
            raise RefusedError(RUNTIME_UNAVAILABLE)

    async def create(self, workspace: Workspace) -> Session | None:
        """A new session, its agent begun; None where the agent would not. Raises: RefusedError.

        Cancellation: the agent is ended.
        """
        self.check(workspace)
        if len(self._by_id) + self._opening >= MAX_SESSIONS:
            raise RefusedError(RUNTIME_UNAVAILABLE)
        session_id = str(uuid4())
        talk = self._bridges[workspace.id].session(session_id)
        opened = False
        self._opening += 1
        try:
            with trio.move_on_after(OPEN_LIMIT_S):
                opened = await talk.open()
        finally:
            self._opening -= 1
            if not opened or self.closing:
                with trio.CancelScope(shield=True):
                    await talk.retire()
        if self.closing:
            raise RefusedError(RUNTIME_UNAVAILABLE)
        return self._add(session_id, workspace, talk) if opened else None

    def revived(self, session_id: str, workspace: Workspace) -> Session:
        """The session of a stored task: the open one, or one that begins its agent when needed."""
        found = self._by_id.get(session_id)
        if found is not None and not found.over.is_set():
            return found
        talk = self._bridges[workspace.id].session(session_id)
        return self._add(session_id, workspace, talk)

    def close(self, session: Session) -> None:
        """It is no more: what waits is dropped, what runs is told to stop."""
        session.close()
        self._authorizations.drop_session(session.workspace.cwd, session.id)

    def busy_tasks(self) -> set[str]:
        """The tasks of which a fire waits or runs."""
        return set[str]().union(*(session.busy_tasks for session in self._by_id.values()))

    def _add(self, session_id: str, workspace: Workspace, talk: Talk) -> Session:
        assert self._tasks is not None, "sessions are not running"
        session = Session(session_id, workspace, talk, self._pace, self.outcomes.heard)
        self._by_id[session.id] = session
        self._tasks.start_soon(self._live, session)
        return session

    async def _live(self, session: Session) -> None:
        try:
            await session.run()
        finally:
            if self._owns(session):  # else a task has opened it anew
                self._authorizations.drop_session(session.workspace.cwd, session.id)
                del self._by_id[session.id]
                if not self.closing:
                    with trio.CancelScope(shield=True):
                        await session.talk.retire()
            session.ended.set()

    # --- prompts ----------------------------------------------------------------------------

    def prompt(self, session: Session, asked: Prompt) -> dict[str, Any]:
        """Queue a client's prompt (§6, steps 2 to 6). Raises: RefusedError."""
        if self.closing:
            raise RefusedError(RUNTIME_UNAVAILABLE)
        if session.full:
            raise RefusedError(PROMPT_QUEUE_FULL)
        prompt_id, place = str(uuid4()), session.workspace.cwd
        if asked.target is not None:
            self._authorizations.authorize_prompt(place, session.id, prompt_id, asked.target)

        def ended(final: str | None) -> None:
            if asked.target is None:
                return
            if final is None:
                self._authorizations.revoke_prompt(place, session.id, prompt_id)
                return
            made = prompt_submission(session.id, prompt_id, asked.target, final)
            self.host.submit(session.workspace, made, self._owns(session))

        job = Job(
            id=prompt_id,
            blocks=asked.blocks,
            meta=asked.meta,
            of=of_prompt(prompt_id),
            captures=asked.target is not None,
            ended=ended,
        )
        last = session.last_event_id
        if not session.queue(job):
            self._authorizations.revoke_prompt(place, session.id, prompt_id)
            raise RefusedError(PROMPT_QUEUE_FULL)
        return {"promptId": prompt_id, "lastEventId": last}

    def fire(self, workspace: Workspace, fire: Fire) -> None:
        """Queue one fire of a task, with a snapshot of where it delivers to (§7.3)."""
        task, place = fire.task, workspace.cwd
        session = self.revived(task.session_id, workspace)
        self.register(workspace, task)

        def ended(final: str | None) -> None:
            if task.target is None:
                return
            if final is None:
                self._authorizations.run_ended(place, task.session_id, task.id)
                return
            made = scheduled_submission(task.session_id, task.id, fire.fired_at, task.target, final)
            self.host.submit(workspace, made, self._owns(session))

        job = Job(
            id=f"{task.id}:{fire.fired_at}",
            blocks=({"type": "text", "text": task.prompt},),
            of=of_fire(task.id, fire.fired_at),
            captures=task.target is not None,
            ended=ended,
            task_id=task.id,
        )
        self.outcomes.fired(workspace.id, task, fire.fired_at)
        session.queue(job, bounded=False)

    def catch_up(self, workspace: Workspace, missed: Missed) -> None:
        """Queue what one session missed; it delivers nowhere."""
        for task in missed.tasks:
            self.outcomes.missed(workspace.id, task)
        session = self.revived(missed.session_id, workspace)
        prompt_id = str(uuid4())
        block = {"type": "text", "text": missed.prompt}
        session.queue(Job(id=prompt_id, blocks=(block,), of=of_prompt(prompt_id)), bounded=False)

    def register(self, workspace: Workspace, task: Task) -> None:
        """A stored task with a target may deliver there."""
        if task.target is not None:
            self._authorizations.register(
                workspace.cwd,
                task.session_id,
                task.id,
                task.target,
                recurring=task.recurring,
                last_fired_at=task.last_fired_at,
            )

    def revoke(self, workspace: Workspace, task: Task) -> None:
        """The task is gone, or delivers no more."""
        self._authorizations.revoke_task(workspace.cwd, task.session_id, task.id)

    def _owns(self, session: Session) -> bool:
        return self._by_id.get(session.id) is session

    def _publish(self, session_id: str, kind: str, data: Mapping[str, Any], prompt: str) -> None:
        self.outcomes.heard(kind, data)
        session = self._by_id.get(session_id)
        if session is not None:
            session.publish(kind, data, prompt)
