"""Faults for tests: what a bad network or a bad clock does to the relay, on demand.

A Python object given to the app factory and nothing else: no route, no setting and no header
reaches it.
"""

from enum import StrEnum

import msgspec
import trio

from agentconnect.embedded.http1 import App, Message, Receive, Send

__all__ = ["App", "At", "Fault", "Faults", "apply"]

_LOST = b'{"ok":true,"lost":"............................................"}'


class At(StrEnum):
    """How much of an answer gets out before its connection is lost."""

    START = "start"  # not a byte
    HEAD = "head"  # half of the head
    BODY = "body"  # the head and half of the body


class Fault(msgspec.Struct, kw_only=True):
    """One fault for the next ``times`` calls that match; the parts that are set all apply.

    ``delay_s`` waits before the call is handled, ``late_s`` holds its answer back, ``status``
    answers instead of handling it, ``drop`` handles it and loses the answer with the connection,
    ``cut`` loses the connection without handling it; ``at`` says where, and ``reset`` that it
    breaks rather than ends. ``hold`` keeps the call waiting: before it is handled, or with ``drop``
    after; ``reached`` is set when it gets there.
    """

    method: str
    path: str  # what the path must contain
    times: int = 1
    skip: int = 0  # so many matching calls pass first
    delay_s: float = 0.0
    late_s: float = 0.0
    status: int = 0
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b'{"error":"fault"}'
    drop: bool = False
    cut: bool = False
    at: At = At.START
    reset: bool = False
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
                if fault.skip > 0:
                    fault.skip -= 1
                    continue
                fault.times -= 1
                return fault
        return None


async def apply(fault: Fault, app: App, scope: Message, receive: Receive, send: Send) -> None:
    """Handle one call under a fault."""
    if fault.delay_s:
        await trio.sleep(fault.delay_s)
    if not fault.drop:
        await _reached(fault)
    if fault.status:
        length = str(len(fault.body)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", length)]
        headers += fault.headers
        await send({"type": "http.response.start", "status": fault.status, "headers": headers})
        await send({"type": "http.response.body", "body": fault.body})
    elif fault.drop or fault.cut:
        kept = _Kept()
        if fault.drop:
            await app(scope, receive, kept.send)
            await _reached(fault)
        data = kept.torn(fault.at)
        await send({"type": "relay.cut", "data": data, "reset": fault.reset})
    elif fault.late_s:
        kept = _Kept()
        await app(scope, receive, kept.send)
        await trio.sleep(fault.late_s)
        for message in kept.messages:
            await send(message)
    else:
        await app(scope, receive, send)


async def _reached(fault: Fault) -> None:
    fault.reached.set()
    if fault.hold is not None:
        await fault.hold.wait()


class _Kept:
    """An answer that is kept back."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def send(self, message: Message) -> None:
        self.messages.append(message)

    def torn(self, at: At) -> bytes:
        """The bytes that get out."""
        start: Message = {"status": 200, "headers": [(b"content-length", b"%d" % len(_LOST))]}
        body = _LOST
        if self.messages:
            start = self.messages[0]
            body = b"".join(message.get("body", b"") for message in self.messages[1:])
        lines = [b"%s: %s\r\n" % (name, value) for name, value in start["headers"]]
        head = b"HTTP/1.1 %d OK\r\n%s\r\n" % (start["status"], b"".join(lines))
        if at is At.START:
            return b""
        return head[: len(head) // 2] if at is At.HEAD else head + body[: len(body) // 2]
