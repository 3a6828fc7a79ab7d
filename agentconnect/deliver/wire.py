"""The names and small shapes of the wire: declarations, destinations, ``_ag2/notify``. Pure.

Readers take what a peer sent: another shape than the right one is None or False, never an error.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

DELIVER = "_ag2/deliver"
NOTIFY = "_ag2/notify"
CAPABILITY: Mapping[str, bool] = {"ag2/deliver": True}
"""For ``agentCapabilities._meta`` of the agent's ``initialize`` answer."""

METHOD_NOT_FOUND = -32601
BINDING = re.compile(r"[0-9A-Za-z._-]{1,128}")


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a delivery may go: the binding, and the folder its files have to lie in."""

    binding: str
    export_dir: Path
    expires_at: datetime | None = None


def declared(client_capabilities: object, meta: object = None) -> bool:
    """Whether a client takes deliveries on this connection.

    ``client_capabilities`` is that member of its ``initialize`` request, ``meta`` the request's own
    ``_meta``: either may say it. The ACP SDK's objects are understood, too.
    """
    return any(_yes(_meta_of(where)) for where in (client_capabilities, {"_meta": meta}))


def destination(meta: object) -> Destination | None:
    """The delivery destination in the ``_meta`` of ``session/new``, ``load``, ``resume`` or
    ``prompt``; None where there is none: this client takes nothing after the turn."""
    told = meta.get("ag2/delivery") if isinstance(meta, Mapping) else None
    if not isinstance(told, Mapping):
        return None
    binding, folder = told.get("binding"), told.get("export_dir")
    if not isinstance(binding, str) or BINDING.fullmatch(binding) is None:
        return None
    if not isinstance(folder, str) or "\0" in folder or not Path(folder).is_absolute():
        return None
    return Destination(binding, Path(folder), moment(told.get("expires_at")))


def notify_destination(meta: object) -> str | None:
    """The destination of ``_ag2/notify`` in a session's ``_meta``, or None."""
    told = meta.get("ag2/destination") if isinstance(meta, Mapping) else None
    return told if isinstance(told, str) and BINDING.fullmatch(told) else None


def notify_params(destination: str, text: str) -> dict[str, str]:
    """The params of an ``_ag2/notify``: text at once, at best once, lost if anything fails."""
    return {"destination": destination, "text": text}


def moment(value: object) -> datetime | None:
    """An RFC 3339 time with an offset as UTC; None for anything else."""
    if not isinstance(value, str) or len(value) > 64:
        return None
    try:
        parsed = datetime.fromisoformat(value)
        return parsed.astimezone(UTC) if parsed.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _meta_of(where: object) -> object:
    if isinstance(where, Mapping):
        return where.get("_meta")
    sdk: Any = where
    return getattr(sdk, "field_meta", None)


def _yes(meta: object) -> bool:
    said = meta.get("ag2/deliver") if isinstance(meta, Mapping) else None
    return said is True or isinstance(said, Mapping)
