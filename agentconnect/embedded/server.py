"""Starting and stopping the relay: one HTTP server, its timers, and what they serve.

Order of starting: files and database, then the socket, then the answer that it is ready. Order of
stopping: everybody who waits is woken and answered, then the server ends, then the database.
"""

import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from agentconnect.core.errors import AgentConnectError
from agentconnect.embedded import (
    auth,
    pageapi,
    pagefiles,
    pagemarks,
    pagepeople,
    roomwire,
    sse,
    wire,
)
from agentconnect.embedded.edge import Edge
from agentconnect.embedded.faults import Faults
from agentconnect.embedded.house import House
from agentconnect.embedded.http1 import App
from agentconnect.embedded.listening import Listener
from agentconnect.embedded.local import EmbeddedRelay, LocalSetup
from agentconnect.embedded.routes import Route, Routes, under
from agentconnect.embedded.timing import Timing

__all__ = ["EmbeddedRelay", "LocalSetup", "open_embedded"]

_log = logging.getLogger("agentconnect.embedded")
_PRUNE_S = 600.0


@asynccontextmanager
async def open_embedded(
    state_dir: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    public_url: str = "",
    timing: Timing | None = None,
    faults: Faults | None = None,
    extras: Callable[[], Awaitable[object]] | None = None,
    is_late: Callable[[str], bool] | None = None,
) -> AsyncIterator[EmbeddedRelay]:
    """Run the relay while the block runs; it answers requests from its first line on.

    ``public_url`` is what others reach it by, where that is not the bound address. ``faults`` is
    for tests alone. A worker beside it tells the owner's page by ``extras``; ``is_late`` says
    whether it posts what comes after a turn under a key (blocking, called in a thread).

    Raises:
        WorkspaceHeldError: another relay uses the state folder.
        AgentConnectError: nothing can listen at that address.
        StoreUnreadableError: the state folder holds a database that cannot be read.
        OSError: the address cannot be bound.
    """
    timing = timing or Timing()
    house = House(state_dir, timing, faults, extras, is_late)
    failed: Exception | None = None
    try:
        await house.open()
        listening = _listen(host, port)
        bound_port = int(listening.getsockname()[1])
        _settle(house, host, bound_port, public_url)
        app = _app(house, auth.Origins(host, bound_port, public_url))
        listener = Listener(app, timing)
        async with trio.open_nursery() as serving:
            await serving.start(listener.run, listening)
            serving.start_soon(_timers, house)
            try:
                yield EmbeddedRelay(house, listener)
            except Exception as error:  # noqa: BLE001 - raised again below, as it came
                failed = error
            finally:
                house.bells.stop()
                listener.stop()
                house.ended.set()
                serving.cancel_scope.deadline = trio.current_time() + timing.stop_s + 1
    finally:
        await house.aclose()
    if failed is not None:
        raise failed


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, UnicodeError) as error:
        refused = f"nothing can listen at {host}:{port}: {_why(error)}"
        raise AgentConnectError(f"{refused}. Name another address with --listen") from error


def _why(error: OSError | UnicodeError) -> str:
    if not isinstance(error, OSError):
        return "that is no name of a host"
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)  # its own text names the address once more
    return error.strerror or "unknown error"


def _settle(house: House, host: str, port: int, public_url: str) -> None:
    shown = "127.0.0.1" if host in ("", "0.0.0.0") else host  # noqa: S104 - compared, not bound
    shown = "[::1]" if shown == "::" else f"[{shown}]" if ":" in shown else shown
    house.origin = public_url.rstrip("/") or f"http://{shown}:{port}"
    house.base = f"{house.origin}/relay"
    house.secure = house.origin.startswith("https://")


def _app(house: House, origins: auth.Origins) -> App:
    door = pageapi.Door(house, origins)
    worker = [
        *wire.routes(house),
        *roomwire.routes(house),
        Route("GET", "/v1/events/stream", app=sse.WorkerEvents(house)),
    ]
    page = [
        *pagefiles.routes(door),
        *pageapi.routes(door),
        *pagepeople.routes(door),
        *pagemarks.routes(door),
        Route("GET", "/page/events", app=sse.PageEvents(house, origins)),
    ]
    routes = Routes([*under("/relay", worker), *page])
    return Edge(routes, house.faults, house.timing.requests)


async def _timers(house: House) -> None:
    """Lapsed leases, who is online, and what is past its window."""
    online: frozenset[str] = frozenset()
    pruned = trio.current_time()
    while not house.ended.is_set():
        with trio.move_on_after(house.timing.sweep_s):
            await house.ended.wait()
        try:
            await house.sweep()
            await house.store.tidy()
            if trio.current_time() - pruned >= _PRUNE_S:
                await house.prune()
                pruned = trio.current_time()
        except Exception as error:  # noqa: BLE001 - one pass lost, the next one comes
            _log.error("timer failed: %s", type(error).__name__)
        now_online = house.presence.snapshot(house.now())
        if now_online != online:
            online = now_online
            house.bells.ring((), changed=True)
