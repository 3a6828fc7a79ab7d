"""Which endpoint a request is for: a short table, matched segment by segment.

Segments are compared before they are decoded, so that an encoded slash is part of an id.
"""

from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from agentconnect.embedded.bodies import Refusal, refused
from agentconnect.embedded.http1 import App, Message, Receive, Send

Endpoint = Callable[[Request], Awaitable[Response]]


class Route(msgspec.Struct, frozen=True):
    """One method of one path; ``{name}`` in it is one segment. One of the two ways to answer."""

    method: str
    path: str
    endpoint: Endpoint | None = None
    app: App | None = None  # answers by itself, in pieces


class Routes:
    """All routes as one ASGI app; ``scope["route"]`` tells the log which one it was."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._plain = {(route.method, route.path): route for route in routes}
        self._paths = {route.path for route in routes}
        self._shapes: dict[int, list[tuple[list[str], Route]]] = {}
        for route in routes:
            if "{" in route.path:
                segments = route.path.split("/")
                self._shapes.setdefault(len(segments), []).append((segments, route))

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        try:
            route, params = self._find(
                scope["method"], scope["raw_path"].decode("ascii", "replace")
            )
        except Refusal as refusal:
            await refused(refusal)(scope, receive, send)
            return
        scope["route"] = route.path
        scope["path_params"] = params
        if route.app is not None:
            await route.app(scope, receive, send)
        elif route.endpoint is not None:
            response = await route.endpoint(Request(scope, receive))
            await response(scope, receive, send)

    def _find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        wanted = "GET" if method == "HEAD" else method
        found = self._plain.get((wanted, path))
        if found is not None and "{" not in path:
            return found, {}
        other = path in self._paths
        segments = path.split("/")
        for shape, route in self._shapes.get(len(segments), ()):
            params = _match(shape, segments)
            if params is not None:
                if route.method == wanted:
                    return route, params
                other = True
        if other:
            raise Refusal(405, "This is not how it is asked.")
        raise Refusal(404, "There is nothing here.")


def _match(shape: list[str], segments: list[str]) -> dict[str, str] | None:
    params: dict[str, str] = {}
    for wanted, segment in zip(shape, segments, strict=True):
        if wanted.startswith("{"):
            if not segment:
                return None
            params[wanted[1:-1]] = unquote_to_bytes(segment).decode("utf-8", "replace")
        elif wanted != segment:
            return None
    return params


def under(prefix: str, routes: Sequence[Route]) -> list[Route]:
    """The same routes with a path before theirs."""
    return [msgspec.structs.replace(route, path=prefix + route.path) for route in routes]
