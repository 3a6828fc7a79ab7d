"""A turn's own deadline, and its two steps (worker.md §8.8, §16; style rule 21).

Owns when a turn is told to stop and when its wait is cut off. It never ends a process: the turn
does, once the text is safe. A stop of the worker brings it forward; it never moves it back.
"""

import logging
from enum import StrEnum
from typing import Protocol

import trio

log = logging.getLogger("agentconnect.turns")

CANCEL_GRACE_S = 15.0  # worker.md §8.8: after session/cancel, before the process is ended


class Cause(StrEnum):
    """Why a turn's deadline came."""

    TIMEOUT = "timeout"
    STOPPED = "stopped"


class Interruptible(Protocol):
    """A conversation whose turn can be asked to stop."""

    async def interrupt(self) -> None: ...


class Deadline:
    """One turn's own end: it expires, or a stop brings it forward."""

    def __init__(self, timeout_s: float, grace_s: float) -> None:
        self._timeout_s = timeout_s or float("inf")
        self._grace_s = grace_s
        self._stop = trio.Event()
        self._grace = trio.CancelScope()
        self.cause: Cause | None = None
        self.killed = False  # the agent did not end in its grace

    def stop(self, grace_s: float) -> None:
        """The worker stops: the turn has ``grace_s`` from now, at most."""
        self._grace_s = min(self._grace_s, grace_s)
        self._grace.deadline = min(self._grace.deadline, trio.current_time() + grace_s)
        self._stop.set()

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def passed(self) -> bool:
        """Whether it has come: asked before the agent is, which cannot be told of it before."""
        if self.stopping and self.cause is None:
            self.cause = Cause.STOPPED
        return self.cause is not None

    async def watch(self, agent: Interruptible, wait: trio.CancelScope) -> None:
        """Expire, ask the agent to stop, and end the wait if it does not."""
        with trio.move_on_after(self._timeout_s):  # may end: the turn's time is up
            await self._stop.wait()
        self.cause = Cause.STOPPED if self.stopping else Cause.TIMEOUT
        self._grace.deadline = min(self._grace.deadline, trio.current_time() + self._grace_s)
        with self._grace:  # may end: the agent did not stop by itself
            try:
                await agent.interrupt()
            except Exception:
                log.exception("the agent could not be asked to stop")
            await trio.sleep_forever()  # the turn's end cancels this watcher
        self.killed = True
        wait.cancel()
