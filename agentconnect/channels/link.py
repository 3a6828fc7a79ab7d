"""The daemon's side of one channel worker: its process, and its two pipes as lines (§10).

Its environment is what an interpreter needs and nothing else: secrets travel by its stdin alone.
"""

import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Protocol

import trio

from agentconnect.acp import Spawner
from agentconnect.core.acp.framing import LineReader, LineTooLongError
from agentconnect.core.channels import ipc
from agentconnect.core.channels.ipc import ToDaemon

_BLOCK_BYTES = 64 * 1024
_PASSED_ON = frozenset(
    [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "VIRTUAL_ENV",
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONDONTWRITEBYTECODE",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
    ]
)


class Process(Protocol):
    """A running child with three pipes, as the spawner makes it."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    @property
    def stdin(self) -> trio.abc.SendStream: ...

    @property
    def stdout(self) -> trio.abc.ReceiveStream: ...

    def stderr_tail(self, characters: int = 500) -> str: ...

    async def drain_stderr(self) -> None: ...

    async def exited(self) -> int: ...

    async def terminate(self, kill_after_s: float) -> None: ...

    async def close(self) -> None: ...


Spawn = Callable[[], Awaitable[Process]]
"""Starts a channel worker. Raises: OSError."""


@contextmanager
def spawner(environment: Mapping[str, str]) -> Iterator[Spawn]:
    """How workers are started. Leave it only when they have ended."""
    command = (sys.executable, "-P", "-m", "agentconnect", "channel-worker")
    kept = {
        name: value
        for name, value in environment.items()
        if name in _PASSED_ON or name.startswith("LC_")
    }
    with Spawner() as children:

        async def spawn() -> Process:
            return await children.spawn(command, cwd="/", env=kept)

        yield spawn


async def end(process: Process, grace_s: float) -> None:
    """Close its input, give it ``grace_s`` to end, then kill it. Shielded by the caller."""
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        await process.stdin.aclose()
    with trio.move_on_after(grace_s):
        await process.exited()
        return
    await process.terminate(0.0)


class WorkerLink:
    """Lines to a worker and from it."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._writing = trio.Lock()
        self._reader = LineReader(ipc.MAX_LINE_BYTES)
        self._lines: list[bytes] = []
        self._broken = trio.Event()

    async def write(self, line: bytes) -> bool:
        """One line, whole; False where the pipe is broken.

        Cancellation: a line that was cut ends the link.
        """
        if len(line) > ipc.MAX_LINE_BYTES:
            return False
        async with self._writing:
            if self._broken.is_set():
                return False
            whole = False
            try:
                await self._process.stdin.send_all(line)
                whole = True
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return False
            finally:
                if not whole:
                    self._broken.set()
        return True

    async def next(self) -> ToDaemon | None:
        """The next message that is one of ours; None where there will be none."""
        while True:
            while self._lines:
                message = ipc.from_worker(self._lines.pop(0))
                if message is not None:
                    return message
            block = await self._block()
            if not block:
                return None
            try:
                self._lines = self._reader.feed(block)
            except LineTooLongError:
                return None

    async def broken(self) -> None:
        """Return when a write has failed."""
        await self._broken.wait()

    async def _block(self) -> bytes:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            return bytes(await self._process.stdout.receive_some(_BLOCK_BYTES))
        return b""
