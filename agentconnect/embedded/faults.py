"""Faults for tests: what a bad network or a bad clock does to the relay, on demand.

A Python object given to the app factory and nothing else: no route, no setting and no header
reaches it.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import trio

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Fault(msgspec.Struct, kw_only=True):
    """One fault for the next ``times`` calls that match; the parts that are set all apply.

    ``delay_s`` waits before the call is handled, ``status`` answers instead of handling it,
    ``drop`` handles it and loses the answer, ``cut`` closes the connection without handling it.
    ``hold`` keeps the call waiting: before it is handled, or with ``drop`` after; ``reached`` is
    set when it gets there.
    """

    method: str
    path: str  # what the path must contain
    times: int = 1
    delay_s: float = 0.0
    status: int = 0
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b'{"error":"fault"}'
    drop: bool = False
    cut: bool = False
    hold: trio.Event | None = None
    reached: trio.Event = msgspec.field(default_factory=trio.Event)


class Faults:
    """The faults in force, the clock's skew, and what was hit."""

    def __init__(self) -> None:
        self.skew_s = 0.0
        self.seen: list[tuple[str, str]] = []
        self._planned: list[Fault] = []

    def plan(self, fault: Fault) -> Fault:
        """Put a fault in force; its ``times`` counts down as it is met."""
        self._planned.append(fault)
        return fault

    def clear(self) -> None:
        """End every fault."""
        self._planned.clear()

    def take(self, method: str, path: str) -> Fault | None:
        """The fault this call meets, used up by one."""
        self.seen.append((method, path))
        for fault in self._planned:
            if fault.times > 0 and fault.method == method and fault.path in path:
                fault.times -= 1
                return fault
        return None


async def apply(fault: Fault, app: App, scope: Scope, receive: Receive, send: Send) -> None:
    """Handle one call under a fault."""
    if fault.delay_s:
        await trio.sleep(fault.delay_s)
    if not fault.drop:
        await _reached(fault)
    if fault.status:
        length = str(len(fault.body)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", length)]
        await send(
            {
                "type": "http.response.start",
                "status": fault.status,
                "headers": [*headers, *fault.headers],
            }
        )
        await send({"type": "http.response.body", "body": fault.body})
        return
    if fault.drop:
        await app(scope, receive, _swallow)
        await _reached(fault)
    if fault.drop or fault.cut:
        await _cut(send)
        return
    await app(scope, receive, send)


async def _reached(fault: Fault) -> None:
    fault.reached.set()
    if fault.hold is not None:
        await fault.hold.wait()


async def _swallow(_message: dict[str, Any]) -> None:
    """An answer that nobody gets."""


async def _cut(send: Send) -> None:
    """Promise more than is sent: the server then closes, and the peer sees a broken answer."""
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1000000")]}
    )
    await send({"type": "http.response.body", "body": b" ", "more_body": True})
