"""What an agent tells us during a turn, read once from ``session/update`` (acp.md §6).

Owns the tolerant reading: an unknown kind, an unknown field or a field of the wrong type costs that
field and nothing else. Of ``rawInput`` only what a decision needs is kept, so no raw object and no
file content travels on.
"""

import json
from collections import deque
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from agentconnect.core.acp.jsonrpc import BAD_LINE, EMPTY, repair

PATH_KEYS = frozenset(
    (
        *("path", "file_path", "filePath", "abs_path", "absPath", "filename", "file", "dir"),
        *("directory", "cwd", "notebook_path", "notebookPath", "target_file"),
        *("old_path", "new_path", "source", "destination"),
    )
)
"""Members of ``rawInput`` that name a file (worker.md §8.7)."""

_COMMAND_KEYS = ("command", "cmd", "argv")
MAX_TITLE_CHARS = 1000
"""No more of a title is ever shown; some agents put a whole file into it."""
_KINDS = frozenset(
    ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode")
)


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One content block of a message chunk."""

    type: str = ""
    text: str = ""
    uri: str = ""
    name: str = ""
    data: str = ""
    mime: str = msgspec.field(name="mimeType", default="")


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk of the agent's answer (or of its thinking, or of what the person said)."""

    kind: str
    block: Block
    message_id: str | None = None


class ToolPatch(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of a tool call that one message carried; None means that it did not say."""

    tool_id: str = ""
    begins: bool | None = None
    title: str | None = None
    kind: str | None = None
    status: str | None = None
    locations: tuple[str, ...] | None = None
    diffs: tuple[str, ...] | None = None
    raw_top: tuple[str, ...] | None = None
    raw_nested: tuple[str, ...] | None = None
    has_command: bool | None = None


class PlanList(msgspec.Struct, frozen=True, kw_only=True):
    """The whole plan as (content, status) pairs."""

    entries: tuple[tuple[str, str], ...]


class Other(msgspec.Struct, frozen=True, kw_only=True):
    """A kind that changes nothing for a turn; ``mode_id`` where it names the current mode."""

    kind: str
    mode_id: str = ""


Update = Text | ToolPatch | PlanList | Other

CHUNKS = frozenset(("agent_message_chunk", "agent_thought_chunk", "user_message_chunk"))
HISTORY = CHUNKS | {"tool_call", "tool_call_update", "plan"}
"""Kinds that a replay consists of."""


class Notified(msgspec.Struct, frozen=True, kw_only=True):
    """One ``session/update``: whose it is, what it says, and the object as it came."""

    session_id: str
    update: Update
    raw: Raw = EMPTY


class _Params(msgspec.Struct, rename="camel"):
    update: Raw
    session_id: str = ""


class _Probe(msgspec.Struct, rename="camel"):
    session_update: str = ""


class _Chunk(msgspec.Struct, rename="camel"):
    content: Block
    message_id: str | UnsetType | None = UNSET


_params = msgspec.json.Decoder(_Params)
_probe = msgspec.json.Decoder(_Probe)
_chunk = msgspec.json.Decoder(_Chunk)
_plain = msgspec.json.Decoder()


def read_update(params: Raw) -> Notified | None:
    """The meaning of one notification's params; None when it is no update at all."""
    try:
        outer = _params.decode(params)
        return Notified(session_id=outer.session_id, update=_read(outer.update), raw=outer.update)
    except BAD_LINE:
        pass
    try:  # once more with what made it unreadable replaced
        outer = _params.decode(repair(params))
        return Notified(session_id=outer.session_id, update=_read(outer.update), raw=outer.update)
    except BAD_LINE:
        return None


def _read(raw: Raw) -> Update:
    kind = _probe.decode(raw).session_update
    if kind in CHUNKS:
        try:
            chunk = _chunk.decode(raw)
        except msgspec.ValidationError:
            return _loose_chunk(kind, _plain.decode(raw))
        message_id = chunk.message_id or None
        return Text(kind=kind, block=chunk.content, message_id=message_id)
    if kind in ("tool_call", "tool_call_update"):
        return read_tool_call(_plain.decode(raw))
    if kind == "plan":
        return _plan(_plain.decode(raw))
    if kind == "current_mode_update":
        value = _plain.decode(raw)
        return Other(kind=kind, mode_id=_text(value, "currentModeId") or _text(value, "modeId"))
    if kind == "config_option_update":
        return Other(kind=kind, mode_id=_mode_option(_plain.decode(raw)))
    return Other(kind=kind)


def _mode_option(value: Any) -> str:
    """The current value of the option that is the session's mode."""
    options = value.get("configOptions")
    for option in options if isinstance(options, list) else ():
        if _text(option, "category") == "mode":
            return _text(option, "currentValue")
    return ""


def _loose_chunk(kind: str, value: Any) -> Text:
    content = value.get("content")
    block = Block(
        type=_text(content, "type"),
        text=_text(content, "text"),
        uri=_text(content, "uri"),
        name=_text(content, "name"),
        data=_text(content, "data"),
        mime=_text(content, "mimeType"),
    )
    return Text(kind=kind, block=block, message_id=_text(value, "messageId") or None)


def _plan(value: Any) -> PlanList:
    entries = value.get("entries")
    return PlanList(
        entries=tuple(
            (_text(entry, "content"), _text(entry, "status"))
            for entry in (entries if isinstance(entries, list) else ())
            if isinstance(entry, dict)
        )
    )


def read_tool_call(value: object) -> ToolPatch:
    """A tool call or an update of one; malformed parts are skipped."""
    if not isinstance(value, dict):
        return ToolPatch()
    top, nested, command = _raw_facts(value.get("rawInput"))
    known_raw = "rawInput" in value
    kind = _text(value, "kind")
    return ToolPatch(
        tool_id=_text(value, "toolCallId"),
        begins=_text(value, "sessionUpdate") == "tool_call" or None,
        title=_text(value, "title")[:MAX_TITLE_CHARS] or None,
        kind=(kind if kind in _KINDS else "other") if kind else None,
        status=_text(value, "status") or None,
        locations=_members(value.get("locations"), "path"),
        diffs=_members(value.get("content"), "path", of_type="diff"),
        raw_top=top if known_raw else None,
        raw_nested=nested if known_raw else None,
        has_command=command if known_raw else None,
    )


def read_raw_tool_call(raw: Raw) -> ToolPatch:
    """The same from JSON text."""
    try:
        return read_tool_call(_plain.decode(raw))
    except BAD_LINE:
        try:
            return read_tool_call(json.loads(repair(raw)))
        except BAD_LINE:
            return ToolPatch()


def _text(value: object, key: str) -> str:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def _members(items: object, key: str, of_type: str = "") -> tuple[str, ...] | None:
    if not isinstance(items, list):
        return None
    return tuple(
        text
        for item in items
        if (text := _text(item, key)) and (not of_type or _text(item, "type") == of_type)
    )


def _raw_facts(raw_input: object) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Listed members at the top, in object order; those further in; is there a command anywhere.

    Without recursion. Some agents hand their arguments over as JSON text.
    """
    raw_input = _structured(raw_input)
    top: tuple[str, ...] = ()
    nested: list[str] = []
    command = False
    queue: deque[object] = deque([raw_input])
    while queue:
        item = queue.popleft()
        if isinstance(item, list):
            queue.extend(item)
        elif isinstance(item, dict):
            paths = tuple(v for k, v in item.items() if k in PATH_KEYS and isinstance(v, str))
            if item is raw_input:
                top = paths
            else:
                nested.extend(paths)
            command = command or any(item.get(key) for key in _COMMAND_KEYS)
            queue.extend(item.values())
    return top, tuple(nested), command


def _structured(raw_input: object) -> object:
    if isinstance(raw_input, str) and raw_input.lstrip()[:1] in ("{", "["):
        try:
            return _plain.decode(raw_input)
        except BAD_LINE:
            return raw_input
    return raw_input
