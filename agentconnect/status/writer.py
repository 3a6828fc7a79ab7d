"""Writes ``status.json``: the one owner of that file (worker.md §15).

Convenience class: its loss costs a supervisor's view, nothing else. Everybody pushes facts in,
synchronously and cheaply; the file is written off the event loop, and a file that cannot be written
is complained about once. Invariant: only the worker's own writes move the two clocks; a relay fact
is written through with the clocks left alone.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import trio
from msgspec import UNSET

from agentconnect.core.redaction import redact
from agentconnect.core.status import (
    ChannelsBlock,
    DaemonBlock,
    DeliveryBlock,
    LastError,
    RelayBlock,
    State,
    StatusFile,
    encode,
    relay_block,
)
from agentconnect.store.atomic import write_file

log = logging.getLogger("agentconnect.status")

WORKER = "worker"
"""What the states ``error`` and ``serving`` are about."""
TROUBLES = 32
RELAY_PACE_S = 1.0  # relay facts come with every poll; a reader looks every few seconds at most


def no_load() -> tuple[int, float]:
    """The load of a worker that has no desk yet."""
    return 0, 0.0


class StatusWriter:
    """The worker's status. ``load`` says how many tasks are in hand and how old the oldest is."""

    def __init__(
        self,
        path: Path,
        heartbeat_s: float,
        *,
        instance: str = "default",
        workspace: str = "",
        pid: int | None = None,
        wall_now: Callable[[], float] = time.time,
        mono_now: Callable[[], float] = time.monotonic,
        clean: Callable[[str], str] = redact,
    ) -> None:
        """``clean`` takes secrets out of what is told; a supervisor may be anybody."""
        self._path = path
        self._heartbeat_s = heartbeat_s
        self._wall_now = wall_now
        self._mono_now = mono_now
        self._clean = clean
        self._born = mono_now()
        now = wall_now()
        self._file = StatusFile(
            state=State.STARTING,
            pid=os.getpid() if pid is None else pid,
            instance=instance or "default",
            workspace=workspace,
            started_at=now,
            updated_at=now,
            uptime_seconds=0.0,
            heartbeat_seconds=heartbeat_s,
        )
        self.load: Callable[[], tuple[int, float]] = no_load
        self._detail = ""
        self._remark = ""
        self._troubles: dict[str, LastError] = {}  # by what is in trouble, the latest last
        self._complained = False
        self._generation = 0
        self._written = 0
        self._wake = trio.Event()
        self._hurry = trio.Event()
        self._lock = trio.Lock()

    # --- facts; synchronous

    @property
    def current(self) -> StatusFile:
        """What the next write puts into the file."""
        return self._file

    def state(self, state: State | str, detail: str = "") -> None:
        """A new state; an ``error`` is also remembered as the last error."""
        word, detail = State(state), self._clean(detail)
        self._detail = detail
        if word is State.SERVING and self._remark:
            detail = f"{detail}; {self._remark}"
        if word is not self._file.state:
            facts = {"event": "state", "state": word.value, "detail": detail}
            level = logging.ERROR if word is State.ERROR else logging.INFO
            log.log(level, "state=%s: %s", word.value, detail or "-", extra={"facts": facts})
        self._file = msgspec.structs.replace(self._file, state=word, detail=detail)
        if word is State.ERROR:
            self._remember(detail, WORKER)
        elif word is State.SERVING:
            self._mended(WORKER)
        self._beat()

    def remark(self, text: str) -> None:
        """Something the owner should know while the worker serves; ``""`` takes it back."""
        self._remark = self._clean(text)
        if self._file.state is State.SERVING:
            self.state(State.SERVING, self._detail)

    def facts(
        self, *, adapter: str | None = None, agent: str | None = None, repo: str | None = None
    ) -> None:
        """What became known of this worker."""
        known = {"adapter": adapter, "agent": agent, "repo": repo}
        given = {name: self._clean(text) for name, text in known.items() if text is not None}
        self._file = msgspec.structs.replace(self._file, **given)
        self._beat()

    def error(self, message: str, about: str = "") -> None:
        """Something went wrong that a supervisor should read; the state stays.

        ``""``: what ``about`` is in trouble no more. Without ``about`` it stays in trouble.
        """
        if message:
            self._remember(self._clean(message), about or message)
        else:
            self._mended(about)
        self._beat()

    def relay(self, snapshot: object) -> None:
        """The relay client's own view. Never raises, and leaves the clocks alone."""
        try:
            block: RelayBlock | None = relay_block(snapshot)
        except (msgspec.ValidationError, TypeError, ValueError):
            log.warning("the relay's snapshot could not be read", exc_info=True)
            return
        if block != self._file.relay:
            known, self._file = self._file, msgspec.structs.replace(self._file, relay=block)
            was, now = getattr(known.relay, "state", ""), getattr(block, "state", "")
            if was != now:
                facts = {"event": "relay", "relay": now, "was": was}
                log.info("relay=%s", now, extra={"facts": facts})
            self._changed(urgent=was != now)

    def delivery(self, block: DeliveryBlock) -> None:
        """How deferred deliveries stand; leaves the clocks alone."""
        block = msgspec.structs.replace(block, reason=self._clean(block.reason))
        known = self._file.delivery
        if block != known:
            self._file = msgspec.structs.replace(self._file, delivery=block)
            news = known is UNSET or (known.state, known.listener) != (block.state, block.listener)
            self._changed(urgent=news)

    def daemon(self, listen: str) -> None:
        """The daemon's API listens there."""
        block = DaemonBlock(listen=listen)
        self._file = msgspec.structs.replace(self._file, daemon=block)
        self._changed(urgent=True)

    def channels(self, workspaces: Mapping[str, object]) -> None:
        """How the channel workers stand; leaves the clocks alone."""
        block = ChannelsBlock(workspaces=workspaces)
        if block != self._file.channels:
            self._file = msgspec.structs.replace(self._file, channels=block)
            self._changed(urgent=False)

    def _remember(self, message: str, about: str) -> None:
        self._troubles.pop(about, None)
        self._troubles[about] = LastError(at=self._wall_now(), message=message)
        while len(self._troubles) > TROUBLES:
            del self._troubles[next(iter(self._troubles))]
        self._show_latest()

    def _mended(self, about: str) -> None:
        """What is still in trouble is shown again; the last that was, where nothing is."""
        if self._troubles.pop(about, None) is not None:
            self._show_latest()

    def _show_latest(self) -> None:
        if self._troubles:
            *_, last = self._troubles.values()
            self._file = msgspec.structs.replace(self._file, last_error=last)

    def _beat(self) -> None:
        """One of the worker's own writes: the clocks move."""
        self._file = msgspec.structs.replace(
            self._file,
            updated_at=self._wall_now(),
            uptime_seconds=round(self._mono_now() - self._born, 3),
        )
        self._changed(urgent=True)

    def _changed(self, *, urgent: bool) -> None:
        self._generation += 1
        self._wake.set()
        if urgent:
            self._hurry.set()

    # --- writing

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Beat every half heartbeat and write what changed, until cancelled.

        The worker's own news at once; the relay's, unless its state is another, at their pace.
        """
        await self.flush()
        task_status.started()
        next_beat = trio.current_time() + self._heartbeat_s / 2
        paced_at = trio.current_time()
        while True:
            with trio.move_on_at(next_beat):  # may end: it is time to beat
                if self._generation == self._written:
                    await self._wake.wait()
                with trio.move_on_at(paced_at):  # may end: a paced write is due
                    await self._hurry.wait()
            if trio.current_time() >= next_beat:
                next_beat = trio.current_time() + self._heartbeat_s / 2
                self._beat()
            self._wake, self._hurry = trio.Event(), trio.Event()
            await self.flush()
            paced_at = trio.current_time() + RELAY_PACE_S

    async def flush(self) -> None:
        """Write what is known now; returns when it is in the file. Never raises for the disk."""
        async with self._lock:
            generation, data = self._generation, self._encoded()
            await trio.to_thread.run_sync(self._put, data)
            self._written = generation

    def write_now(self) -> None:
        """As ``flush``, blocking: for a refusal before the loop runs."""
        generation, data = self._generation, self._encoded()
        self._put(data)
        self._written = generation

    def _encoded(self) -> bytes:
        try:
            running, oldest = self.load()
        except Exception:
            log.exception("the load could not be read")
            running, oldest = 0, 0.0
        return encode(
            msgspec.structs.replace(
                self._file, tasks_running=running, oldest_task_seconds=round(oldest, 1)
            )
        )

    def _put(self, data: bytes) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_file(self._path, data, durable=False)
        except OSError as error:
            if not self._complained:
                self._complained = True
                log.warning("the status file cannot be written: %s", error)
