"""``sessions.json``: which conversation belongs to which room (worker.md §12).

Class: convenience. A file that cannot be read is complained of once, kept as ``sessions.json.bad``
before the first write, and taken for empty; one that cannot be written only means that
conversations do not continue. The shape is the reference worker's; a collaborator adds ``sender``.
"""

import contextlib
import logging
from pathlib import Path
from typing import Any

import msgspec
import trio

from agentconnect.core.errors import StoreUnreadableError
from agentconnect.core.task import SessionId, SessionKey, Tier
from agentconnect.core.turns.session import SessionRecord
from agentconnect.store.atomic import read_file, write_file

log = logging.getLogger("agentconnect.store")

PRUNE_AFTER_S = 30 * 24 * 3600.0
WRITE_BEHIND_S = 0.5
"""How far the file may be behind in what a warm turn changes: a count and a time (ADR 10)."""

_TEAM = "team"


class SessionStore:
    """The records in memory, and the file behind them. One writer at a time, the newest wins."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._records: dict[SessionKey, SessionRecord] = {}
        self._changed = 0
        self._written = 0
        self._writing = trio.Lock()
        self._settling = False
        self._durable = False
        self._bad = False
        self._complained = False
        self.lost = False
        """There was a file at the start that could not be read: what it held is unknown."""

    def load(self, *, wall_now: float, prune: bool) -> None:
        """Read the file once. Blocking. ``prune`` drops what was silent for 30 days."""
        try:
            data = read_file(self._path)
            entries = _entries(data) if data is not None else []
        except (StoreUnreadableError, msgspec.MsgspecError, ValueError, RecursionError) as error:
            log.warning("%s cannot be used, conversations start fresh: %s", self._path.name, error)
            self._bad = self.lost = True
            return
        for entry in entries:
            record = _read_entry(entry)
            if record is None or (prune and wall_now - record.updated_at > PRUNE_AFTER_S):
                continue
            self._records[record.key] = record

    def get(self, key: SessionKey) -> SessionRecord | None:
        """What is remembered of a conversation."""
        return self._records.get(key)

    async def put(self, record: SessionRecord) -> None:
        """Remember. A conversation that is new to the file is in it, for good, when this returns.

        Of a known one the file follows with :meth:`settle`: a count that is one too low costs
        nothing, and a write costs more than all else that a warm turn does.
        """
        known = self._records.get(record.key)
        self.note(record)
        if known is None or known.session_id != record.session_id:
            self._durable = True
            await self.flush()

    def note(self, record: SessionRecord) -> None:
        """Remember; the file follows with :meth:`settle` or the next :meth:`flush`."""
        self._records[record.key] = record
        self._changed += 1

    @property
    def due(self) -> bool:
        """The file is behind, and nobody is about to write it."""
        return self._changed > self._written and not self._settling

    async def settle(self) -> None:
        """Write what changed a little later, in one go with what comes meanwhile.

        Cancellation: what is due is written at once.
        """
        if not self.due:
            return
        self._settling = True
        try:
            await trio.sleep(WRITE_BEHIND_S)
        finally:
            self._settling = False
            with trio.CancelScope(shield=True):
                await self.flush()

    async def forget(self, key: SessionKey) -> None:
        """Drop a conversation."""
        if self._records.pop(key, None) is not None:
            self._durable = True
            self._changed += 1
            await self.flush()

    async def flush(self) -> None:
        """Write what changed. Cancellation: a write that has begun is finished."""
        wanted = self._changed
        async with self._writing:
            if self._written >= wanted:
                return  # whoever held the lock wrote ours too
            wanted = self._changed
            data = self._encode()
            durable, self._durable = self._durable, False
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._write, data, durable)
            self._written = wanted

    def _encode(self) -> bytes:
        entries = [_write_entry(record) for record in self._records.values()]
        entries.sort(key=lambda e: (e["room"], e["access_tier"], e.get("sender", "")))
        text = msgspec.json.encode({"version": 1, "sessions": entries})
        return msgspec.json.format(text, indent=2) + b"\n"

    def _write(self, data: bytes, durable: bool) -> None:
        try:
            if self._bad:
                with contextlib.suppress(FileNotFoundError):
                    self._path.replace(self._path.with_name(f"{self._path.name}.bad"))
                self._bad = False
            write_file(self._path, data, durable=durable)
        except OSError as error:
            if not self._complained:
                log.warning("%s cannot be written: %s", self._path.name, error.strerror or error)
            self._complained = True


def problem(data: bytes) -> str:
    """Why these bytes are no map of conversations; "" where they are. For ``doctor``."""
    try:
        _entries(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return str(error)
    return ""


def _entries(data: bytes) -> list[Any]:
    value = msgspec.json.decode(data)
    sessions = value.get("sessions") if isinstance(value, dict) else None
    if not isinstance(sessions, list):
        raise ValueError("it has no list of sessions")  # noqa: TRY004 - of the file
    return sessions


def _read_entry(entry: Any) -> SessionRecord | None:
    """One record; None where a field is missing or of the wrong type."""
    try:
        raw = msgspec.convert(entry, _Entry)
    except msgspec.ValidationError:
        return None
    if not raw.session_id or raw.turns < 0:
        return None
    tier = Tier.OWNER if raw.access_tier == "owner" else Tier.GUEST
    if raw.access_tier == _TEAM and not raw.sender:
        return None
    return SessionRecord(
        key=SessionKey(room=raw.room, tier=tier, sender=raw.sender),
        session_id=SessionId(raw.session_id),
        cwd=raw.cwd,
        turns=raw.turns,
        updated_at=raw.updated_at,
    )


def _write_entry(record: SessionRecord) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "room": record.key.room,
        "access_tier": _TEAM if record.key.sender else record.key.tier.value,
    }
    if record.key.sender:
        entry["sender"] = record.key.sender
    return entry | {
        "session_id": record.session_id,
        "cwd": record.cwd,
        "turns": record.turns,
        "updated_at": record.updated_at,
    }


class _Entry(msgspec.Struct):
    room: str
    access_tier: str
    session_id: str
    cwd: str
    turns: int = 0
    updated_at: float = 0.0
    sender: str = ""
