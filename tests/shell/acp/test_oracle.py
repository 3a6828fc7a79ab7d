"""What we send, against the official SDK; and that the worker never imports it."""

import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from agentconnect.acp import messages
from agentconnect.core.acp import jsonrpc
from agentconnect.core.delivery.ports import DeliveryMeta

IMPORT = """
import sys
import agentconnect.adapters.acp
print(sorted({"acp", "pydantic", "asyncio", "trio_websocket"} & set(sys.modules)))
"""

TEXT = messages.TextBlock(text="hello")
BLOCKS = (
    TEXT,
    messages.ImageBlock(mime_type="image/png", data="AA=="),
    messages.AudioBlock(mime_type="audio/mpeg", data="AA=="),
    messages.ResourceBlock(
        resource=messages.BlobResource(uri="file:///x", mime_type="text/plain", blob="AA==")
    ),
)
META: messages.Meta = {
    messages.DELIVERY: DeliveryMeta(
        binding="w.r", export_dir="/e", expires_at="2030-01-01T00:00:00Z"
    ),
    messages.DESTINATION: "w.s",
}
SENT = {
    "InitializeRequest": messages.initialize_params((messages.RECEIVES, messages.DELIVERS)),
    "NewSessionRequest": messages.NewSessionParams(cwd="/w", meta=META),
    "LoadSessionRequest": messages.ReopenParams(session_id="s", cwd="/w", meta=META),
    "ResumeSessionRequest": messages.ReopenParams(session_id="s", cwd="/w"),
    "SetSessionConfigOptionSelectRequest": messages.SetConfigOptionParams(
        session_id="s", config_id="mode", value="ask"
    ),
    "SetSessionModeRequest": messages.SetModeParams(session_id="s", mode_id="ask"),
    "PromptRequest": messages.PromptParams(session_id="s", prompt=BLOCKS, meta=META),
    "CancelNotification": messages.CancelParams(session_id="s"),
    "CloseSessionRequest": messages.CloseParams(session_id="s"),
    "RequestPermissionResponse": messages.selected("yes"),
}


def wire(value: msgspec.Struct) -> dict[str, Any]:
    """The JSON as it goes out."""
    line = jsonrpc.request(1, "m", value)
    params: dict[str, Any] = json.loads(line)["params"]
    return params


def test_a_fresh_import_of_the_adapter_leaves_the_sdk_out() -> None:
    """The SDK, pydantic and asyncio cost more than the whole worker; dialling is an extra."""
    found = subprocess.run(
        [sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True
    )
    assert "[]" == found.stdout.strip()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", SENT)
def test_what_we_send_validates(model: str) -> None:
    """Each message of ours is one of the schema's."""
    from acp import schema

    getattr(schema, model).model_validate(wire(SENT[model]), strict=False)


@pytest.mark.filterwarnings("ignore")
def test_method_names_and_version_are_the_protocols() -> None:
    """Our constants stand in for ``acp.meta``."""
    from acp import meta

    assert meta.PROTOCOL_VERSION == messages.PROTOCOL_VERSION
    ours = {
        messages.INITIALIZE,
        messages.SESSION_NEW,
        messages.SESSION_LOAD,
        messages.SESSION_RESUME,
        messages.SESSION_SET_MODE,
        messages.SESSION_SET_CONFIG_OPTION,
        messages.SESSION_PROMPT,
        messages.SESSION_CANCEL,
        messages.SESSION_CLOSE,
    }
    assert ours <= set(meta.AGENT_METHODS.values())
    theirs = {messages.SESSION_UPDATE, messages.REQUEST_PERMISSION}
    assert theirs <= set(meta.CLIENT_METHODS.values())


def test_the_falses_are_sent_and_the_cancelled_outcome_has_no_option() -> None:
    """The SDK's own serialiser drops them; agents read an absent one as they like."""
    assert {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
    } == wire(messages.initialize_params())["clientCapabilities"]
    assert {"outcome": {"outcome": "cancelled"}} == wire(messages.selected(None))
    assert {"outcome": {"outcome": "selected", "optionId": "a"}} == wire(messages.selected("a"))
    assert {"cwd": "/w", "mcpServers": []} == wire(messages.NewSessionParams(cwd="/w"))
    assert {"type": "text", "text": "hello"} == wire(TEXT)


def test_extensions_are_declared_in_both_places() -> None:
    """Agents look in the one or the other; what is not declared is not named."""
    listener = wire(messages.initialize_params((messages.RECEIVES, messages.DELIVERS)))
    both = {"ag2/receive": True, "ag2/deliver": True}
    assert (both, both) == (listener["_meta"], listener["clientCapabilities"]["_meta"])
    turn = wire(messages.initialize_params((messages.RECEIVES,)))
    one = {"ag2/receive": True}
    assert (one, one) == (turn["_meta"], turn["clientCapabilities"]["_meta"])
    assert "_meta" not in wire(messages.initialize_params())


def test_a_session_is_told_where_later_results_go() -> None:
    """In its ``_meta``, under the names that agents read."""
    told = wire(messages.NewSessionParams(cwd="/w", meta=META))["_meta"]
    delivery = {"binding": "w.r", "export_dir": "/e", "expires_at": "2030-01-01T00:00:00Z"}
    assert {"ag2/delivery": delivery, "ag2/destination": "w.s"} == told


@pytest.mark.parametrize(
    ("result", "delivers"),
    [
        ({"agentCapabilities": {"_meta": {"ag2/deliver": True}}}, True),
        ({"_meta": {"ag2/deliver": {"since": 1}}}, True),
        ({"agentCapabilities": {"_meta": {"ag2/deliver": "true"}}}, False),
        ({"agentCapabilities": {"_meta": {"ag2/deliver": 1}}, "_meta": ["ag2/deliver"]}, False),
        ({"agentCapabilities": {"ag2/deliver": True}}, False),
        ({"agentCapabilities": [], "_meta": None}, False),
        (None, False),
    ],
)
def test_the_declaration_of_an_agent(result: object, delivers: bool) -> None:
    """Exactly true or an object, in either place."""
    assert delivers is messages.read_agent_info(result).delivers


def test_modes_are_read_in_both_forms() -> None:
    """A config option of category ``mode`` is preferred; groups are flattened."""
    legacy = {"modes": {"currentModeId": "a", "availableModes": [{"id": "a"}, {"id": "b"}]}}
    assert messages.Modes(current="a", offered=("a", "b")) == messages.read_opened(legacy).modes
    option = {
        "id": "m",
        "category": "mode",
        "type": "select",
        "currentValue": "x",
        "options": [{"value": "x"}, {"group": "g", "options": [{"value": "y"}]}],
    }
    assert (
        messages.Modes(current="x", offered=("x", "y"), config_id="m")
        == messages.read_opened(legacy | {"configOptions": [option]}).modes
    )
    assert messages.Modes() == messages.read_opened(None, "s").modes
