"""The one HTTP/1.1 server of the daemon: Hypercorn's connections on a socket of ours (§2).

Accepting is ours: Hypercorn's own loop ends, and the worker with it, where one connection raises.
"""

import logging
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast

import trio
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework, ConnectionState
from hypercorn.utils import wrap_app

from agentconnect.core.daemon.guard import Bound
from agentconnect.core.errors import SettingsError, first_cause
from agentconnect.daemon.setup import Listen

log = logging.getLogger("agentconnect.daemon")

HEAD_BYTES = 64 * 1024
KEEP_ALIVE_S = 75.0
MAX_CONNECTIONS = 1024
"""Beyond it a new one is closed at once."""
STOP_S = 6.0
"""For requests under way at a stop: an attempt gets 5 s."""


def listening(listen: Listen) -> tuple[socket.socket, Bound]:
    """A socket that listens. Raises: SettingsError with what to change."""
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((listen.host, listen.port))
        made.listen(128)
    except OSError as error:
        made.close()
        raise SettingsError(
            f"AGENT_CONNECT_DAEMON_LISTEN is {listen.text}, where nothing can listen: "
            f"{error.strerror}. Name another address or port; port 0 takes any that is free."
        ) from error
    made.setblocking(False)
    port = made.getsockname()[1]
    return made, Bound(host=listen.host, port=port, loopback=listen.loopback)


async def serve(
    app: ASGIFramework,
    listener: socket.socket,
    stop: Callable[[], Awaitable[None]],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until ``stop`` returns; then the socket closes, and what is under way has a while.

    Cancellation: cuts every connection.
    """
    config = Config()
    config.accesslog = config.errorlog = None
    config.include_server_header = False
    config.h11_max_incomplete_size = HEAD_BYTES
    config.keep_alive_timeout = KEEP_ALIVE_S
    context = WorkerContext(None)
    wrapped = wrap_app(app, config.wsgi_max_body_size, "asgi")
    open_now = trio.CapacityLimiter(MAX_CONNECTIONS)

    async def connection(stream: trio.SocketStream) -> None:
        """The boundary of one connection: Hypercorn raises for some that break the protocol."""
        try:
            open_now.acquire_on_behalf_of_nowait(stream)
        except trio.WouldBlock:
            await trio.aclose_forcefully(stream)
            return
        try:
            plain = cast("trio.SSLStream[trio.SocketStream]", stream)  # it takes either
            await TCPServer(wrapped, config, context, ConnectionState({}), plain)
        except Exception as error:  # noqa: BLE001 - this connection's alone
            log.info("a connection ended badly: %s", type(first_cause(error)).__name__)
        finally:
            open_now.release_on_behalf_of(stream)

    async with trio.open_nursery() as connections:
        async with trio.open_nursery() as accepting:
            sockets = [trio.SocketListener(trio.socket.from_stdlib_socket(listener))]
            accepting.start_soon(
                partial(trio.serve_listeners, connection, sockets, handler_nursery=connections)
            )
            task_status.started()
            await stop()
            accepting.cancel_scope.cancel(reason="stopping")
        await context.terminated.set()
        connections.cancel_scope.deadline = trio.current_time() + STOP_S
