"""``delivery`` as everybody states it: one explicit place, kept word for word (§4).

The same reading serves Notify, prompts, scheduled tasks and their file.
"""

from enum import StrEnum
from typing import Any

import msgspec

from agentconnect.core.destination import MAX_NAME_UNITS, blank, units
from agentconnect.core.repeating import repeats

_DELIVERY_KEYS = {"kind", "target"}
_TARGET_KEYS = {"channelName", "type", "id"}


class TargetType(StrEnum):
    """What an id names: a person, or a room."""

    USER = "user"
    CHAT = "chat"


class Target(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a text goes. The id shows in no ``repr``: it may not reach a log (§13)."""

    channel_name: str
    type: TargetType
    id: str

    def __repr__(self) -> str:
        return f"Target(channel_name={self.channel_name!r}, type={self.type.value!r}, id=…)"

    def as_delivery(self) -> dict[str, Any]:
        """The public ``delivery`` object."""
        return {"kind": "channel", "target": self.as_target()}

    def as_target(self) -> dict[str, Any]:
        """The public ``target`` object."""
        return {"channelName": self.channel_name, "type": self.type.value, "id": self.id}


def read_delivery(value: object) -> Target | None:
    """The target of a ``delivery`` member; None where it breaks any rule of §4."""
    if not isinstance(value, dict) or value.keys() != _DELIVERY_KEYS or repeats(value):
        return None
    return read_target(value["target"]) if value["kind"] == "channel" else None


def read_target(value: object) -> Target | None:
    """A ``target`` object; None where it breaks any rule of §4."""
    if not isinstance(value, dict) or value.keys() != _TARGET_KEYS or repeats(value):
        return None
    channel_name, kind, name = value["channelName"], value["type"], value["id"]
    if not is_name(channel_name) or not is_name(name):
        return None
    if not isinstance(kind, str) or kind not in ("user", "chat"):
        return None
    return Target(channel_name=channel_name, type=TargetType(kind), id=name)


def is_name(value: object) -> bool:
    """A string that is not blank and no longer than a name may be."""
    return isinstance(value, str) and not blank(value) and units(value) <= MAX_NAME_UNITS
