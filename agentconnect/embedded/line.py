"""One accepted TCP connection as the relay uses it: read, write, end, break.

On the plain non-blocking socket: nearly every write goes out at once and nearly every read has to
wait, so neither costs a turn of the event loop. Whatever is wrong with it is :class:`Gone`.
"""

import socket
import struct

import trio

_READ = 65_536
_PIECE = 262_144  # written under one limit, so that a slow peer's progress counts


class Gone(OSError):
    """The peer went away, or took too long."""


class Line:
    """The connection. One task reads at a time, and one writes."""

    def __init__(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = accepted

    async def read(self) -> bytes:
        """What arrives next; ``b""`` for the end.

        Raises:
            Gone: the connection broke.
        """
        while True:
            try:
                await trio.lowlevel.wait_readable(self._socket)
                return self._socket.recv(_READ)
            except (BlockingIOError, InterruptedError):
                pass
            except (OSError, trio.ClosedResourceError) as error:
                raise Gone from error

    async def write(self, data: bytes, gap_s: float) -> None:
        """Write, as long as some of it goes on its way in every ``gap_s``.

        Raises:
            Gone: the connection broke or did not move.

        Cancellation: only where the peer is slower than we are.
        """
        rest = memoryview(data)
        while rest:
            sent = self._send(rest[:_PIECE])
            rest = rest[sent:]
            if rest and not sent:
                with trio.move_on_after(gap_s) as limit:
                    await self._writable()
                if limit.cancelled_caught:
                    raise Gone
            elif rest:  # much to write is no reason to hold up the others
                await trio.lowlevel.checkpoint()

    async def linger(self) -> None:
        """Let the peer read its answer before the connection closes on what it still sends."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
            while await self.read():
                pass
        except OSError:
            pass

    def break_off(self) -> None:
        """Make the end, when it comes, a reset."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def close(self) -> None:
        """End the connection."""
        trio.lowlevel.notify_closing(self._socket)
        self._socket.close()

    def _send(self, data: memoryview) -> int:
        try:
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            raise Gone from error

    async def _writable(self) -> None:
        try:
            await trio.lowlevel.wait_writable(self._socket)
        except (OSError, trio.ClosedResourceError) as error:
            raise Gone from error
