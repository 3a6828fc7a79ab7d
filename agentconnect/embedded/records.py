"""Rows of the relay as values."""

from enum import StrEnum

import msgspec


class Kind(StrEnum):
    """What a user is."""

    PERSON = "person"
    AGENT = "agent"
    CONCIERGE = "concierge"


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A person, an agent identity or the concierge. ``owner_id``: who registered an agent."""

    user_id: str
    name: str
    kind: Kind
    owner_id: str = ""
    admin: bool = False
    removed: bool = False


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """A room or a direct message; ``sensitive`` is its sensitive-data flag."""

    room_id: str
    name: str
    kind: str
    sensitive: bool


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A user in a room. ``tier`` is what was entered for them, not yet what they run at."""

    user_id: str
    name: str
    kind: Kind
    owner_id: str
    tier: str
    moderator: bool
    trusted: bool = False


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One room message as it stands now. ``ts`` is in seconds."""

    event_id: str
    room_id: str
    seq: int
    sender: str
    sender_name: str = ""
    ts: float
    kind: str
    body: str
    reply_to: str = ""
    media_id: str = ""
    edited: bool = False
    redacted: bool = False
    task_id: str = ""
    placeholder: bool = False
    pending: bool = False


class Media(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a stored file."""

    media_id: str
    room_id: str
    name: str
    mime: str
    size: int


class Reaction(msgspec.Struct, frozen=True, kw_only=True):
    """One reaction of one user."""

    event_id: str
    key: str
    sender: str


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the log that event streams follow."""

    seq: int
    room_id: str
    kind: str
    event_id: str
    sender: str
    ts: float


class TaskRow(msgspec.Struct, frozen=True, kw_only=True):
    """A task with its lease, as stored."""

    id: str
    agent_id: str
    room_id: str
    source: str
    seq: int
    state: str
    until: float
    acked: bool
    extended: int
    attempt: int
    lease_id: str
    greeted: bool
    served_seq: int
    placeholder: str
    rejected: bool
    answer: str
