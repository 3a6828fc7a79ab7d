"""What one JSON-RPC line means, and which of our requests are still open (acp.md §3).

Owns ids, classification and encoding; does no I/O. Ids of the peer are kept as the bytes it wrote
and echoed verbatim. A payload stays ``Raw`` here, so that an id or a method can be handled before
the payload is understood.
"""

import json
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from agentconnect.core.errors import AgentError
from agentconnect.core.surrogates import replace_surrogates

BAD_LINE = (msgspec.MsgspecError, RecursionError, UnicodeError, ValueError)
"""Everything that decoding a hostile line can raise (stack.md §4)."""

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800
AUTH_REQUIRED = -32000

_DATA_DEPTH = 5
"""How far the useful text of an error is looked for; codex nests JSON text in ``data``."""

NULL = Raw(b"null")
EMPTY = Raw(b"{}")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The peer wants an answer; ``id`` is the JSON text it used."""

    id: Raw
    method: str
    params: Raw


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """The peer wants no answer."""

    method: str
    params: Raw


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to one of ours; ``error`` is None on success, ``result`` may be JSON null."""

    id: int
    result: Raw = NULL
    error: AgentError | None = None


class Unusable(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing that can be acted on: junk, or an answer that belongs to nothing."""

    reason: str


Incoming = Request | Notification | Response | Unusable


class _Envelope(msgspec.Struct):
    id: Raw | UnsetType = UNSET
    method: str | UnsetType | None = UNSET
    params: Raw = EMPTY
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_envelope = msgspec.json.Decoder(_Envelope)
_id = msgspec.json.Decoder(int)
_plain = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode


def decode(line: bytes) -> tuple[Incoming, ...]:
    """The messages of one line; more than one only for a batch, which the protocol does not know.

    Never raises: what cannot be read is one :class:`Unusable`.
    """
    try:
        return (_classify(_envelope.decode(line)),)
    except BAD_LINE:
        return _decode_slowly(line)


def _decode_slowly(line: bytes) -> tuple[Incoming, ...]:
    try:
        value: Any = json.loads(line.decode("utf-8", "surrogateescape"), strict=False)
        elements: list[Any] = value if isinstance(value, list) else [value]
        if not all(isinstance(element, dict) for element in elements):
            return (Unusable(reason="not an object"),)
        return tuple(_classify_slowly(element) for element in elements)
    except BAD_LINE:
        return (Unusable(reason="not JSON-RPC"),)


def _classify_slowly(element: dict[str, Any]) -> Incoming:
    """What is repaired is text to be shown; an extension is asked for exactly what was sent.

    Its strings may be names, and two names must not be repaired into one: its reader refuses them.
    """
    if not str(element.get("method")).startswith("_"):
        return _classify(_envelope.decode(_tidy(element)))
    params = element.pop("params", {})
    message = _classify(_envelope.decode(_tidy(element)))
    if isinstance(message, Request | Notification):
        return msgspec.structs.replace(message, params=Raw(json.dumps(params).encode()))
    return message


def repair(raw: bytes | Raw) -> bytes:
    """The same JSON with bad UTF-8 and lone surrogates replaced by U+FFFD.

    Agents written in JavaScript cut text between the halves of an emoji; the rest of such a chunk
    is real text. Raises what ``BAD_LINE`` names when it is no JSON at all.
    """
    return _tidy(json.loads(bytes(raw).decode("utf-8", "replace"), strict=False))


def _tidy(value: object) -> bytes:
    return replace_surrogates(json.dumps(value, ensure_ascii=False)).encode()


def _classify(envelope: _Envelope) -> Incoming:
    if isinstance(envelope.method, str):
        if isinstance(envelope.id, UnsetType):
            return Notification(method=envelope.method, params=envelope.params)
        return Request(id=Raw(bytes(envelope.id)), method=envelope.method, params=envelope.params)
    if isinstance(envelope.id, UnsetType):
        return Unusable(reason="neither a method nor an id")
    try:
        ours = _id.decode(envelope.id)
    except BAD_LINE:
        return Unusable(reason="an answer with an id that is not ours")
    if isinstance(envelope.error, UnsetType) or bytes(envelope.error) == b"null":
        result = NULL if isinstance(envelope.result, UnsetType) else envelope.result
        return Response(id=ours, result=result)
    return Response(id=ours, error=error_of(envelope.error))


def error_of(raw: bytes | Raw) -> AgentError:
    """The error object, however it is shaped (``data`` is free and often the useful part)."""
    try:
        value: Any = _plain.decode(raw)
    except BAD_LINE:
        try:
            value = json.loads(repair(raw))
        except BAD_LINE:
            value = {}
    if not isinstance(value, dict):
        return AgentError(INTERNAL_ERROR, str(value)[:500] or "unnamed error")
    code = value.get("code")
    message = value.get("message")
    return AgentError(
        code if isinstance(code, int) and not isinstance(code, bool) else INTERNAL_ERROR,
        message if isinstance(message, str) and message.strip() else "unnamed error",
        value.get("data"),
    )


def detail_of(error: AgentError) -> str:
    """What a person can use of an error: its message and the telling part of ``data``."""
    extra = _telling(error.data, depth=0)
    message = _telling(error.message, depth=0)  # gemini's message is JSON text itself
    if not extra or extra in message:
        return message
    return extra if message in extra else f"{message}: {extra}"


def _telling(data: object, depth: int) -> str:
    if isinstance(data, str):
        text = data.strip()
        if text.startswith("{") and depth < _DATA_DEPTH:
            try:
                return _telling(_plain.decode(text), depth + 1) or text
            except BAD_LINE:
                return text
        return text
    if isinstance(data, dict) and depth < _DATA_DEPTH:
        for key in ("details", "message", "error", "reason", "errorKind"):
            if found := _telling(data.get(key), depth + 1):
                return found
    return ""


def request(call_id: int, method: str, params: msgspec.Struct) -> bytes:
    """One framed request of ours.

    Raises: UnicodeEncodeError for text that is no Unicode; clean it before.
    """
    return _line({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params})


def notification(method: str, params: msgspec.Struct) -> bytes:
    """One framed notification of ours."""
    return _line({"jsonrpc": "2.0", "method": method, "params": params})


def result(call_id: Raw, value: msgspec.Struct | None) -> bytes:
    """The answer to a request of the peer."""
    return _line({"jsonrpc": "2.0", "id": call_id, "result": value})


def error(call_id: Raw, code: int, message: str, data: object = None) -> bytes:
    """The refusal of a request of the peer; never a traceback, never a path."""
    told: dict[str, object] = {"code": code, "message": message}
    if data is not None:
        told["data"] = data
    return _line({"jsonrpc": "2.0", "id": call_id, "error": told})


def _line(message: dict[str, object]) -> bytes:
    return _encode(message) + b"\n"


SlotT = TypeVar("SlotT")


class OpenCalls(Generic[SlotT]):
    """Our requests that wait for an answer. Each settles at most once; ids are never reused."""

    def __init__(self) -> None:
        self._next_id = 1
        self._open: dict[int, SlotT] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, slot: SlotT) -> int:
        """Take an id for a request that is about to be written."""
        call_id = self._next_id
        self._next_id += 1
        self._open[call_id] = slot
        return call_id

    def take(self, call_id: int) -> SlotT | None:
        """Remove and return the slot of an answer; None for one that is late or a repeat."""
        return self._open.pop(call_id, None)

    def drain(self) -> Iterator[SlotT]:
        """Remove every slot: the connection is over."""
        while self._open:
            yield self._open.pop(next(iter(self._open)))
