"""Reading request bodies within a limit, and writing JSON answers.

The declared length is judged before a byte is read, the real one while reading. JSON is decoded
into Structs here; what breaks is a :class:`Refusal`, which becomes an answer with one sentence.
"""

import json
from collections.abc import Awaitable
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

T = TypeVar("T")
_LATER_S = "5"
_DIGITS = 19
_MOST = 2**62  # what a column holds, with room to count on


class Refusal(Exception):
    """An answer other than 200, with one sentence for whoever asked."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


class Vanished(Exception):
    """The client went away while its request was read."""


def answer(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON answer."""
    return raw_json(msgspec.json.encode(value), status, headers)


def raw_json(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON answer that is encoded already."""
    return Response(
        body,
        status,
        {"cache-control": "no-store", **(headers or {})},
        media_type="application/json",
    )


def refused(refusal: Refusal) -> Response:
    """The answer of a refusal; "not now" says when."""
    later = {"retry-after": _LATER_S} if refusal.status == 503 else None
    return answer({"error": refusal.sentence}, refusal.status, later)


async def answered(serve: Awaitable[Response]) -> Response:
    """What ``serve`` answers; a refusal is an answer, and nobody is there to read a 400."""
    try:
        return await serve
    except Refusal as refusal:
        return refused(refusal)
    except Vanished:
        return Response(status_code=400)


async def read(request: Request, limit: int) -> bytes:
    """A request's body.

    Raises:
        Refusal: 413 over the limit.
        Vanished: the client left.
    """
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared) > limit:
        raise Refusal(413, f"The request is larger than {limit} bytes.")
    parts, size = [], 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise Vanished
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise Refusal(413, f"The request is larger than {limit} bytes.")
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


async def read_as(request: Request, kind: type[T], limit: int) -> T:
    """A request's JSON body as a value.

    Raises:
        Refusal: 400 for what is not that, 413 over the limit.
        Vanished: the client left.
    """
    return decode(await read(request, limit), kind)


def decode(body: bytes, kind: type[T]) -> T:
    """JSON as a value; lone surrogates, which msgspec refuses, become U+FFFD.

    Raises:
        Refusal: 400 for what is not that.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise Refusal(400, f"The request is not as expected: {error}.") from error
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return msgspec.convert(_mended(json.loads(body.decode("utf-8", "replace"))), type=kind)
    except msgspec.ValidationError as error:
        raise Refusal(400, f"The request is not as expected: {error}.") from error
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "The request is not JSON.") from error


def whole_number(said: str | None) -> int | None:
    """What a query or a header says as a number, however long; None where it is none."""
    if not said or not said.isascii() or not said.isdigit():
        return None
    return int(said) if len(said) < _DIGITS else _MOST


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    return value
