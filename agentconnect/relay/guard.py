"""One poller per bearer: the record beside the journal (relay-wire.md §15).

Life is a fresh stamp, never a pid. The record is judged and written in place in one locked section;
it is never renamed or unlinked. We also hold the state folder's ``flock`` for life, so a record
that says ``"flock": true`` was left by a process that is gone: taken at once. A lock that cannot
be evaluated never silences delivery: then we poll anyway, and say so. Before the record comes the
claim on the bearer itself (``claim``), which other state folders see.
"""

import fcntl
import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec
import trio

from agentconnect.core.relay.guard import Guard, judge, read_record, stamped
from agentconnect.relay.claim import BearerClaim

LOCK_WAIT_S, LOCK_STEP_S = 1.0, 0.05
RECORD_BYTES = 4096
CHECK_EVERY_S = 1.0
"""A verdict this young by both clocks stands: the window it guards is 150 s, and a machine that
slept has only the wall clock to show for it."""

STANDBY_S = 15.0
CLAIM_LOOK_S = 2.0
"""A claim is freed by the kernel, so looking is all it takes; a record has to go stale."""


class GuardKeeper:
    """Our claim on the bearer."""

    def __init__(
        self,
        path: Path,
        claim: BearerClaim,
        *,
        wall_now: Callable[[], float],
        mono_now: Callable[[], float] = trio.current_time,
    ) -> None:
        self.state = Guard.IDLE
        self.displaced = False
        self.recheck_s = STANDBY_S
        self._path = path
        self._claim = claim
        self._wall_now = wall_now
        self._mono_now = mono_now
        self._owner = secrets.token_hex(16)
        self._taken = False
        self._checked: tuple[float, float] | None = None

    async def check(self) -> bool:
        """Take or keep the claim; whether we may poll. Called by the poller, and only by it."""
        if not await self._claim.hold():
            self.state, self.recheck_s = Guard.LOST, CLAIM_LOOK_S
            return False
        self.recheck_s = STANDBY_S
        now = self._mono_now()
        if self.polling and self._young():
            return True
        self._checked = now, self._wall_now()
        while True:
            try:
                await trio.to_thread.run_sync(self._judge_and_write)
                break
            except BlockingIOError:
                if self._mono_now() - now < LOCK_WAIT_S:
                    await trio.sleep(LOCK_STEP_S)
                    continue
                self.state = Guard.DEGRADED
                break
            except OSError:
                self.state = Guard.DEGRADED
                break
        return self.polling

    def _young(self) -> bool:
        if self._checked is None:
            return False
        mono, wall = self._mono_now() - self._checked[0], self._wall_now() - self._checked[1]
        return mono < CHECK_EVERY_S and abs(wall) < CHECK_EVERY_S

    @property
    def polling(self) -> bool:
        return self.state in (Guard.HELD, Guard.DEGRADED)

    async def release(self) -> None:
        """Empty the record if it is ours, then free the bearer. Never raises.

        Only once the poller has ended.
        """
        if self._taken and not self.displaced:
            with trio.move_on_after(LOCK_WAIT_S, shield=True):
                await trio.to_thread.run_sync(self._empty)
        self._claim.release()  # last: whoever waits for it finds the record free as well
        self._taken = False
        self._checked = None
        self.state = Guard.IDLE

    def _judge_and_write(self) -> None:
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            now = self._wall_now()
            record = read_record(os.pread(handle, RECORD_BYTES, 0).decode("utf-8", "replace"))
            verdict = judge(
                record, me=self._owner, wall_now=now, held=self._taken, owns_workspace=True
            )
            if verdict.write:
                fresh = stamped(
                    record,
                    me=self._owner,
                    pid=os.getpid(),
                    host=socket.gethostname(),
                    wall_now=now,
                    flock=True,
                )
                text = msgspec.json.encode(fresh) + b"\n"
                os.pwrite(handle, text, 0)
                os.ftruncate(handle, len(text))
        finally:
            os.close(handle)
        self.state, self.displaced = verdict.state, verdict.displaced
        self._taken = self._taken or verdict.state is Guard.HELD

    def _empty(self) -> None:
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._owner.encode() in os.pread(handle, RECORD_BYTES, 0):
                os.ftruncate(handle, 0)
        except OSError:
            pass  # it goes stale instead
        finally:
            os.close(handle)
