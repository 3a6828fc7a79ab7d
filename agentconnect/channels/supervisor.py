"""One workspace's channel worker over all its lives: started, watched, restarted, ended (§10)."""

import logging
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from uuid import uuid4

import msgspec
import trio

from agentconnect.channels.link import Spawn, WorkerLink, end
from agentconnect.core.channels import ipc
from agentconnect.core.channels.ipc import Channel, Ready, Request, Result
from agentconnect.core.destination import Code

log = logging.getLogger("agentconnect.channels")

IN_FLIGHT = 16


class State(StrEnum):
    """Of one workspace's worker; only ``running`` takes deliveries."""

    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    STOPPED = "stopped"
    CRASHED = "crashed"


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """All waits, in seconds."""

    answer_s: float = 30.0
    ready_s: float = 30.0
    silence_s: float = 45.0
    backoff_s: float = 1.0
    backoff_most_s: float = 60.0
    healthy_s: float = 60.0
    """A worker that ran for so long starts the backoff afresh."""
    drain_s: float = 5.0
    end_s: float = 5.0


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """How a delivery ended; ``code`` is None where it was delivered. ``diagnostic`` is for logs."""

    code: Code | None = None
    diagnostic: str = ""

    @property
    def delivered(self) -> bool:
        """The adapter's send returned; nobody knows more."""
        return self.code is None


class Waiter:
    """One attempt under way."""

    def __init__(self) -> None:
        self.noted = trio.Event()
        """It was counted and logged: who asked is told."""
        self._over = trio.Event()
        self._result: Attempt | None = None

    def end(self, result: Attempt) -> Attempt:
        """The first ending counts; which one that was."""
        if self._result is None:
            self._result = result
            self._over.set()
        return self._result

    async def ended(self) -> Attempt:
        """Wait for the ending."""
        await self._over.wait()
        assert self._result is not None
        return self._result


class Supervisor:
    """The worker of one workspace over all its lives."""

    def __init__(
        self,
        workspace: str,
        channels: Mapping[str, Channel],
        spawn: Spawn,
        pace: Pace,
        on_status: Callable[[], None],
    ) -> None:
        self._workspace = workspace
        self._channels = channels
        self._spawn = spawn
        self._pace = pace
        self._on_status = on_status
        self._state = State.STARTING
        self._link: WorkerLink | None = None
        self._waiters: dict[str, Waiter] = {}
        self._known: dict[str, str] = {}
        self._counts = {"delivered": 0, "failed": 0, "skipped": 0}
        self._last_code = ""
        self._quiet = trio.Event()
        self._life = trio.CancelScope()
        self._ended = trio.Event()
        self.settled = trio.Event()

    # --- deliveries -------------------------------------------------------------------------

    @property
    def refusal(self) -> Code | None:
        """Why nothing can be sent now."""
        if self._state is not State.RUNNING:
            return Code.UNAVAILABLE
        return Code.QUEUE_FULL if len(self._waiters) >= IN_FLIGHT else None

    def admit(self, waiter: Waiter) -> str:
        """Count an attempt as under way; its key."""
        key = str(uuid4())
        self._waiters[key] = waiter
        return key

    async def write(self, key: str, request: Request) -> None:
        """Hand the attempt to the worker; where that fails, the waiter is told."""
        expires = time.time_ns() // 1_000_000 + round(self._pace.answer_s * 1000)
        raw = msgspec.Raw(msgspec.json.encode(request))
        message = ipc.line(ipc.ToWorker(id=key, expires_at=expires, request=raw))
        link = self._link
        if link is None or not await link.write(message):
            self._end(key, Attempt(code=Code.UNAVAILABLE))

    def forget(self, key: str) -> None:
        """The attempt is over; a late answer finds nobody."""
        self._waiters.pop(key, None)
        if not self._waiters:
            self._quiet.set()
            self._quiet = trio.Event()
        self._on_status()

    def count(self, ended: Attempt) -> None:
        """Remember how one ended, for the status file."""
        self._counts["delivered" if ended.delivered else "failed"] += 1
        if ended.code is not None:
            self._last_code = ended.code.value
        self._on_status()

    def count_skipped(self) -> None:
        """Remember that there was nothing to send."""
        self._counts["skipped"] += 1
        self._on_status()

    def status(self) -> dict[str, object]:
        """Names, numbers, codes."""
        return {
            "state": self._state.value,
            "channels": dict(self._known),
            "in_flight": len(self._waiters),
            **self._counts,
            "last_code": self._last_code,
        }

    # --- the process ------------------------------------------------------------------------

    async def run(self) -> None:
        """One life after the other until it is stopped. Cancellation: kills the process."""
        wait_s = self._pace.backoff_s
        try:
            with self._life:  # may end: stopped
                while True:
                    began = trio.current_time()
                    await self._guarded()
                    if trio.current_time() - began >= self._pace.healthy_s:
                        wait_s = self._pace.backoff_s
                    self._become(State.CRASHED)
                    self.settled.set()
                    log.warning("channel worker of %s: again in %g s", self._workspace, wait_s)
                    await trio.sleep(wait_s)
                    wait_s = min(2 * wait_s, self._pace.backoff_most_s)
                    self._become(State.STARTING)
        finally:
            self._become(State.STOPPED)
            self.settled.set()
            self._ended.set()

    async def stop(self) -> None:
        """Drain for a while, then end the process by the closing of its input. Idempotent."""
        if self._state not in (State.DRAINING, State.STOPPED):
            self._become(State.DRAINING)
            with trio.move_on_after(self._pace.drain_s):
                while self._waiters:
                    await self._quiet.wait()
            self._life.cancel(reason="stopping")
        await self._ended.wait()

    async def _guarded(self) -> None:
        """The boundary of one life: a fault of ours in it is one more ending."""
        try:
            await self._live()
        except Exception as error:  # noqa: BLE001 - ends this life, not the daemon
            log.error("channel worker of %s: %s", self._workspace, type(error).__name__)  # noqa: TRY400

    async def _live(self) -> None:
        """From one start to that process's end; whoever waited for it is told at once."""
        try:
            process = await self._spawn()
        except OSError as error:
            why = error.strerror or type(error).__name__
            log.warning("channel worker of %s cannot be started: %s", self._workspace, why)
            return
        link = WorkerLink(process)
        try:
            configure = ipc.Configure(workspace=self._workspace, channels=self._channels)
            async with trio.open_nursery() as watching:
                watching.start_soon(process.drain_stderr)
                watching.start_soon(self._ended_by, link, watching.cancel_scope)
                self._link = link
                heard = False
                with trio.move_on_after(self._pace.ready_s):
                    heard = await link.write(ipc.line(configure))
                if heard:
                    await self._listen(link)
                watching.cancel_scope.cancel()
        finally:
            self._link = None
            self._told_all()
            gently = self._life.cancel_called
            with trio.CancelScope(shield=True):
                await end(process, self._pace.end_s if gently else 0.0)
                await process.close()
            if not gently:
                code, last = process.returncode, _last_line(process.stderr_tail())
                log.warning("channel worker of %s ended (%s)%s", self._workspace, code, last)

    async def _ended_by(self, link: WorkerLink, life: trio.CancelScope) -> None:
        """A pipe that takes nothing more is as good as closed."""
        await link.broken()
        life.cancel(reason="the pipe broke")

    async def _listen(self, link: WorkerLink) -> None:
        """Follow the worker until it closes the pipe, breaks the protocol or falls silent."""
        limit_s = self._pace.ready_s
        while True:
            message = None
            with trio.move_on_after(limit_s) as waiting:
                message = await link.next()
            if waiting.cancelled_caught or message is None:
                return
            if isinstance(message, Ready):
                limit_s = self._pace.silence_s
                self._ready(message)
            elif isinstance(message, Result):
                self._end(message.id, Attempt(code=message.outcome, diagnostic=message.diagnostic))

    def _ready(self, message: Ready) -> None:
        self._known = dict.fromkeys(self._channels, "failed")
        self._known |= {name: "running" for name in message.channels if name in self._channels}
        for name, why in message.failed.items():
            log.warning("channel %s of %s did not start: %s", name, self._workspace, why)
        if self._state is State.STARTING:
            self._become(State.RUNNING)
        self.settled.set()

    def _end(self, key: str, result: Attempt) -> None:
        waiter = self._waiters.get(key)
        if waiter is not None:
            waiter.end(result)

    def _told_all(self) -> None:
        if self._state is State.RUNNING:
            self._become(State.CRASHED)
        for waiter in self._waiters.values():
            waiter.end(Attempt(code=Code.UNAVAILABLE))

    def _become(self, state: State) -> None:
        self._state = state
        self._on_status()


def _last_line(tail: str) -> str:
    """What the worker said of its own end; nothing else of its stderr is repeated."""
    lines = tail.splitlines()
    said = lines[-1] if lines else ""
    return f": {said}" if said.startswith("channel-worker: ") else ""
