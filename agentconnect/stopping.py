"""Why and how the worker is asked to end.

Owns the one :class:`Stop` of a run and the task that turns signals into it. The first signal asks
for the ordered stop of design.md §3; a second one cancels the root nursery at once, losing nothing
durable.
"""

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from agentconnect.core.errors import AgentConnectError

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Stop:
    """Set once: by a signal, by an error of the relay, or by the caller."""

    def __init__(self) -> None:
        self._event = trio.Event()
        self.detail = "stopped"
        self.error: AgentConnectError | None = None
        self.second_signal: int | None = None

    @property
    def asked(self) -> bool:
        """Whether the stop has been asked for."""
        return self._event.is_set()

    def ask(self, detail: str, error: AgentConnectError | None = None) -> None:
        """Ask for the ordered stop; only the first call counts."""
        if not self._event.is_set():
            self.detail = detail
            self.error = error
            self._event.set()

    async def wait(self) -> None:
        """Until the stop is asked for."""
        await self._event.wait()

    @asynccontextmanager
    async def cuts(self) -> AsyncIterator[None]:
        """The block ends when the stop is asked for: for start-up steps that may take long."""
        async with trio.open_nursery() as watch:

            async def cut() -> None:
                await self.wait()
                watch.cancel_scope.cancel(reason="asked to stop")

            watch.start_soon(cut)
            yield
            watch.cancel_scope.cancel(reason="done")


async def watch_signals(
    stop: Stop,
    root: trio.CancelScope,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """SIGTERM, SIGINT, SIGHUP → ordered stop; again → cancel the root (exit 128 + number)."""
    with trio.open_signal_receiver(*STOP_SIGNALS) as received:
        task_status.started()
        async for number in received:
            if stop.asked:
                stop.second_signal = number
                root.cancel(reason="second signal")
                return
            stop.ask("interrupted" if number == signal.SIGINT else "terminated")
