"""The channel worker: a child of the daemon that alone holds a workspace's IM credentials (§10).

``agent-connect channel-worker``. Its configuration is the first line of stdin, its answers are the
lines of stdout, its life ends with stdin. Nothing of a message or a secret is in what it logs.
"""

import os
import ssl
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import trio

from agentconnect.channels import http
from agentconnect.channels.group import Build, Group
from agentconnect.channels.registry import World, build
from agentconnect.core.acp.framing import LineReader, LineTooLongError
from agentconnect.core.channels import ipc
from agentconnect.core.channels.ipc import Configure, ToWorker
from agentconnect.status import logs

HEARTBEAT_S = 10.0
_BLOCK_BYTES = 64 * 1024


def world() -> World:
    """The real one."""
    trust: Callable[[], ssl.SSLContext] = cache(http.trust)
    return World(lambda: http.HttpDoor(trust()), trust, time.time)


def run_channel_worker() -> int:
    """The process, from its pipes to its exit code. The boundary of the program."""
    stdin, stdout = _own_pipes()
    try:
        trio.run(_serve, stdin, stdout)
    except Exception as error:  # noqa: BLE001 - a traceback could hold what must not be written
        sys.stderr.write(f"channel-worker: {_kind(error)}\n")
        return 1
    return 0


def _own_pipes() -> tuple[int, int]:
    """Stdin and stdout for us alone: a stray ``print`` goes to stderr."""
    ours = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return ours


async def _serve(stdin: int, stdout: int) -> None:
    async with trio.lowlevel.FdStream(stdin) as source, trio.lowlevel.FdStream(stdout) as sink:
        await ChannelWorker(source, sink, world()).run()


class ChannelWorker:
    """One worker between its two streams."""

    def __init__(
        self,
        source: trio.abc.ReceiveStream,
        sink: trio.abc.SendStream,
        world: World,
        *,
        build: Build = build,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        self._source = source
        self._sink = sink
        self._world = world
        self._build = build
        self._heartbeat_s = heartbeat_s
        self._writing = trio.Lock()
        self._reader = LineReader(ipc.MAX_LINE_BYTES)
        self._waiting: list[bytes] = []

    async def run(self) -> None:
        """Serve until the daemon closes the pipe, or stops listening."""
        first = await self._line()
        configured = ipc.configuration(first) if first else None
        if configured is None:
            return
        secrets = tuple(s for one in configured.channels.values() for s in one.all_secrets)
        logs.configure("text", lambda: secrets)
        async with trio.open_nursery() as tasks:
            try:
                await self._work(configured, tasks)
            except* (trio.BrokenResourceError, trio.ClosedResourceError, LineTooLongError):
                pass  # the daemon is gone, or speaks another language
            tasks.cancel_scope.cancel(reason="the daemon closed the pipe")

    async def _work(self, configured: Configure, tasks: trio.Nursery) -> None:
        group = Group(configured.channels, self._world, build=self._build)
        async with trio.open_nursery() as starting:
            starting.start_soon(self._until_closed, tasks.cancel_scope)
            await group.start(tasks)
            starting.cancel_scope.cancel(reason="all have started")
        ready = ipc.Ready(pid=os.getpid(), channels=group.started, failed=group.failed)
        await self._say(ipc.line(ready))
        tasks.start_soon(self._beat)
        while True:
            line = await self._line()
            if line is None:
                return
            attempt = ipc.from_daemon(line)
            if attempt is not None:
                tasks.start_soon(self._attempt, group, attempt)

    async def _until_closed(self, life: trio.CancelScope) -> None:
        """A provider that does not answer holds up a start, but no stop."""
        line = await self._line()
        if line is None:
            life.cancel(reason="the daemon closed the pipe")
        else:
            self._waiting.insert(0, line)

    async def _attempt(self, group: Group, attempt: ToWorker) -> None:
        result = await group.attempt(attempt, int(self._world.wall_clock() * 1000))
        await self._say_if_heard(ipc.line(result))

    async def _beat(self) -> None:
        while True:
            await trio.sleep(self._heartbeat_s)
            at = int(self._world.wall_clock() * 1000)
            await self._say_if_heard(ipc.line(ipc.Heartbeat(pid=os.getpid(), at=at)))

    async def _say_if_heard(self, line: bytes) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._say(line)  # else: whoever reads the other pipe will see the end

    async def _say(self, line: bytes) -> None:
        async with self._writing:
            with trio.CancelScope(shield=True):  # half a line would be read with the next one
                await self._sink.send_all(line)

    async def _line(self) -> bytes | None:
        """The daemon's next line; None at the end. Raises: LineTooLongError."""
        while not self._waiting:
            block = await self._source.receive_some(_BLOCK_BYTES)
            if not block:
                return None
            self._waiting = self._reader.feed(block)
        return self._waiting.pop(0)


def _kind(error: BaseException) -> str:
    """What ended us, by its types alone."""
    if isinstance(error, BaseExceptionGroup):
        return ", ".join(_kind(inner) for inner in error.exceptions)
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    at = f" at {Path(where.tb_frame.f_code.co_filename).name}:{where.tb_lineno}" if where else ""
    return f"{type(error).__name__}{at}"
