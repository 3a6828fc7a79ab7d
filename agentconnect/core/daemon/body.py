"""A request's body as JSON: strict, and which objects name a member twice (§2.2, rows 8 and 9).

Two readers of one text must not see two targets, so an object that repeats a member is told apart.
"""

import json
import re
from typing import Any

import msgspec

from agentconnect.core.daemon.refusals import BAD_JSON, BAD_MEDIA_TYPE, Refusal
from agentconnect.core.repeating import from_pairs

MAX_BODY_BYTES = 10 * 1024 * 1024
MAX_WEBHOOK_BODY_BYTES = 1024 * 1024
MAX_DEPTH = 200
"""Deeper values would fail wherever they are written out again."""

_JSON_TYPE = re.compile(r"[ \t]*application/json[ \t]*(?:;.*)?", re.I | re.S)


class NoObject(dict[str, Any]):
    """What a body reads as that is JSON but no object: all its fields are missing."""


def check_media_type(content_type: str | None) -> Refusal | None:
    """415 for a stated type that is not JSON; parameters are allowed, no header means JSON."""
    if content_type is None or _JSON_TYPE.fullmatch(content_type):
        return None
    return BAD_MEDIA_TYPE


def read_body(data: bytes) -> dict[str, Any] | Refusal:
    """The object that a body holds; JSON that is no object reads as an empty one."""
    try:
        value = msgspec.json.decode(data)  # the strict one: no NaN, no lone surrogate, no tail
        if not isinstance(value, dict):
            return NoObject()
        value = json.loads(data.decode(), object_pairs_hook=from_pairs)
    except (ValueError, RecursionError):
        return BAD_JSON
    assert isinstance(value, dict)
    return BAD_JSON if _is_deep(data, value) else value


def _is_deep(data: bytes, value: dict[str, Any]) -> bool:
    if data.count(b"{") + data.count(b"[") <= MAX_DEPTH:
        return False
    level: list[dict[str, Any] | list[Any]] = [value]
    for _ in range(MAX_DEPTH):
        inside = (item.values() if isinstance(item, dict) else item for item in level)
        level = [item for each in inside for item in each if isinstance(item, (dict, list))]
    return bool(level)
