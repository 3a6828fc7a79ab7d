"""Reading ``session/update`` tolerantly, and every recorded line of real agents."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.acp import jsonrpc
from agentconnect.core.acp.jsonrpc import Notification, Request, Response
from agentconnect.core.acp.updates import Other, PlanList, Text, ToolPatch, Update, read_update

TRANSCRIPTS = sorted((Path(__file__).parents[2] / "cases" / "transcripts").glob("*.jsonl"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


def read(update: object) -> Update | None:
    """One update through its JSON."""
    params = msgspec.Raw(json.dumps({"sessionId": "s", "update": update}).encode())
    notified = read_update(params)
    return notified.update if notified else None


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_every_line_of_a_real_agent_decodes_without_loss(path: Path) -> None:
    """Kinds, text and tool ids come out as they were written, in order."""
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["dir"] != "a2c":
            continue
        original = record["msg"]
        messages = jsonrpc.decode(json.dumps(original).encode())
        if "id" not in original and "method" not in original:
            continue  # codex: an error object that belongs to nothing
        (message,) = messages
        if "method" not in original:
            assert isinstance(message, Response)
            assert original["id"] == message.id
        elif "id" in original:
            assert isinstance(message, Request)
            assert original["id"] == json.loads(bytes(message.id))
        else:
            assert isinstance(message, Notification)
            if original["method"] == "session/update":
                same(original["params"]["update"], message)


def same(original: dict[str, object], message: Notification) -> None:
    """The typed update says what the raw one said."""
    notified = read_update(message.params)
    assert notified is not None
    kind = original["sessionUpdate"]
    match notified.update:
        case Text() as text:
            assert original["content"]["text"] == text.block.text  # type: ignore[index]
            assert (kind, original.get("messageId")) == (text.kind, text.message_id)
        case ToolPatch() as tool:
            assert original["toolCallId"] == tool.tool_id
            assert original.get("title") == tool.title
            assert original.get("status") == tool.status
        case PlanList() as plan:
            assert len(original["entries"]) == len(plan.entries)  # type: ignore[arg-type]
        case Other() as other:
            assert kind == other.kind
            assert kind not in ("agent_message_chunk", "tool_call", "tool_call_update", "plan")


@given(JSON)
def test_no_update_is_too_strange(value: object) -> None:
    """Whatever JSON stands there, reading it ends in a value."""
    read(value)
    for kind in ("agent_message_chunk", "tool_call", "plan", "current_mode_update", "new_kind"):
        if isinstance(value, dict):
            read({"sessionUpdate": kind} | value)
        read({"sessionUpdate": kind, "content": value, "entries": value, "rawInput": value})


def test_a_wrong_field_costs_only_that_field() -> None:
    """Nulls where text should be do not lose the chunk."""
    update = read(
        {
            "sessionUpdate": "agent_message_chunk",
            "messageId": None,
            "content": {"type": "text", "text": "kept", "uri": None},
        }
    )
    assert isinstance(update, Text)
    assert "kept" == update.block.text


def test_a_title_of_a_whole_file_is_cut() -> None:
    """Some agents put the command with its whole input there; it is shown in one line."""
    update = read({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x" * 5_000_000})
    assert isinstance(update, ToolPatch)
    assert 1000 == len(update.title or "")


def test_a_chunk_with_half_an_emoji_keeps_its_text() -> None:
    """The other half is the next chunk's loss as well."""
    raw = msgspec.Raw(
        b'{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk",'
        b'"content":{"type":"text","text":"hello \\ud83d"}}}'
    )
    notified = read_update(raw)
    assert notified is not None
    assert isinstance(notified.update, Text)
    assert "hello \ufffd" == notified.update.block.text


def test_a_mode_is_named_in_either_spelling() -> None:
    """The schema and one page of the protocol disagree."""
    for key in ("currentModeId", "modeId"):
        assert Other(kind="current_mode_update", mode_id="ask") == read(
            {"sessionUpdate": "current_mode_update", key: "ask"}
        )
