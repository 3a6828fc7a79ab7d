"""What an agent's ``session/update`` means for the capture of its final answer (§8.1).

ACP does not say where a model send begins, so message ids, tool calls and their ends decide. Made
when ``session/prompt`` is sent, fed with that session's updates in wire order, ended with the
response; whatever comes later, or carries an id of an earlier turn, is not heard.
"""

import hashlib
from collections.abc import Container
from typing import Any

from agentconnect.core.daemon.capture import Capture

MARKER = "ag2/response"
MAX_CALLS = 10_000
"""Calls of one turn that are remembered; the oldest go first, finished ones before the others."""

_FINISHED = ("completed", "failed")
_KEPT_ID_CHARS = 64


class AcpCapture:
    """The capture of one turn. ``history`` holds message and tool call ids that are not its own."""

    def __init__(self, history: Container[str] = ()) -> None:
        self._capture = Capture()
        self._history = history
        self._message_id = ""  # of the open block; no text chunk of it had another
        self._unfinished: dict[str, None] = {}
        self._done: dict[str, None] = {}
        self._tentative = False

    def see(self, update: object) -> None:
        """One ``update`` object as it came. Never raises; what is malformed counts for little."""
        if self._capture.ended or not isinstance(update, dict) or self._is_history(update):
            return
        self._marker(update)
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                content = update.get("content")
                if isinstance(content, dict) and content.get("type") == "text":
                    self._text(_text(content, "text"), _text(update, "messageId"))
            case "tool_call" | "tool_call_update":
                self._tool(_text(update, "toolCallId"), _text(update, "status"))

    def end(self, reason: str) -> str | None:
        """The text to submit, blank or not; None: nothing. Once, at the end of the turn."""
        self._unfinished.clear()
        self._done.clear()
        return self._capture.end(reason)

    def _is_history(self, update: dict[str, Any]) -> bool:
        ids = (_text(update, "messageId"), _text(update, "toolCallId"))
        return any(each and each in self._history for each in ids)

    def _marker(self, update: dict[str, Any]) -> None:
        meta = update.get("_meta")
        said = meta.get(MARKER) if isinstance(meta, dict) else None
        match said.get("event") if isinstance(said, dict) else None:
            case "begin":
                self._begin()
            case "retry" | "fallback":
                self._capture.retry()
            case _:  # `resume` keeps everything, and what we do not know says nothing
                pass

    def _text(self, text: str, message_id: str) -> None:
        message_id = _short(message_id)
        if self._capture.open:
            if message_id and self._message_id and message_id != self._message_id:
                self._begin()
            elif self._capture.asked_tool:
                self._after_tool(message_id)
        self._message_id = message_id or self._message_id
        self._capture.text(text)

    def _after_tool(self, message_id: str) -> None:
        """Text behind a tool request, of no other message: a new block, or still the tool's."""
        if not self._unfinished:
            self._begin()
        elif not message_id or message_id != self._message_id:
            self._begin()
            self._tentative = True

    def _tool(self, call_id: str, status: str) -> None:
        call_id = _short(call_id)
        if not call_id or not (call_id in self._unfinished or call_id in self._done):
            self._tentative = False
            self._capture.tool()
            self._remember(call_id)
        if status in _FINISHED and call_id in self._unfinished:
            del self._unfinished[call_id]
            self._done[call_id] = None
            if self._tentative:  # written before the result: the tool's narration, not the answer
                self._tentative = False
                self._capture.tool()

    def _remember(self, call_id: str) -> None:
        self._done.pop(call_id, None)
        self._unfinished[call_id] = None
        while len(self._unfinished) + len(self._done) > MAX_CALLS:
            oldest = self._done or self._unfinished
            del oldest[next(iter(oldest))]

    def _begin(self) -> None:
        self._capture.begin()
        self._message_id = ""
        self._tentative = False


def _text(value: dict[str, Any], key: str) -> str:
    found = value.get(key)
    return found if isinstance(found, str) else ""


def _short(name: str) -> str:
    """A name of bounded length that stands for ``name``."""
    if len(name) <= _KEPT_ID_CHARS:
        return name
    return "#" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
