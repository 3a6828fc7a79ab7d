"""Making the log of the database durable: one fsync for everybody who waits for one.

A commit is in the kernel's hands when it returns, which survives a kill of the process; a power cut
it survives after the next fsync of the log. That is the only slow part of a small commit and the
only one that runs in a thread. An fsync that failed may have lost what it was for, so after one
nothing here is called durable any more; the database is whole, and a restart reads what it has.
"""

import os
from pathlib import Path

import trio

from agentconnect.core.errors import StoreUnreadableError

_fsync = getattr(os, "fdatasync", os.fsync)  # as the database does it
_BROKEN = "the relay's disk did not keep what was written: nothing more is accepted until a restart"


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Raises: OSError."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Syncs:
    """The fsyncs of one log, shared."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._descriptor = -1
        self._asked = 0
        self._reached = 0
        self._running = False
        self._round = trio.Event()
        self.broken = False
        self.count = 0

    def check(self) -> None:
        """Refuse to go on after a failure.

        Raises:
            StoreUnreadableError: an fsync failed.
        """
        if self.broken:
            raise StoreUnreadableError(_BROKEN)

    async def reach(self) -> None:
        """Return when everything that was committed before this call is on the disk.

        Raises:
            StoreUnreadableError: it is not known to be.

        Cancellation: none; it takes what an fsync takes.
        """
        self._asked += 1
        wanted = self._asked
        with trio.CancelScope(shield=True):
            while self._reached < wanted:
                self.check()
                if self._running:
                    await self._round.wait()
                else:
                    await self._sync()

    async def _sync(self) -> None:
        self._running, upto = True, self._asked
        try:
            if self._descriptor < 0:
                self._descriptor = os.open(self._log, os.O_RDWR | os.O_CLOEXEC)
            await trio.to_thread.run_sync(_fsync, self._descriptor)
            self._reached = upto
            self.count += 1
        except OSError as error:
            self.broken = True
            raise StoreUnreadableError(_BROKEN) from error
        finally:
            self._running = False
            self._round.set()
            self._round = trio.Event()

    def close(self) -> None:
        """Let the log go."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
