"""One run of a command-line program, from its start to the end of its whole group (stack.md §5).

Owns its pipes and what is kept of them. The process lives in the adapter's nursery, so a cancelled
turn costs nobody else a wait; whatever happens, the group is gone when :meth:`Child.live` returns.
"""

import logging
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import msgspec
import trio

from agentconnect.acp import Spawner
from agentconnect.core.turns.oneshot import Kept, Output

log = logging.getLogger("agentconnect.adapters")

TERM_GRACE_S = 5.0
DRAIN_S = 1.0  # who left the group may hold its pipes for ever
OUT_HEAD_BYTES = 512 * 1024
OUT_TAIL_BYTES = 1024 * 1024
ERR_BYTES = 64 * 1024
_BLOCK_BYTES = 64 * 1024


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A command line, and what is written to its stdin; None is ``/dev/null``."""

    argv: tuple[str, ...]
    stdin: bytes | None = None


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """Who is told of a child's pid, so that orphans can be found."""

    began: Callable[[int], Awaitable[None]]
    ended: Callable[[int], Awaitable[None]]


class Child:
    """Made before its process; :meth:`live` is its standing task."""

    def __init__(self, command: Command, *, cwd: str, env: Mapping[str, str]) -> None:
        self._command = command
        self._cwd = cwd
        self._env = env
        self._out = Kept(OUT_HEAD_BYTES, OUT_TAIL_BYTES)
        self._err = Kept(ERR_BYTES, ERR_BYTES)
        self._code = 0
        self._waiting = trio.CancelScope()
        self._gentle = trio.CancelScope()
        self.ended = trio.Event()

    def stop(self, *, now: bool = False) -> None:
        """End the group: SIGTERM, and SIGKILL after a grace or ``now``. Idempotent."""
        self._waiting.cancel()
        if now:
            self._gentle.cancel()

    @property
    def output(self) -> Output:
        """What it has written so far, and its exit code once it has ended."""
        return Output(code=self._code, out=self._out.text, err=self._err.text)

    async def live(
        self,
        spawner: Spawner,
        watch: Watch | None,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Start it and stay until it has ended. The boundary of one process.

        Raises: OSError before ``started`` when it cannot be run; nothing after.
        Cancellation: ends the group, shielded and bounded.
        """
        process = await spawner.spawn(
            self._command.argv,
            cwd=self._cwd,
            env=self._env,
            has_input=self._command.stdin is not None,
        )
        try:
            async with trio.open_nursery() as pipes:
                pipes.start_soon(_feed, process.stdin, self._command.stdin or b"")
                pipes.start_soon(_keep, process.stdout, self._out)
                pipes.start_soon(_keep, process.stderr, self._err)
                if watch is not None:
                    pipes.start_soon(watch.began, process.pid)
                task_status.started()
                try:
                    with self._waiting:  # may end: the turn was stopped, timed out or cancelled
                        await process.exited()
                finally:
                    with trio.CancelScope(shield=True), self._gentle:
                        await process.terminate(TERM_GRACE_S)
                    with trio.CancelScope(shield=True):
                        await process.terminate(0.0)
                pipes.cancel_scope.deadline = trio.current_time() + DRAIN_S
        except Exception:
            log.exception("the program with pid %d could not be followed", process.pid)
        finally:
            code = process.returncode
            self._code = -signal.SIGKILL if code is None else code
            with trio.CancelScope(shield=True):
                await process.close()
                if watch is not None:
                    await watch.ended(process.pid)
            self.ended.set()


async def _feed(stdin: trio.abc.SendStream, data: bytes) -> None:
    """Write all of it; a program that does not read to the end is free to."""
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        if data:
            await stdin.send_all(data)
        await stdin.aclose()


async def _keep(stream: trio.lowlevel.FdStream, kept: Kept) -> None:
    """Read to the end, so that the program is never held up."""
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while block := await stream.receive_some(_BLOCK_BYTES):
            kept.add(block)
