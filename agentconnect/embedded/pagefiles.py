"""The page itself: its HTML at ``/``, its files below ``/page/static/``, a strict policy."""

import re
from pathlib import Path

import trio
from starlette.requests import Request
from starlette.responses import Response

from agentconnect.embedded.bodies import Refusal
from agentconnect.embedded.house import House
from agentconnect.embedded.pageapi import Door
from agentconnect.embedded.routes import Route

_FOLDER = Path(__file__).parent / "page"
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


async def index(_house: House, _request: Request) -> Response:
    """``GET /``."""
    return await _file("index.html")


async def static(_house: House, request: Request) -> Response:
    """``GET /page/static/…``."""
    return await _file(request.path_params["name"])


async def favicon(_house: House, _request: Request) -> Response:
    """``GET /favicon.ico``: browsers ask whatever the page says."""
    return Response(status_code=204, headers=_HEADERS)


async def _file(name: str) -> Response:
    kind = _TYPES.get(Path(name).suffix)
    if kind is None or _NAME.fullmatch(name) is None:
        raise Refusal(404, "There is no such file.")
    try:
        data = await trio.Path(_FOLDER / name).read_bytes()
    except OSError as error:
        raise Refusal(404, "There is no such file.") from error
    return Response(data, headers={**_HEADERS, "content-type": kind})


def routes(door: Door) -> list[Route]:
    """The page's files."""
    return [
        Route("GET", "/", door.open(index)),
        Route("GET", "/favicon.ico", door.open(favicon)),
        Route("GET", "/page/static/{name}", door.open(static)),
    ]
