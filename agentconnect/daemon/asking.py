"""A request as handlers get it, and what they answer: nothing of a web framework in it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec

from agentconnect.core.daemon.body import check_media_type, read_body
from agentconnect.core.daemon.refusals import Refusal

Headers = tuple[tuple[str, str], ...]


class RefusedError(Exception):
    """Ends a request with that answer."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.code)
        self.refusal = refusal


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One request that has passed the edge; ``params`` are segments of the path, undecoded."""

    method: str
    params: Mapping[str, bytes]
    headers: Mapping[str, tuple[str, ...]]
    body: bytes = b""

    def header(self, name: str) -> str | None:
        """The first value of a header, by its lower-case name."""
        return next(iter(self.headers.get(name, ())), None)

    def text(self, name: str) -> str:
        """A segment of the path, decoded; what is no text keeps a replacement sign."""
        return unquote_to_bytes(self.params[name]).decode("utf-8", "replace")

    def json(self) -> dict[str, Any]:
        """The body as an object (§2.2, rows 8 and 9). Raises: RefusedError."""
        refusal = check_media_type(self.header("content-type"))
        if refusal is not None:
            raise RefusedError(refusal)
        body: dict[str, Any] = accepted(read_body(self.body))
        return body


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer; ``body`` is JSON unless it is empty."""

    status: int
    body: bytes = b""
    headers: Headers = ()


Send = Callable[[bytes], Awaitable[None]]


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """An event stream: ``run`` sends frames until it returns or the client has left."""

    run: Callable[[Send], Awaitable[None]]


Handler = Callable[[Asked], Awaitable[Answer | Stream]]


def accepted(found: Any) -> Any:
    """``found`` unless it is a refusal. Raises: RefusedError."""
    if isinstance(found, Refusal):
        raise RefusedError(found)
    return found


def ok(value: Any, status: int = 200) -> Answer:
    """A JSON answer."""
    return Answer(status=status, body=msgspec.json.encode(value))


def refused(refusal: Refusal) -> Answer:
    """The answer of a refusal."""
    return Answer(status=refusal.status, body=refusal.body(), headers=refusal.headers)
