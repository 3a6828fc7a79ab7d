"""The fields of Notify, prompts and sessions, in the order that decides (§4, §6, §11.1)."""

from typing import Any

import msgspec

from agentconnect.core.daemon.body import NoObject
from agentconnect.core.daemon.refusals import Refusal, field_refusal
from agentconnect.core.daemon.target import Target, read_delivery
from agentconnect.core.daemon.text import cut
from agentconnect.core.destination import Code, blank
from agentconnect.core.repeating import repeats
from agentconnect.core.surrogates import replace_surrogates

OUR_META = "ag2/"
"""Members of ``_meta`` that are ours to set; a client's never reach an agent."""

_NOTIFY_KEYS = {"text", "delivery"}

BAD_DELIVERY = field_refusal(
    Code.INVALID.value,
    "`delivery` needs exactly `kind` and `target`, it `channelName`, `type`, `id`.",
)
BAD_TEXT = field_refusal(Code.INVALID.value, "`text` must be a text that is not blank.")
BAD_NOTIFY = field_refusal(Code.INVALID.value, "The body takes exactly `text` and `delivery`.")
BAD_PROMPT = field_refusal(
    "invalid_prompt", "`prompt` must be a list of content blocks with at least one."
)


class Notify(msgspec.Struct, frozen=True, kw_only=True):
    """A Notify call; ``text`` is as it is sent, cut where it was too long."""

    text: str
    target: Target

    def __repr__(self) -> str:
        return f"Notify(text=…, target={self.target!r})"


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt for a session. ``blocks`` are the agent's to read, ``target`` is not."""

    blocks: tuple[dict[str, Any], ...]
    meta: dict[str, Any]
    target: Target | None = None

    def __repr__(self) -> str:
        return f"Prompt({len(self.blocks)} blocks, target={self.target!r})"


def read_notify(body: dict[str, Any]) -> Notify | Refusal:
    """``{"text", "delivery"}`` and nothing else."""
    if not body.keys() <= _NOTIFY_KEYS or repeats(body):
        return BAD_NOTIFY
    text = body.get("text")
    if not isinstance(text, str) or blank(text):
        return BAD_TEXT
    target = read_delivery(body.get("delivery"))
    if target is None:
        return BAD_DELIVERY
    return Notify(text=cut(replace_surrogates(text)), target=target)


def read_prompt(body: dict[str, Any]) -> Prompt | Refusal:
    """``prompt`` and perhaps ``delivery``; other members are ignored."""
    blocks = body.get("prompt")
    if not isinstance(blocks, list) or not blocks:
        return BAD_PROMPT
    if not all(isinstance(block, dict) for block in blocks):
        return BAD_PROMPT
    target = read_optional_delivery(body)
    if isinstance(target, Refusal):
        return target
    return Prompt(
        blocks=tuple(_without_ours(block) for block in blocks),
        meta=_without_ours(_ours_dropped(body.get("_meta"))),
        target=target,
    )


def read_optional_delivery(body: dict[str, Any]) -> Target | Refusal | None:
    """The target, None where the body names none; ``null`` and a repeated member are refused."""
    if "delivery" not in body:
        return None
    if "delivery" in repeats(body):
        return BAD_DELIVERY
    return read_delivery(body["delivery"]) or BAD_DELIVERY


def read_session(body: dict[str, Any]) -> str | Refusal | None:
    """The ``cwd`` that a new session asks for; None: the primary workspace's."""
    if isinstance(body, NoObject):  # no field is needed here, so nothing else would refuse it
        return field_refusal("workspace_mismatch", "The body must be an object.")
    cwd = body.get("cwd")
    if cwd is None or isinstance(cwd, str):
        return cwd
    return field_refusal("workspace_mismatch", "`cwd` must be a path.")


def _without_ours(value: Any) -> Any:
    """``value`` with what is ours gone from every ``_meta`` in it; bodies are not deep."""
    if isinstance(value, list):
        return [_without_ours(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _without_ours(_ours_dropped(item) if key == "_meta" else item)
        for key, item in value.items()
    }


def _ours_dropped(meta: object) -> dict[str, Any]:
    if not isinstance(meta, dict):
        return {}
    return {key: value for key, value in meta.items() if not key.startswith(OUR_META)}
