"""The one HTTP/1.1 server of the daemon: Hypercorn's Trio worker on a socket of ours (§2)."""

import socket
from collections.abc import Awaitable, Callable
from functools import partial

import trio
from hypercorn.config import Config, Sockets
from hypercorn.trio.run import worker_serve
from hypercorn.typing import ASGIFramework
from hypercorn.utils import wrap_app

from agentconnect.core.daemon.guard import Bound
from agentconnect.core.errors import SettingsError
from agentconnect.daemon.setup import Listen

HEAD_BYTES = 64 * 1024
KEEP_ALIVE_S = 75.0
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
    config.graceful_timeout = STOP_S
    sockets = Sockets(secure_sockets=[], insecure_sockets=[listener], quic_sockets=[])
    async with trio.open_nursery() as serving:
        await serving.start(
            partial(
                worker_serve,
                wrap_app(app, config.wsgi_max_body_size, "asgi"),
                config,
                sockets=sockets,
                shutdown_trigger=stop,
            )
        )
        task_status.started()
