"""The words everyone shares: task, tier, attachment, session key.

Owns the values that travel between the relay, the turns and the adapters. They are made once, at
the trust boundary (``core/relay/envelope``), and never carry the raw wire object (relay-wire.md
§4.1).
"""

from enum import StrEnum
from typing import NewType

import msgspec

TaskId = NewType("TaskId", str)
"""A broker's task id: ``[A-Za-z0-9._-]{1,64}``, not ``.`` or ``..`` (relay-wire.md §4.2)."""

SessionId = NewType("SessionId", str)
"""An agent's own id of an ACP session."""


class Tier(StrEnum):
    """The two tiers that cross the wire. Anything that is not exactly ``owner`` is a guest."""

    OWNER = "owner"
    GUEST = "guest"


class MediaMarker(msgspec.Struct, frozen=True, kw_only=True):
    """One ``[ag2space-media: …]`` marker of a task body; every attribute but ``url`` is a hint."""

    url: str
    mime: str = ""
    name: str = ""
    size: int = 0
    kind: str = ""


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """A file that came with a task, fetched or not (relay-wire.md §12.2).

    ``path`` is absolute and ours; it is ``""`` where ``ok`` is false, and ``reason`` then says why.
    ``size`` is in bytes.
    """

    path: str = ""
    mime: str = "application/octet-stream"
    name: str = ""
    kind: str = ""
    size: int = 0
    ok: bool = False
    reason: str = ""


class PlatformCard(msgspec.Struct, frozen=True, kw_only=True):
    """A sender's signed card: carried whole or not at all, never judged here (relay-wire §4.1)."""

    card_url: str
    card_sha256: str
    sig: str
    key_id: str
    alg: str


class Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One delivered unit of work: a room message addressed to our agent identity.

    Field rules: relay-wire.md §4.1. ``access_tier`` is the attested word verbatim; use
    :func:`tier_of` to judge it.
    """

    id: TaskId
    body: str = ""
    room_id: str = ""
    user_id: str = ""
    access_tier: str = ""
    requested_access_tier: str = ""
    collaborator: bool = False
    sensitive_data_filter: bool = True
    priority: str = "normal"
    timestamp: str = ""
    room_name: str = ""
    sender_name: str = ""
    reply_to_event: str = ""
    reply_to_me: bool = False
    source_message_id: str = ""
    attempt: int = 0
    metadata_stripped: bool = False
    # beyond the table of the vectors: carried as data, never judged
    body_cut: bool = False
    lease_id: str = ""
    reply_to_sender: str = ""
    addressed_to: str = ""
    session_scope: str = ""
    source: str = ""
    interaction_type: str = ""
    thread_root: str = ""
    source_room_id: str = ""
    room_member_count: int = 0
    room_members: tuple[str, ...] = ()
    platform_card: PlatformCard | None = None
    media: tuple[MediaMarker, ...] = ()
    attachments: tuple[Attachment, ...] = ()


class SessionKey(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversation is keyed by: (room, tier), or (room, sender) for a collaborator."""

    room: str
    tier: Tier
    sender: str = ""

    @property
    def collaborator(self) -> bool:
        """The turns of this session are a collaborator's (worker.md §20.5)."""
        return bool(self.sender)


def tier_of(task: Task) -> Tier:
    """The tier a task runs at: owner only for exactly ``owner`` as received (worker.md §6)."""
    return Tier.OWNER if task.access_tier == "owner" else Tier.GUEST


def session_key_of(task: Task, tier: Tier, *, collaborator: bool = False) -> SessionKey:
    """The session a task belongs to; a task without a room shares with nobody (worker.md §5)."""
    sender = task.user_id if collaborator else ""
    return SessionKey(room=task.room_id or f"task:{task.id}", tier=tier, sender=sender)
