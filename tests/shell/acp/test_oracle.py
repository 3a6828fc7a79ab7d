"""What we send, against the official SDK; and that the worker never imports it."""

import json
import subprocess
import sys

import msgspec
import pytest

from agentconnect.acp import messages
from agentconnect.core.acp import jsonrpc

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
SENT = {
    "InitializeRequest": messages.initialize_params(),
    "NewSessionRequest": messages.NewSessionParams(cwd="/w"),
    "LoadSessionRequest": messages.ReopenParams(session_id="s", cwd="/w"),
    "ResumeSessionRequest": messages.ReopenParams(session_id="s", cwd="/w"),
    "SetSessionConfigOptionSelectRequest": messages.SetConfigOptionParams(
        session_id="s", config_id="mode", value="ask"
    ),
    "SetSessionModeRequest": messages.SetModeParams(session_id="s", mode_id="ask"),
    "PromptRequest": messages.PromptParams(session_id="s", prompt=BLOCKS),
    "CancelNotification": messages.CancelParams(session_id="s"),
    "CloseSessionRequest": messages.CloseParams(session_id="s"),
    "RequestPermissionResponse": messages.selected("yes"),
}


def wire(value: msgspec.Struct) -> dict[str, object]:
    """The JSON as it goes out."""
    line = jsonrpc.request(1, "m", value)
    params: dict[str, object] = json.loads(line)["params"]
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
