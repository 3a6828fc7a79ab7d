"""Minutes in an instant: the real client over real sockets, under a clock that a test moves.

Time stands still until everything has come to rest, and then goes to the next deadline. So the
seconds between two calls are those of the rules, however slow the machine is.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio
import trio.testing

from tests.shell.relay.rig import Rig

CUSHION_S = 0.002
"""Real seconds without an event on any socket: what was sent over loopback has arrived."""

STEPS = 100_000
Found = TypeVar("Found")


class Minutes:
    """Moves a ``mock_clock`` for one client after another."""

    def __init__(self, clock: trio.testing.MockClock) -> None:
        self._clock = clock
        self.rig: Rig | None = None
        """The client of whose journal a write may be under way."""

    async def go(self, seconds: float) -> None:
        """Let so many seconds pass."""
        await self._step(lambda: False, seconds)

    async def until(self, condition: Callable[[], bool], within_s: float) -> float:
        """The seconds that pass until a state is there."""
        began = trio.current_time()
        found = await self._step(condition, within_s)
        assert found, f"did not come within {within_s:g} s"
        return trio.current_time() - began

    async def through(self, work: Callable[[], Awaitable[Found]], within_s: float) -> Found:
        """What a call that takes time comes to."""
        found: list[Found] = []

        async def run() -> None:
            found.append(await work())

        async with trio.open_nursery() as beside:
            beside.start_soon(run)
            await self.until(lambda: bool(found), within_s)
        return found[0]

    async def _step(self, condition: Callable[[], bool], within_s: float) -> bool:
        end = trio.current_time() + within_s
        for _ in range(STEPS):
            await self._rest()
            left = end - trio.current_time()
            if condition():
                return True
            if left <= 0:
                return False
            next_s = trio.lowlevel.current_statistics().seconds_to_next_deadline
            self._clock.jump(max(0.0, min(left, next_s)))
        raise AssertionError("time does not pass: something waits for nothing, again and again")

    async def _rest(self) -> None:
        """Return once every task waits for time or for a peer."""
        threads = trio.to_thread.current_default_thread_limiter()
        while True:
            await trio.testing.wait_all_tasks_blocked(CUSHION_S)
            writing = self.rig is not None and self.rig.journal._database.busy
            if not threads.borrowed_tokens and not writing:
                return
            await trio.to_thread.run_sync(time.sleep, 0.0005)
