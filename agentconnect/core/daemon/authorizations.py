"""The daemon's record of what may be delivered where, once (§9.1). In memory only.

Workspaces are named by their canonical path. An authorization is used up before any worker is
looked for, so a worker that is away costs that delivery for good.
"""

import msgspec

from agentconnect.core.daemon.reverse import Source, Submission
from agentconnect.core.daemon.target import Target

_Key = tuple[str, str, str]


class _Task(msgspec.Struct):
    target: Target
    recurring: bool
    last_consumed_at: int


class Authorizations:
    """The store. Every method is immediate; none of them fails."""

    def __init__(self) -> None:
        self._prompts: dict[_Key, Target] = {}
        self._tasks: dict[_Key, _Task] = {}

    def authorize_prompt(
        self, workspace: str, session_id: str, delivery_id: str, target: Target
    ) -> None:
        """This prompt's answer may go to ``target``."""
        self._prompts[workspace, session_id, delivery_id] = target

    def revoke_prompt(self, workspace: str, session_id: str, delivery_id: str) -> None:
        """The prompt ended without submitting, or was never queued."""
        self._prompts.pop((workspace, session_id, delivery_id), None)

    def register(
        self,
        workspace: str,
        session_id: str,
        task_id: str,
        target: Target,
        *,
        recurring: bool,
        last_fired_at: int | None,
    ) -> None:
        """A stored task delivers to ``target``. Again: the new target, and never an older mark."""
        key = (workspace, session_id, task_id)
        known = self._tasks.get(key)
        mark = known.last_consumed_at if known is not None else last_fired_at or 0
        self._tasks[key] = _Task(target, recurring, mark)

    def revoke_task(self, workspace: str, session_id: str, task_id: str) -> None:
        """The task is gone, or delivers no more."""
        self._tasks.pop((workspace, session_id, task_id), None)

    def run_ended(self, workspace: str, session_id: str, task_id: str) -> None:
        """A fire ended without submitting: a one-shot's registration goes, another's stays."""
        known = self._tasks.get((workspace, session_id, task_id))
        if known is not None and not known.recurring:
            self.revoke_task(workspace, session_id, task_id)

    def drop_session(self, workspace: str, session_id: str) -> None:
        """The session was closed."""
        gone = (workspace, session_id)
        for key in [key for key in self._prompts if key[:2] == gone]:
            del self._prompts[key]
        for key in [key for key in self._tasks if key[:2] == gone]:
            del self._tasks[key]

    def consume(self, workspace: str, submission: Submission) -> bool:
        """Use up the authorization that matches in every field; False changes nothing."""
        if not submission.consistent:
            return False
        if submission.source is Source.PROMPT:
            key = (workspace, submission.session_id, submission.delivery_id)
            if self._prompts.get(key) != submission.target:
                return False
            del self._prompts[key]
            return True
        key = (workspace, submission.session_id, submission.task_id)
        task = self._tasks.get(key)
        if task is None or task.target != submission.target:
            return False
        if submission.fired_at <= task.last_consumed_at:
            return False
        if task.recurring:
            task.last_consumed_at = submission.fired_at
        else:
            del self._tasks[key]
        return True

    def __len__(self) -> int:
        return len(self._prompts) + len(self._tasks)
