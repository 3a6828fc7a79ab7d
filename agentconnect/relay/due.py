"""What is owed to the relay, sent as soon as it is due: the loop that acks and results share."""

from collections.abc import Callable

import trio

NOTHING = float("inf")
"""Nothing waits for its time: the next reason to look comes from outside."""


class Sends:
    """Starts what is due where it is owed, and wakes by itself only for what is due later."""

    def __init__(self, start_due: Callable[[trio.Nursery], float]) -> None:
        """``start_due`` starts the sends that are due and returns the seconds until another is."""
        self._start_due = start_due
        self._nursery: trio.Nursery | None = None  # there while it runs
        self._wake = trio.Event()

    def go_on(self) -> None:
        """Something is owed, or a send has ended: start what is due now."""
        if self._nursery is None or self._start_due(self._nursery) < NOTHING:
            self._wake.set()

    def wake(self) -> None:
        """Let :meth:`run` ask whether there is more to come."""
        self._wake.set()

    async def run(self, more: Callable[[], bool]) -> None:
        """Send until there is no ``more``. Cancellation: sends under way are cut."""
        try:
            async with trio.open_nursery() as self._nursery:
                while more():
                    self._wake = trio.Event()
                    rest_s = self._start_due(self._nursery)
                    if rest_s == NOTHING:  # nearly always: no timer is needed then
                        await self._wake.wait()
                    else:
                        with trio.move_on_after(rest_s):  # may end: a retry is due
                            await self._wake.wait()
        finally:
            self._nursery = None
