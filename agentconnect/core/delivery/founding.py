"""How a store comes to be: opened, taken over from older files, or new; never a second one.

deferred-delivery.md §8. A worker id is minted only where nothing of a store exists: another id
over an old record would give every part a new key, and so a second post.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from agentconnect.core.delivery.bindings import Binding, is_mine
from agentconnect.core.delivery.ledger import BindingId, DeliveryId, Entry, WorkerId
from agentconnect.core.task import Tier

VERSION = 1
_WORKER_ID = re.compile(r"[0-9a-f]{32}")


class Founding(StrEnum):
    """What to do where the store should be."""

    OPEN = "open"
    IMPORT = "import"
    MINT = "mint"
    REFUSE = "refuse"


class Older(msgspec.Struct, frozen=True, kw_only=True):
    """What the older files hold together."""

    worker_id: WorkerId
    entries: tuple[Entry, ...] = ()
    bindings: tuple[Binding, ...] = ()


class _OlderBinding(msgspec.Struct, frozen=True, kw_only=True):
    room: str
    tier: Tier = Tier.OWNER
    sender: str = ""
    created: float = 0.0
    last_turn: float = 0.0
    expires: float = 0.0


class _OlderLedger(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    worker_id: str
    deliveries: dict[str, dict[str, Any]]


class _OlderBindings(msgspec.Struct, frozen=True, kw_only=True):
    worker_id: str = ""
    bindings: dict[str, _OlderBinding]


class RecordFile(msgspec.Struct, frozen=True, kw_only=True):
    """The record in the thread's JSON form, as ``agent-connect deliveries --json`` prints it."""

    version: int = VERSION
    worker_id: str
    deliveries: dict[str, dict[str, Any]]


def founding(*, database: bool, older: bool, seen: bool) -> Founding:
    """``seen``: this process has found the store there, so that a missing one is a lost one."""
    if database:
        return Founding.OPEN
    if seen:
        return Founding.REFUSE
    return Founding.IMPORT if older else Founding.MINT


def record(worker_id: str, entries: Sequence[Entry]) -> bytes:
    """The record as JSON, two spaces deep, in the order first seen."""
    listed: dict[str, dict[str, Any]] = {entry.id: msgspec.to_builtins(entry) for entry in entries}
    for plain in listed.values():
        del plain["id"]
    document = RecordFile(worker_id=worker_id, deliveries=listed)
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def read_older(
    worker_id: bytes | None, ledger: bytes | None, bindings: bytes | None
) -> Older | str:
    """The older files' content (None: not there), or a sentence about what is wrong with them."""
    if worker_id is None:
        return "worker-id is missing, though its record of deliveries is there"
    name = worker_id.decode("ascii", "replace").strip()
    if not _WORKER_ID.fullmatch(name):
        return "worker-id does not hold 32 hexadecimal digits"
    mine = WorkerId(name)
    entries = _entries(mine, ledger)
    if isinstance(entries, str):
        return entries
    rows = _bindings(mine, bindings)
    if isinstance(rows, str):
        return rows
    return Older(worker_id=mine, entries=entries, bindings=rows)


def _entries(mine: WorkerId, raw: bytes | None) -> tuple[Entry, ...] | str:
    if raw is None:
        return ()
    try:
        found = msgspec.json.decode(raw, type=_OlderLedger)
        entries = tuple(
            msgspec.convert({**plain, "id": DeliveryId(name)}, Entry)
            for name, plain in found.deliveries.items()
        )
    except (ValueError, RecursionError):
        return "deliveries.json cannot be understood"
    if found.version != VERSION:
        return f"deliveries.json has version {found.version}, not {VERSION}"
    for other in (found.worker_id, *(entry.worker_id for entry in entries)):
        if other != mine:
            return f"deliveries.json belongs to worker {_shown(other)}, worker-id says {mine}"
    return tuple(
        msgspec.structs.replace(entry, folder=entry.folder or entry.binding) for entry in entries
    )


def _bindings(mine: WorkerId, raw: bytes | None) -> tuple[Binding, ...] | str:
    if raw is None:
        return ()
    try:
        found = msgspec.json.decode(raw, type=_OlderBindings)
    except (ValueError, RecursionError):
        return "bindings.json cannot be understood"
    if found.worker_id and found.worker_id != mine:
        return f"bindings.json belongs to worker {_shown(found.worker_id)}, worker-id says {mine}"
    for name in found.bindings:
        if not is_mine(name, mine):
            other = _shown(name.partition(".")[0])
            return f"bindings.json belongs to worker {other}, worker-id says {mine}"
    return tuple(
        Binding(
            id=BindingId(name),
            room=row.room,
            tier=row.tier,
            sender=row.sender,
            created=row.created,
            last_turn=row.last_turn,
            expires=row.expires,
            folder=name,
        )
        for name, row in found.bindings.items()
    )


def _shown(text: str) -> str:
    return "".join(c if c.isalnum() else "?" for c in text[:40])
