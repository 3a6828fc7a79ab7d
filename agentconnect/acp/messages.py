"""The messages we send and read, as our own structs, and the method names (acp.md §4-§8).

Stands in for the official SDK, which costs a second to import; a test compares the two.
"""

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

import msgspec

PROTOCOL_VERSION = 1

INITIALIZE = "initialize"
SESSION_NEW = "session/new"
SESSION_LOAD = "session/load"
SESSION_RESUME = "session/resume"
SESSION_SET_MODE = "session/set_mode"
SESSION_SET_CONFIG_OPTION = "session/set_config_option"
SESSION_PROMPT = "session/prompt"
SESSION_CANCEL = "session/cancel"
SESSION_CLOSE = "session/close"
SESSION_UPDATE = "session/update"
REQUEST_PERMISSION = "session/request_permission"
CANCEL_REQUEST = "$/cancel_request"

DELIVER = "_ag2/deliver"
NOTIFY = "_ag2/notify"
RECEIVES = "ag2/receive"
DELIVERS = "ag2/deliver"
"""Keys of ``_meta`` that declare something (deferred-delivery.md §2)."""
DELIVERY = "ag2/delivery"
DESTINATION = "ag2/destination"
"""Keys of a session's ``_meta`` (deferred-delivery.md §4, §13)."""

Meta = dict[str, object]


class FileSystemCapability(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    read_text_file: bool = False
    write_text_file: bool = False


class ClientCapabilities(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """We offer nothing of the protocol's own, and say so explicitly."""

    fs: FileSystemCapability = FileSystemCapability()
    terminal: bool = False
    meta: Meta | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="_meta")


class Implementation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    title: str
    version: str


class InitializeParams(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    protocol_version: int = PROTOCOL_VERSION
    client_info: Implementation
    client_capabilities: ClientCapabilities = ClientCapabilities()
    meta: Meta | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="_meta")


def initialize_params(declared: Sequence[str] = ()) -> InitializeParams:
    """Who we are and what we offer; extensions in both places where agents look (acp.md §10)."""
    info = Implementation(name="agentconnect", title="Agent Connect", version=_own_version())
    meta: Meta | msgspec.UnsetType = dict.fromkeys(declared, True) or msgspec.UNSET
    return InitializeParams(
        client_info=info, client_capabilities=ClientCapabilities(meta=meta), meta=meta
    )


@cache
def _own_version() -> str:
    """Of what runs here: it is read from a file, and each agent that starts is told."""
    return version("agentconnect")


class NewSessionParams(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    cwd: str
    mcp_servers: tuple[()] = ()
    meta: Meta | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="_meta")


class ReopenParams(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """``session/load`` and ``session/resume``."""

    session_id: str
    cwd: str
    mcp_servers: tuple[()] = ()
    meta: Meta | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="_meta")


class SetModeParams(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    session_id: str
    mode_id: str


class SetConfigOptionParams(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    session_id: str
    config_id: str
    value: str


class TextBlock(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="text"
):
    text: str


class ImageBlock(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="image"
):
    mime_type: str
    data: str


class AudioBlock(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="audio"
):
    mime_type: str
    data: str


class BlobResource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    uri: str
    mime_type: str
    blob: str


class ResourceBlock(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="resource"
):
    resource: BlobResource


ContentBlock = TextBlock | ImageBlock | AudioBlock | ResourceBlock
PromptBlock = ContentBlock | dict[str, Any]
"""Ours, or a client's of the daemon, which is the agent's to read."""


class PromptParams(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    session_id: str
    prompt: tuple[PromptBlock, ...]
    meta: Meta | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="_meta")


class CancelParams(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    session_id: str


class CloseParams(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    session_id: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """``outcome`` is ``selected`` or ``cancelled``."""

    outcome: str
    option_id: str | msgspec.UnsetType = msgspec.UNSET


class PermissionResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    outcome: Outcome


CANCELLED = PermissionResult(outcome=Outcome(outcome="cancelled"))


def selected(option_id: str | None) -> PermissionResult:
    """The answer to a permission request; None is ``cancelled``."""
    if option_id is None:
        return CANCELLED
    return PermissionResult(outcome=Outcome(outcome="selected", option_id=option_id))


class Accepts(msgspec.Struct, frozen=True, kw_only=True):
    """Content kinds beyond text that this agent's prompts take."""

    image: bool = False
    audio: bool = False
    embedded: bool = False


class AuthMethod(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str = ""


class AgentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What ``initialize`` told us."""

    protocol_version: int | None
    name: str = ""
    version: str = ""
    accepts: Accepts = Accepts()
    can_load: bool = False
    can_resume: bool = False
    can_close: bool = False
    auth_methods: tuple[AuthMethod, ...] = ()
    delivers: bool = False
    """It sends what it finishes after a turn, on a connection that takes it."""


class Modes(msgspec.Struct, frozen=True, kw_only=True):
    """The modes of a session; ``config_id`` when they are a config option."""

    current: str = ""
    offered: tuple[str, ...] = ()
    config_id: str = ""


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``session/new``, ``session/load`` or ``session/resume``."""

    session_id: str
    modes: Modes = Modes()


def _dict(value: object, key: str) -> dict[str, Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _list(value: object, key: str) -> list[Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def _text(value: object, key: str) -> str:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def read_agent_info(result: object) -> AgentInfo:
    """Read the answer to ``initialize``; whatever is missing is not offered."""
    version = result.get("protocolVersion") if isinstance(result, dict) else None
    capabilities = _dict(result, "agentCapabilities")
    prompt = _dict(capabilities, "promptCapabilities")
    session = _dict(capabilities, "sessionCapabilities")
    info = _dict(result, "agentInfo")
    return AgentInfo(
        protocol_version=version if isinstance(version, int) else None,
        name=_text(info, "title") or _text(info, "name"),
        version=_text(info, "version"),
        accepts=Accepts(
            image=prompt.get("image") is True,
            audio=prompt.get("audio") is True,
            embedded=prompt.get("embeddedContext") is True,
        ),
        can_load=capabilities.get("loadSession") is True,
        can_resume=isinstance(session.get("resume"), dict),
        can_close=isinstance(session.get("close"), dict),
        auth_methods=tuple(
            AuthMethod(id=_text(item, "id"), name=_text(item, "name"))
            for item in _list(result, "authMethods")
            if isinstance(item, dict)
        ),
        delivers=_declares(capabilities, DELIVERS) or _declares(result, DELIVERS),
    )


def _declares(where: object, key: str) -> bool:
    """Exactly ``true``, or an object, is yes (acp.md §10)."""
    said = _dict(where, "_meta").get(key)
    return said is True or isinstance(said, dict)


def read_opened(result: object, session_id: str = "") -> Opened:
    """Read a session's opening; ``null`` is a success with nothing."""
    return Opened(session_id=session_id or _text(result, "sessionId"), modes=_read_modes(result))


def _read_modes(result: object) -> Modes:
    for option in _list(result, "configOptions"):
        if _text(option, "category") == "mode" and _text(option, "type") == "select":
            return Modes(
                current=_text(option, "currentValue"),
                offered=tuple(_values(_list(option, "options"))),
                config_id=_text(option, "id"),
            )
    modes = _dict(result, "modes")
    return Modes(
        current=_text(modes, "currentModeId"),
        offered=tuple(
            mode for item in _list(modes, "availableModes") if (mode := _text(item, "id"))
        ),
    )


def _values(options: list[Any]) -> list[str]:
    """Option values, from a plain list or from groups."""
    values: list[str] = []
    for option in options:
        if value := _text(option, "value"):
            values.append(value)
        else:
            values.extend(v for inner in _list(option, "options") if (v := _text(inner, "value")))
    return values
