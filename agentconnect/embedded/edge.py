"""The outermost layer of the app: every request ends in one bounded, well-formed way.

It applies planned faults, turns an unexpected error into a 500 without a trace of it, and reads
off what is left of a request body before an answer ends, since the server's reader would wait for
ever on a body that nobody takes.
"""

import logging
from typing import Any

import trio

from agentconnect.embedded.faults import App, Faults, Receive, Scope, Send, apply

_log = logging.getLogger("agentconnect.embedded")
_DRAIN_S = 10.0
_MOST = 2000  # requests at once; each long poll and each stream is one
_FAILED = b'{"error":"The relay could not handle this request."}'


class Edge:
    """An ASGI app round the relay's own."""

    def __init__(self, app: App, faults: Faults | None) -> None:
        self._app = app
        self._faults = faults
        self._busy = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        elif scope["type"] == "http":
            self._busy += 1
            try:
                await self._http(scope, _Body(receive, send))
            finally:
                self._busy -= 1

    async def _http(self, scope: Scope, body: "_Body") -> None:
        if self._busy > _MOST:
            await _fail(body, 503)
            return
        fault = None
        if self._faults is not None:
            fault = self._faults.take(scope["method"], scope["path"])
        try:
            if fault is None:
                await self._app(scope, body.receive, body.send)
            else:
                await apply(fault, self._app, scope, body.receive, body.send)
        except Exception as error:  # noqa: BLE001 - the boundary of one request
            _log.error(
                "request failed: %s %s: %s",
                scope["method"],
                scope["path"].split("/")[1:3],
                type(error).__name__,
                exc_info=_log.isEnabledFor(logging.DEBUG),
            )
            if not body.started:
                await _fail(body, 500)


async def _fail(body: "_Body", status: int) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(_FAILED)).encode()),
    ]
    await body.send({"type": "http.response.start", "status": status, "headers": headers})
    await body.send({"type": "http.response.body", "body": _FAILED})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return


class _Body:
    """The two directions of one request, watched."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._read_whole = False
        self.started = False

    async def receive(self) -> dict[str, Any]:
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self._read_whole = True
        return message

    async def send(self, message: dict[str, Any]) -> None:
        self.started = True
        last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if not last or self._read_whole:
            await self._send(message)
            return
        await self._send({**message, "more_body": True})
        async with trio.open_nursery() as reading:
            with trio.move_on_after(_DRAIN_S):  # a peer that never stops sending is cut off
                while not self._read_whole:
                    await self.receive()
            if not self._read_whole:
                reading.start_soon(self._discard)
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
            reading.cancel_scope.cancel()

    async def _discard(self) -> None:
        while not self._read_whole:
            await self.receive()
