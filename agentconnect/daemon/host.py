"""The host callback: from a session's submission to its one result and event (§9.2).

The check, the use of the authorization and the decision happen at once, in the call; the attempt
runs in the nursery of deliveries, above every session and stream.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import trio

from agentconnect.core.daemon import events
from agentconnect.core.daemon.authorizations import Authorizations
from agentconnect.core.daemon.host import Result, Status, WorkerRequest, attempted, decide
from agentconnect.core.daemon.reverse import Submission, read_submission
from agentconnect.core.daemon.workspaces import Workspace
from agentconnect.core.destination import Code
from agentconnect.daemon.ports import Channels

log = logging.getLogger("agentconnect.daemon")

Publish = Callable[[str, str, Mapping[str, Any], str], None]
"""Session, type, data, prompt id; drops what has no session any more."""


class Host:
    """Takes submissions while :meth:`run` runs."""

    def __init__(
        self, authorizations: Authorizations, channels: Channels, publish: Publish
    ) -> None:
        self._authorizations = authorizations
        self._channels = channels
        self._publish = publish
        self._deliveries: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the attempts until cancelled."""
        async with trio.open_nursery() as deliveries:
            self._deliveries = deliveries
            task_status.started()
            await trio.sleep_forever()

    def submit(self, workspace: Workspace, submission: Submission, owned: bool) -> None:
        """One submission of a session; ``owned``: the bridge of ``workspace`` has that session.

        One that breaks a rule of §9 publishes nothing.
        """
        checked = read_submission(submission.params(), lambda _: owned)
        if checked is None:
            log.warning("a submission of session %s was malformed", submission.session_id)
            return
        step = decide(self._authorizations, workspace.cwd, checked)
        if isinstance(step, Result):
            if step.status is Status.SKIPPED:
                self._channels.skipped(workspace.id)
            self._ended(step, logged=False)
        else:
            self.start(self._attempt, workspace, checked, step)

    def start(self, work: Callable[..., Any], *arguments: object) -> None:
        """Run a piece of delivery work beside everything else."""
        assert self._deliveries is not None, "the host is not running"
        self._deliveries.start_soon(work, *arguments)

    async def _attempt(
        self, workspace: Workspace, submission: Submission, wanted: WorkerRequest
    ) -> None:
        code: Code | None = Code.FAILED
        logged = False
        try:
            source = submission.source.value
            code = (await self._channels.deliver(workspace.id, wanted, source=source)).code
            logged = True
        except Exception as error:  # noqa: BLE001 - it becomes the result
            log.error("an attempt failed by our mistake: %s", type(error).__name__)  # noqa: TRY400
        self._ended(attempted(submission, code), logged=logged)

    def _ended(self, result: Result, *, logged: bool) -> None:
        of = result.submission
        if not logged:
            level = logging.INFO if result.status is Status.SKIPPED else logging.WARNING
            log.log(level, "%s", result.log_line(0))
        try:
            self._publish(of.session_id, events.DELIVERY_RESULT, result.event_data(), of.prompt_id)
        except Exception as error:  # noqa: BLE001 - a result stands whoever hears of it
            log.error("an event could not be published: %s", type(error).__name__)  # noqa: TRY400
