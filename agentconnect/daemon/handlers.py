"""The routes of the API, each from a request to its answer (§2.1)."""

import os
from collections.abc import Callable
from uuid import uuid4

import trio

from agentconnect.core.daemon.events import HEARTBEAT, HEARTBEAT_S, read_last_event_id
from agentconnect.core.daemon.fields import read_notify, read_prompt, read_session
from agentconnect.core.daemon.host import worker_request
from agentconnect.core.daemon.refusals import RUNTIME_UNAVAILABLE, delivery_refusal
from agentconnect.core.daemon.tasks import Task, read_new_task, read_patch, view
from agentconnect.core.daemon.workspaces import (
    Life,
    PathAsked,
    Registry,
    Workspace,
    capabilities,
    check_life,
)
from agentconnect.core.destination import Code
from agentconnect.daemon.asking import (
    Answer,
    Asked,
    RefusedError,
    Send,
    Stream,
    accepted,
    ok,
)
from agentconnect.daemon.ports import Channels
from agentconnect.daemon.scheduler import Scheduler
from agentconnect.daemon.session import Session
from agentconnect.daemon.sessions import Sessions


class Handlers:
    """What the routes do. ``life`` is that of the whole daemon."""

    def __init__(
        self,
        registry: Registry,
        channels: Channels,
        sessions: Sessions,
        scheduler: Scheduler,
        life: Callable[[], Life],
    ) -> None:
        self._registry = registry
        self._channels = channels
        self._sessions = sessions
        self._scheduler = scheduler
        self._life = life

    async def health(self, _asked: Asked) -> Answer:
        """Whether it lives, and nothing more."""
        return ok({"status": "ok"})

    async def capabilities(self, _asked: Asked) -> Answer:
        """What the protocol offers."""
        return ok(capabilities(self._registry))

    # --- Notify -----------------------------------------------------------------------------

    async def notify(self, asked: Asked) -> Answer:
        """One attempt, waited for. A client that leaves meanwhile changes nothing."""
        workspace = await self._workspace(asked)
        wanted = accepted(read_notify(asked.json()))
        accepted(check_life(self._life(), notify=True))
        delivery_id = str(uuid4())
        request = worker_request(delivery_id, wanted.target, wanted.text)
        try:
            code = (await self._channels.deliver(workspace.id, request, source="notify")).code
        except Exception:  # noqa: BLE001 - the set of answers is closed
            code = Code.FAILED
        if code is not None:
            raise RefusedError(delivery_refusal(code))
        return ok({"delivered": True, "deliveryId": delivery_id})

    # --- sessions ---------------------------------------------------------------------------

    async def open_session(self, asked: Asked) -> Answer:
        """A new session in a workspace."""
        cwd = accepted(read_session(asked.json() if asked.body else {}))
        workspace = self._registry.primary
        if cwd is not None:
            workspace = await self._found(self._registry.by_name(cwd))
        session = await self._sessions.create(workspace)
        if session is None:
            raise RefusedError(RUNTIME_UNAVAILABLE)
        return ok({"sessionId": session.id, "workspaceCwd": workspace.cwd}, 201)

    async def prompt(self, asked: Asked) -> Answer:
        """A prompt, queued."""
        session = self._session(asked)
        prompt = accepted(read_prompt(asked.json()))
        return ok(self._sessions.prompt(session, prompt), 202)

    async def cancel(self, asked: Asked) -> Answer:
        """Stop what runs."""
        await self._session(asked).cancel()
        return Answer(status=204)

    async def close_session(self, asked: Asked) -> Answer:
        """End a session."""
        self._sessions.close(self._session(asked))
        return Answer(status=204)

    async def events(self, asked: Asked) -> Stream:
        """What happens in a session, from now on or from after a known id."""
        session = self._session(asked)
        known = read_last_event_id(asked.header("last-event-id"))
        reader = session.reader(known)  # now: events of a prompt that comes next are not missed

        async def run(send: Send) -> None:
            while not reader.evicted:
                frame = reader.next()
                if frame is not None:
                    await send(frame)
                elif session.over.is_set():
                    return
                else:
                    with trio.move_on_after(HEARTBEAT_S) as waiting:
                        await session.news()
                    if waiting.cancelled_caught:
                        await send(HEARTBEAT)

        return Stream(run=run)

    # --- scheduled tasks --------------------------------------------------------------------

    async def tasks(self, asked: Asked) -> Answer:
        """All tasks of a workspace."""
        workspace = await self._workspace(asked)
        self._sessions.check(workspace)
        tasks = await self._scheduler.tasks(workspace)
        return ok({"v": 1, "tasks": [self._view(workspace, task) for task in tasks]})

    async def add_task(self, asked: Asked) -> Answer:
        """A new task."""
        workspace = await self._workspace(asked)
        read = read_new_task(asked.json(), now=self._scheduler.now(), zone=self._scheduler.zone)
        new = accepted(read)
        task = await self._scheduler.add(workspace, new)
        return ok(self._view(workspace, task), 201)

    async def patch_task(self, asked: Asked) -> Answer:
        """A changed task."""
        workspace = await self._workspace(asked)
        read = read_patch(asked.json(), now=self._scheduler.now(), zone=self._scheduler.zone)
        patch = accepted(read)
        self._sessions.check(workspace)
        task = await self._scheduler.patch(workspace, asked.text("task"), patch)
        return ok(self._view(workspace, task))

    async def remove_task(self, asked: Asked) -> Answer:
        """A task that is no more."""
        task_id = asked.text("task")
        workspace = await self._workspace(asked)
        self._sessions.check(workspace)
        await self._scheduler.remove(workspace, task_id)
        return ok({"deleted": True, "id": task_id})

    async def run_task(self, asked: Asked) -> Answer:
        """A task, fired now."""
        fire = await self._scheduler.run_now(await self._workspace(asked), asked.text("task"))
        return ok({"taskId": fire.task.id, "firedAt": fire.fired_at}, 202)

    def _view(self, workspace: Workspace, task: Task) -> dict[str, object]:
        outcome = self._scheduler.outcome(workspace, task)
        return view(task, now=self._scheduler.now(), zone=self._scheduler.zone, outcome=outcome)

    # --- whose ------------------------------------------------------------------------------

    async def _workspace(self, asked: Asked) -> Workspace:
        """The workspace that the path names, the primary one where it names none (§5)."""
        if "workspace" not in asked.params:
            return self._registry.primary
        return await self._found(self._registry.by_segment(asked.params["workspace"]))

    async def _found(self, named: object) -> Workspace:
        if isinstance(named, PathAsked):
            named = self._registry.by_path(await trio.to_thread.run_sync(_real, named.path))
        found = accepted(named)
        assert isinstance(found, Workspace)
        return found

    def _session(self, asked: Asked) -> Session:
        return self._sessions.get(asked.text("session"))


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return ""
