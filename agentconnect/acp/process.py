"""An agent as a child process: started, watched, its stderr kept, its whole group ended (§8.2).

Every child is made by one thread that lives as long as its owner, because the kernel's
parent-death signal is tied to the thread that forked (stack.md §5).
"""

import ctypes
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO

import msgspec
import trio

from agentconnect.acp.links import EndPace
from agentconnect.acp.sending import PipeEnd

STDERR_LINES = 200
STDERR_BYTES = 64 * 1024
DRAIN_S = 1.0
_PR_SET_PDEATHSIG = 1


class _Job(msgspec.Struct, frozen=True):
    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    has_input: bool
    done: Callable[["subprocess.Popen[bytes] | OSError"], None]


class Spawner:
    """The one thread that makes children. Leave it only when they have ended."""

    def __init__(self, umask: int = -1) -> None:
        """``umask`` is what children get; -1 leaves ours, which keeps our own files private."""
        self._umask = umask
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()

    def __enter__(self) -> "Spawner":
        threading.Thread(target=self._run, name="agent-spawner", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._jobs.put(None)

    async def connect(
        self, argv: Sequence[str], wires: trio.Nursery, *, cwd: str, env: Mapping[str, str]
    ) -> "AgentProcess":
        """:meth:`spawn` as a ``links.Connect``."""
        return await self.spawn(argv, cwd=cwd, env=env)

    async def spawn(
        self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], has_input: bool = True
    ) -> "AgentProcess":
        """Start a child in a session of its own; without input its stdin is ``/dev/null``.

        Raises: OSError, as ``subprocess.Popen`` does. Cancellation: waits for the fork (it takes
        milliseconds), so that no child can be lost.
        """
        token = trio.lowlevel.current_trio_token()
        finished = trio.Event()
        results: list[subprocess.Popen[bytes] | OSError] = []

        def done(result: subprocess.Popen[bytes] | OSError) -> None:
            results.append(result)
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(finished.set)

        self._jobs.put(_Job(argv, cwd, env, has_input, done))
        with trio.CancelScope(shield=True):
            await finished.wait()
        result = results[0]
        if isinstance(result, OSError):
            raise result
        return AgentProcess(result)

    def _run(self) -> None:
        die_with_us = _death_signal()
        while (job := self._jobs.get()) is not None:
            try:
                job.done(
                    subprocess.Popen(
                        job.argv,
                        cwd=job.cwd,
                        env=job.env,
                        bufsize=0,
                        stdin=subprocess.PIPE if job.has_input else subprocess.DEVNULL,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        start_new_session=True,
                        umask=self._umask,
                        preexec_fn=die_with_us,
                    )
                )
            except OSError as error:
                job.done(error)
            except (ValueError, subprocess.SubprocessError) as error:  # a NUL in a word
                job.done(OSError(str(error)))


def _death_signal() -> Callable[[], None] | None:
    """What a child does before exec so that it dies with us; libc is loaded here, not there."""
    if sys.platform != "linux":
        return None
    try:
        prctl = ctypes.CDLL(None, use_errno=True).prctl
    except (OSError, AttributeError):
        return None
    kill = int(signal.SIGKILL)

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, kill)

    return ask


class AgentProcess:
    """A running child and its three pipes."""

    def __init__(self, popen: "subprocess.Popen[bytes]") -> None:
        self._popen = popen
        self.pid = popen.pid
        self.stdin = PipeEnd(_taken(popen.stdin))
        self.stdout = trio.lowlevel.FdStream(_taken(popen.stdout))
        self.stderr = trio.lowlevel.FdStream(_taken(popen.stderr))
        self._tail: deque[bytes] = deque(maxlen=STDERR_LINES)
        self._ended = trio.Event()
        self._waiting = trio.Lock()

    @property
    def returncode(self) -> int | None:
        """None while it runs."""
        return self._popen.returncode

    @property
    def running(self) -> bool:
        """Asked of the kernel: it may have ended before anybody here was woken."""
        if self._popen.returncode is not None:
            return False
        if not hasattr(os, "waitid"):
            return True
        look = os.WEXITED | os.WNOHANG | os.WNOWAIT
        try:
            return os.waitid(os.P_PID, self.pid, look) is None
        except ChildProcessError:
            return False

    def stderr_tail(self, characters: int = 500) -> str:
        """The end of what it said on stderr, without control characters. For logs only."""
        text = b"\n".join(self._tail).decode("utf-8", "replace")
        clean = "".join(c if c.isprintable() or c == "\n" else " " for c in text)
        return clean.strip()[-characters:]

    async def drain_stderr(self) -> None:
        """Keep the last lines, without ever holding up the child."""
        line = bytearray()
        size = 0
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while block := await self.stderr.receive_some(65536):
                *whole, rest = block.split(b"\n")
                for piece in whole:
                    line += piece
                    kept = bytes(line[-STDERR_BYTES:])
                    if len(self._tail) == STDERR_LINES:
                        size -= len(self._tail[0])
                    self._tail.append(kept)
                    size += len(kept)
                    while size > STDERR_BYTES:
                        size -= len(self._tail.popleft())
                    line.clear()
                line += rest
                if len(line) > 2 * STDERR_BYTES:
                    del line[:-STDERR_BYTES]
        if line:
            self._tail.append(bytes(line[-STDERR_BYTES:]))

    async def exited(self) -> int:
        """Wait for the leader to end, end what is left of its group, and reap it."""
        async with self._waiting:
            if not self._ended.is_set():
                await self._wait()
        assert self._popen.returncode is not None
        return self._popen.returncode

    async def _wait(self) -> None:
        if hasattr(os, "pidfd_open"):
            watch = os.pidfd_open(self.pid)
            try:
                await trio.lowlevel.wait_readable(watch)
            finally:
                os.close(watch)
            self._signal(signal.SIGKILL)  # the group, while the unreaped leader keeps its number
            self._popen.wait()
        else:
            await trio.to_thread.run_sync(self._popen.wait, abandon_on_cancel=True)
            self._signal(signal.SIGKILL)
        self._ended.set()

    async def end(self, pace: EndPace) -> None:
        """Input closed, SIGTERM, SIGKILL, both to the group; returns when the leader is reaped.

        Cancellation: call it shielded; it is bounded by ``pace`` and the kernel.
        """
        with suppress(trio.BrokenResourceError):
            await self.stdin.aclose()
        for limit_s, then in (
            (pace.term_after_s, signal.SIGTERM),
            (pace.kill_after_s, signal.SIGKILL),
        ):
            with trio.move_on_after(limit_s):
                await self.exited()
                return
            self._signal(then)
        with trio.move_on_after(DRAIN_S):
            await self.exited()

    async def terminate(self, kill_after_s: float) -> None:
        """As :meth:`end`, with SIGTERM at once: for a child that does not wait for input."""
        await self.end(EndPace(term_after_s=0.0, kill_after_s=kill_after_s))

    async def close(self) -> None:
        """Close our ends of the pipes."""
        for stream in (self.stdin, self.stdout, self.stderr):
            await stream.aclose()

    def _signal(self, number: signal.Signals) -> None:
        if self._popen.returncode is None or number == signal.SIGKILL:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)


def _taken(pipe: "IO[bytes] | None") -> int:
    if pipe is None:  # a child without input: what is written to it goes nowhere
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    number = os.dup(pipe.fileno())
    pipe.close()
    return number
