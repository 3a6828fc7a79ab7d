"""Blocking work in a thread, one call at a time, each seen to its end."""

from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class OneThread:
    """Calls in the order in which they came.

    At half the price of ``trio.to_thread``, which gives each call a name, a context and a turn of
    the loop of its own.
    """

    def __init__(self) -> None:
        self._line = trio.StrictFIFOLock()

    async def run(self, work: Callable[[], T]) -> T:
        """What ``work`` returns or raises.

        Cancellation: one that has begun is waited for, and its value is returned.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            self._line.acquire_nowait()  # nearly always: no turn of the loop then
        except trio.WouldBlock:
            await self._line.acquire()
        try:
            call = _Call(work)
            trio.lowlevel.start_thread_soon(call.work, call.landed)
            await trio.lowlevel.wait_task_rescheduled(_unstoppable)
            return call.value()
        finally:
            self._line.release()


class _Call(Generic[T]):
    """One call; made by the task that waits for it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._found: list[T] = []
        self._error: BaseException | None = None
        self._task = trio.lowlevel.current_task()
        self._token = trio.lowlevel.current_trio_token()

    def work(self) -> None:
        """In the thread."""
        try:
            self._found.append(self._work())
        except BaseException as error:  # noqa: BLE001 - raised again, where it is waited for
            self._error = error

    def landed(self, _: object) -> None:
        """In the thread, behind it."""
        with suppress(trio.RunFinishedError):  # nobody is there to be told
            self._token.run_sync_soon(trio.lowlevel.reschedule, self._task)

    def value(self) -> T:
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._found[0]


def _unstoppable(_: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED
