"""The accept loop: a bounded number of connections, ended in order when the relay stops."""

import errno
import logging
import socket

import trio

from agentconnect.embedded.http1 import App, Connection
from agentconnect.embedded.line import Gone, Line
from agentconnect.embedded.timing import Timing

_log = logging.getLogger("agentconnect.embedded")
_AGAIN_S = 0.1
_FULL = (
    b"HTTP/1.1 503 \r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n"
    b'content-length: 43\r\n\r\n{"error":"The relay has no place left now"}'
)


class Listener:
    """Accepts, and knows which connections only wait for a request."""

    def __init__(self, app: App, timing: Timing) -> None:
        self.stopping = False
        self._app = app
        self._timing = timing
        self._open = 0
        self._idle: dict[Connection, trio.CancelScope] = {}  # the longest idle one first
        self._accepting = trio.CancelScope()

    @property
    def open(self) -> int:
        """How many connections there are."""
        return self._open

    async def run(
        self,
        listening: socket.socket,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until :meth:`stop`; what is being answered then has ``stop_s`` left."""
        listening.setblocking(False)
        with listening:
            async with trio.open_nursery() as connections:
                with self._accepting:
                    task_status.started()
                    await self._accept(listening, connections)
                trio.lowlevel.notify_closing(listening)
                listening.close()
                connections.cancel_scope.deadline = trio.current_time() + self._timing.stop_s

    async def _accept(self, listening: socket.socket, connections: trio.Nursery) -> None:
        while True:
            await trio.lowlevel.wait_readable(listening)
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                continue
            except OSError as error:  # no descriptor is left: some will be
                _log.error(
                    "no connection can be accepted: %s", errno.errorcode.get(error.errno or 0)
                )
                await trio.sleep(_AGAIN_S)
                continue
            connections.start_soon(self._serve, accepted)

    def stop(self) -> None:
        """Accept nobody any more and close who only waits."""
        self.stopping = True
        self._accepting.cancel()
        for scope in self._idle.values():
            scope.cancel()

    def waits(self, connection: Connection, scope: trio.CancelScope) -> None:
        """A connection waits for its next request."""
        if self.stopping:
            scope.cancel()
        self._idle[connection] = scope

    def works(self, connection: Connection) -> None:
        """It no longer does."""
        self._idle.pop(connection, None)

    async def _serve(self, accepted: socket.socket) -> None:
        self._open += 1
        try:
            with accepted:
                line = Line(accepted)
                try:
                    if self._open > self._timing.connections and not self._make_room():
                        await self._turn_away(line)
                    else:
                        await Connection(line, self._app, self._timing, self).run()
                finally:
                    line.close()
        except Gone:
            pass
        except Exception as error:  # noqa: BLE001 - the boundary of one connection
            _log.error("connection failed: %s", type(error).__name__)
        finally:
            self._open -= 1

    def _make_room(self) -> bool:
        for connection, scope in self._idle.items():
            scope.cancel()
            self.works(connection)
            return True
        return False

    async def _turn_away(self, line: Line) -> None:
        if self._open <= 2 * self._timing.connections:  # beyond that not even a word
            with trio.move_on_after(self._timing.linger_s):
                await line.write(_FULL, self._timing.linger_s)
                await line.linger()
