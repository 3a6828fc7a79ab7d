"""The channel workers of the daemon: at most one for each workspace, watched and restarted (§10).

A delivery meets the state as it is: nothing is started for it, nothing waits, nothing is tried
again, and no other workspace's worker is asked. An attempt, once written to a worker, runs to its
end whatever becomes of who asked for it.
"""

import logging
from collections.abc import Callable, Mapping

import trio

from agentconnect.channels.link import Spawn
from agentconnect.channels.supervisor import Attempt, Pace, Supervisor, Waiter
from agentconnect.core.channels.diagnostic import diagnostic
from agentconnect.core.channels.ipc import Channel, Request
from agentconnect.core.daemon.host import Status, WorkerRequest, log_line
from agentconnect.core.destination import Code

__all__ = ["Attempt", "ChannelWorkers", "Pace"]

log = logging.getLogger("agentconnect.channels")


class ChannelWorkers:
    """All workers. :meth:`run` is the standing task; everything else is called beside it."""

    def __init__(
        self,
        workspaces: Mapping[str, Mapping[str, Channel]],
        spawn: Spawn,
        *,
        pace: Pace | None = None,
        secrets: Callable[[], tuple[str, ...]] = tuple,
        on_status: Callable[[], None] = lambda: None,
    ) -> None:
        """``workspaces`` is by id; one without channels gets no worker."""
        self._pace = pace or Pace()
        self._secrets = secrets
        self._attempts: trio.Nursery | None = None
        self._workers = {
            name: Supervisor(name, channels, spawn, self._pace, on_status)
            for name, channels in workspaces.items()
            if channels
        }

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Start the workers and keep them until they are stopped; started at once, not when they
        are ready.

        Cancellation: kills what still runs, and tells who waits.
        """
        async with trio.open_nursery() as attempts:
            self._attempts = attempts
            async with trio.open_nursery() as workers:
                for worker in self._workers.values():
                    workers.start_soon(worker.run)
                task_status.started()

    async def settled(self) -> None:
        """Return when every worker is running or has failed once: the scheduler waits for this."""
        for worker in self._workers.values():
            await worker.settled.wait()

    async def deliver(self, workspace: str, wanted: WorkerRequest, *, source: str) -> Attempt:
        """One attempt, and its line in the log; ``source`` is a word for that. Never raises for
        what goes wrong.

        Cancellation: the caller leaves, the attempt goes on and is logged.
        """
        began = trio.current_time()
        request = Request.of(wanted)
        worker = self._workers.get(workspace)
        refusal: Code | None = Code.UNAVAILABLE
        if worker is not None and self._attempts is not None:
            refusal = worker.refusal if request.valid else Code.INVALID
        if worker is None or self._attempts is None or refusal is not None:
            ended = Attempt(code=refusal)
            self._note(worker, request, source, ended, began)
            return ended
        waiter = Waiter()
        key = worker.admit(waiter)
        self._attempts.start_soon(self._attempt, worker, key, waiter, request, source, began)
        await waiter.noted.wait()
        return await waiter.ended()

    async def stop(self) -> None:
        """Take nothing more, let attempts finish, then end every worker; about 10 s at most."""
        if self._attempts is None:
            return
        async with trio.open_nursery() as ending:
            for worker in self._workers.values():
                ending.start_soon(worker.stop)

    async def remove(self, workspace: str) -> None:
        """End the worker of a workspace that is no more."""
        worker = self._workers.get(workspace)
        if worker is not None:
            await worker.stop()
            self._workers.pop(workspace, None)

    def refusal(self, workspace: str) -> Code | None:
        """Why nothing can be delivered from there now; None where it would be tried."""
        worker = self._workers.get(workspace)
        return worker.refusal if worker is not None else Code.UNAVAILABLE

    def skipped(self, workspace: str) -> None:
        """A turn of this workspace ended well and had nothing to deliver."""
        if (worker := self._workers.get(workspace)) is not None:
            worker.count_skipped()

    def status(self) -> dict[str, object]:
        """For the status file: numbers, names of channels, codes (§16)."""
        return {name: worker.status() for name, worker in self._workers.items()}

    async def _attempt(
        self,
        worker: Supervisor,
        key: str,
        waiter: Waiter,
        request: Request,
        source: str,
        began: float,
    ) -> None:
        try:
            with trio.move_on_after(self._pace.answer_s):
                await worker.write(key, request)
                await waiter.ended()
            waiter.end(Attempt(code=Code.TIMEOUT))
        except Exception as error:  # noqa: BLE001 - the boundary of one attempt
            waiter.end(Attempt(code=Code.FAILED, diagnostic=type(error).__name__))
        finally:
            worker.forget(key)
            ended = waiter.end(Attempt(code=Code.UNAVAILABLE))  # else: cancelled, nobody knows
            self._note(worker, request, source, ended, began)
            waiter.noted.set()

    def _note(
        self,
        worker: Supervisor | None,
        request: Request,
        source: str,
        ended: Attempt,
        began: float,
    ) -> None:
        if worker is not None:
            worker.count(ended)
        status = Status.DELIVERED if ended.delivered else Status.FAILED
        line = log_line(
            status,
            delivery_id=request.delivery_id,
            source=source,
            channel_name=request.channel_name,
            code=ended.code or "",
            duration_ms=_ms(began),
        )
        if ended.diagnostic:
            line += (
                f" diagnostic={diagnostic(ended.diagnostic, request.target.id, self._secrets())}"
            )
        log.log(logging.INFO if ended.delivered else logging.WARNING, "%s", line)


def _ms(began: float) -> int:
    return round((trio.current_time() - began) * 1000)
