"""The web application: a table of routes behind the edge, on Starlette (§2.1).

A handler that fails by a mistake of ours costs its request a 500 and nothing else.
"""

import logging
from collections.abc import Mapping, Sequence

import trio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import Receive, Scope, Send

from agentconnect.core.daemon.refusals import NOT_FOUND, Refusal, wrong_method
from agentconnect.daemon.asking import Answer, Asked, Handler, RefusedError, Stream, refused
from agentconnect.daemon.edge import BODY, HEADERS, reply

log = logging.getLogger("agentconnect.daemon")

MISTAKE = Refusal(
    status=500, error="The daemon made a mistake; its log has more.", code="internal_error"
)
SEND_LIMIT_S = 60.0
"""A client that takes nothing for so long is gone."""

_STREAM_HEADERS = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]


def application(table: Sequence[tuple[str, Mapping[str, Handler]]]) -> Starlette:
    """``table``: templates of paths, each with its handlers by method."""
    app = Starlette(
        routes=[StarletteRoute(path, endpoint=_Endpoint(handlers)) for path, handlers in table],
        exception_handlers={HTTPException: _not_found},
    )
    app.router.redirect_slashes = False
    return app


async def _not_found(_request: Request, _error: Exception) -> Response:
    headers = {"Cache-Control": "no-store"}
    return Response(NOT_FOUND.body(), 404, headers, media_type="application/json")


class _Endpoint:
    """One path: picks the handler of the method and sends what it answers."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._answer(scope)
        if isinstance(answer, Answer):
            await reply(send, answer)
        else:
            await _stream(answer, receive, send)

    async def _answer(self, scope: Scope) -> Answer | Stream:
        handler = self._handlers.get(scope["method"])
        if handler is None:
            return refused(wrong_method(tuple(self._handlers)))
        params = {k: v.encode("latin-1") for k, v in scope["path_params"].items()}
        asked = Asked(
            method=scope["method"], params=params, headers=scope[HEADERS], body=scope[BODY]
        )
        try:
            return await handler(asked)
        except RefusedError as error:
            return refused(error.refusal)
        except Exception as error:  # noqa: BLE001 - the boundary of one request
            where = error.__traceback__
            while where is not None and where.tb_next is not None:
                where = where.tb_next
            line = f"{where.tb_frame.f_code.co_name}:{where.tb_lineno}" if where else "?"
            # its text may quote the request
            log.error("a request failed by our mistake: %s in %s", type(error).__name__, line)  # noqa: TRY400
            return refused(MISTAKE)


async def _stream(stream: Stream, receive: Receive, send: Send) -> None:
    """Frames until the stream ends or the client leaves."""

    async def put(frame: bytes) -> None:
        with trio.fail_after(SEND_LIMIT_S):
            await send({"type": "http.response.body", "body": frame, "more_body": True})

    await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
    async with trio.open_nursery() as both:

        async def leave() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            both.cancel_scope.cancel(reason="the client left")

        both.start_soon(leave)
        try:
            await stream.run(put)
        except trio.TooSlowError:
            log.info("a reader of events took nothing for %g s", SEND_LIMIT_S)
        both.cancel_scope.cancel(reason="the stream ended")
    await send({"type": "http.response.body", "body": b"", "more_body": False})
