"""Frames on their way to an agent: at once where the kernel takes them, and whole or not at all."""

import os
from collections.abc import Callable

import trio

from agentconnect.core.errors import AgentConnectError, AgentExitedError, PeerError

WRITE_LIMIT_S = 60.0
SLOWEST_BYTES_S = 64 * 1024
"""An agent that does not take one frame in that time, and the time that a slow uplink needs for its
size, is not reading: the connection is dead."""
CUT_WRITE_S = 1.0
"""How long a frame may still take when nobody waits for it any more: half a frame is no frame."""


class PipeEnd(trio.abc.SendStream):
    """The end of a pipe that a child reads. Owns the descriptor ``number``."""

    def __init__(self, number: int) -> None:
        self._stream = trio.lowlevel.FdStream(number)

    def send_now(self, data: bytes) -> bytes:
        """What the pipe takes goes without a turn of the loop; the rest comes back.

        A pipe that is closed or broken takes nothing: :meth:`send_all` says which it is.
        """
        try:
            return data[os.write(self._stream.fileno(), data) :]
        except OSError:  # BlockingIOError among them
            return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """As any stream does. Raises: trio.BrokenResourceError, trio.ClosedResourceError."""
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """As any stream does."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Close it."""
        await self._stream.aclose()


async def send_whole(
    outgoing: trio.abc.SendStream,
    frame: bytes,
    *,
    on_sent: Callable[[], None] | None,
    on_stuck: Callable[[AgentConnectError], None],
) -> None:
    """Write one frame; ``on_sent`` runs when it is out, ``on_stuck`` where it never will be.

    Raises: AgentExitedError, PeerError. Cancellation: a frame that has begun gets ``CUT_WRITE_S``
    more, so that a turn whose agent has stopped reading ends in time.
    """
    rest = outgoing.send_now(frame) if isinstance(outgoing, PipeEnd) else frame
    if not rest:  # nearly always
        if on_sent is not None:
            on_sent()
        return
    failure: AgentConnectError | None = None
    limit_s = WRITE_LIMIT_S + len(rest) / SLOWEST_BYTES_S
    scope = trio.CancelScope(shield=True, deadline=trio.current_time() + limit_s)
    async with trio.open_nursery() as beside:
        beside.start_soon(_hurry_when_cancelled, scope)
        with scope:
            failure = await _send(outgoing, rest)
        if scope.cancelled_caught:
            failure = PeerError("the agent stopped reading its input")
            on_stuck(failure)
            with trio.CancelScope(shield=True):  # closing does not wait for the agent
                await outgoing.aclose()
        elif failure is None and on_sent is not None:
            on_sent()
        beside.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _send(outgoing: trio.abc.SendStream, data: bytes) -> AgentConnectError | None:
    try:
        await outgoing.send_all(data)
    except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
        gone = AgentExitedError("the agent no longer reads its input")
        gone.__cause__ = error
        return gone
    return None


async def _hurry_when_cancelled(scope: trio.CancelScope) -> None:
    """Give a shielded ``scope`` little time from when whoever opened it is cancelled."""
    try:
        await trio.sleep_forever()
    finally:
        scope.deadline = min(scope.deadline, trio.current_time() + CUT_WRITE_S)
