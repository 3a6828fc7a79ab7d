"""The outermost layer of the app: every request ends in one bounded, well-formed way.

It bounds how many are handled at once, applies planned faults, and turns an unexpected error into
a 500 without a trace of it. A client that went away is no error and leaves no line in the log.
"""

import logging

from agentconnect.embedded.bodies import raw_json
from agentconnect.embedded.faults import Faults, apply
from agentconnect.embedded.http1 import App, Message, Receive, Send
from agentconnect.embedded.line import Gone

_log = logging.getLogger("agentconnect.embedded")
_FAILED = b'{"error":"The relay could not handle this request."}'
_BUSY = b'{"error":"The relay is handling as many requests as it can."}'


class Edge:
    """An ASGI app round the relay's own."""

    def __init__(self, app: App, faults: Faults | None, most: int) -> None:
        self._app = app
        self._faults = faults
        self._most = most
        self._busy = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if self._busy >= self._most:
            await raw_json(_BUSY, 503, {"retry-after": "1"})(scope, receive, send)
            return
        self._busy += 1
        try:
            await self._one(scope, receive, send)
        finally:
            self._busy -= 1

    async def _one(self, scope: Message, receive: Receive, send: Send) -> None:
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        fault = None
        if self._faults is not None:
            fault = self._faults.take(scope["method"], scope["path"])
        try:
            if fault is None:
                await self._app(scope, receive, watched)
            else:
                await apply(fault, self._app, scope, receive, watched)
        except Exception as error:
            cause = _worth_a_line(error)
            if cause is None:
                raise Gone from error
            # the route's template, since ids of rooms and files are no business of a log
            _log.error(
                "request failed: %s %s: %s",
                scope["method"],
                scope.get("route", "(no route)"),
                type(cause).__name__,
                exc_info=_log.isEnabledFor(logging.DEBUG),
            )
            if not started:
                await raw_json(_FAILED, 500)(scope, receive, send)


def _worth_a_line(error: BaseException) -> BaseException | None:
    """The first of a group's errors that is more than a client gone away; None for no such."""
    if isinstance(error, BaseExceptionGroup):
        causes = (_worth_a_line(inner) for inner in error.exceptions)
        return next((cause for cause in causes if cause is not None), None)
    return None if isinstance(error, Gone) else error
