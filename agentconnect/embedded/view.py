"""What the page is shown: rooms, members and messages as the JSON its API promises."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from agentconnect.embedded import addressing, late, people, render, rooms
from agentconnect.embedded.late import Late
from agentconnect.embedded.records import Kind, Media, Member, Message, Reaction, Room, User
from agentconnect.embedded.store import Tx
from agentconnect.embedded.timing import MEDIA_BYTES


class ShownFile(msgspec.Struct, frozen=True, kw_only=True):
    """A message's file."""

    name: str
    mime: str
    size: int
    url: str


class ShownReaction(msgspec.Struct, frozen=True, kw_only=True):
    """One key with everybody who put it."""

    key: str
    senders: list[str]


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """One message."""

    event_id: str
    seq: int
    room_id: str
    sender: str
    sender_name: str
    ts: int
    kind: str
    body: str
    html: str
    edited: bool
    file: ShownFile | None
    reactions: list[ShownReaction]
    reply_to: str
    redacted: bool
    pending: bool
    steps: list[str]
    late: Late | None


def messages(tx: Tx, found: Sequence[Message], steps_of: Callable[[str], list[str]]) -> list[Shown]:
    """Messages with their files and reactions; the running ones with what they showed so far."""
    files = _by_ids(
        tx,
        "SELECT media_id, room_id, name, mime, size FROM media WHERE media_id",
        [m.media_id for m in found if m.media_id],
        Media,
    )
    reactions = _by_ids(
        tx,
        "SELECT event_id, key, sender FROM reactions WHERE event_id",
        [m.event_id for m in found],
        Reaction,
        " ORDER BY seq",
    )
    marks = late.found(tx, [m.event_id for m in found])
    shelf = {file.media_id: file for file in files}
    put: dict[str, dict[str, list[str]]] = {}
    for reaction in reactions:
        put.setdefault(reaction.event_id, {}).setdefault(reaction.key, []).append(reaction.sender)
    return [
        _shown(
            m,
            shelf.get(m.media_id),
            put.get(m.event_id, {}),
            tx.domain,
            steps_of,
            marks.get(m.event_id),
        )
        for m in found
    ]


def _by_ids(tx: Tx, sql: str, wanted: Sequence[str], kind: type[Any], tail: str = "") -> list[Any]:
    if not wanted:
        return []
    return tx.all(kind, f"{sql} IN ({', '.join('?' * len(wanted))}){tail}", *wanted)


def _shown(
    m: Message,
    file: Media | None,
    put: dict[str, list[str]],
    domain: str,
    steps_of: Callable[[str], list[str]],
    mark: Late | None,
) -> Shown:
    shown_file = None
    if file is not None:
        url = f"/page/media/{domain}/{file.media_id}"
        shown_file = ShownFile(name=file.name, mime=file.mime, size=file.size, url=url)
    return Shown(
        event_id=m.event_id,
        seq=m.seq,
        room_id=m.room_id,
        sender=m.sender,
        sender_name=m.sender_name,
        ts=int(m.ts * 1000),
        kind=m.kind,
        body=m.body,
        html="" if m.redacted else render.html(m.body),
        edited=m.edited,
        file=shown_file,
        reactions=[ShownReaction(key=key, senders=who) for key, who in put.items()],
        reply_to=m.reply_to,
        redacted=m.redacted,
        pending=m.pending,
        steps=steps_of(m.event_id) if m.pending else [],
        late=mark,
    )


class _Mine(msgspec.Struct, frozen=True, kw_only=True):
    room_id: str
    moderator: bool
    read_seq: int
    unread: int
    last_ts: float


_MINE = """SELECT m.room_id, m.moderator, m.read_seq,
    (SELECT COUNT(*) FROM messages e WHERE e.room_id = m.room_id AND e.seq > m.read_seq
        AND e.sender <> m.user_id AND e.redacted = 0) AS unread,
    COALESCE((SELECT MAX(e.ts) FROM messages e WHERE e.room_id = m.room_id), 0) AS last_ts
    FROM members m WHERE m.user_id = ?"""


def state(tx: Tx, me: User, online: Callable[[str], bool]) -> dict[str, Any]:
    """Everything the page needs before it follows the events."""
    mine = {row.room_id: row for row in tx.all(_Mine, _MINE, me.user_id)}
    shown, seen = [], {me.user_id}
    for room in rooms.of_member(tx, me.user_id):
        present = rooms.members(tx, room.room_id)
        seen.update(member.user_id for member in present)
        shown.append(_room(tx, room, mine[room.room_id], present, me, online))
    everyone = me.admin
    agents = [
        {
            "user_id": a.user_id,
            "name": a.name,
            "online": online(a.user_id),
            "mine": a.owner_id == me.user_id,
        }
        for a in people.everybody(tx, Kind.AGENT)
        if everyone or a.owner_id == me.user_id or a.user_id in seen
    ]
    known = [
        {"user_id": p.user_id, "name": p.name}
        for p in people.everybody(tx, Kind.PERSON)
        if everyone or p.user_id in seen
    ]
    return {
        "me": {"user_id": me.user_id, "name": me.name, "admin": me.admin},
        "domain": tx.domain,
        "concierge": next((c.user_id for c in people.everybody(tx, Kind.CONCIERGE)), ""),
        "rooms": shown,
        "agents": agents,
        "people": known,
        "cursor": tx.number("SELECT value FROM counters WHERE name = 'seq'"),
        "limits": {"upload_bytes": MEDIA_BYTES},
    }


def _room(
    tx: Tx,
    room: Room,
    mine: _Mine,
    present: Sequence[Member],
    me: User,
    online: Callable[[str], bool],
) -> dict[str, Any]:
    owners = {m.owner_id for m in present if m.kind is Kind.AGENT}
    trusted = {
        user_id
        for owner in owners
        for user_id in tx.texts(
            "SELECT user_id FROM trust WHERE owner_id = ? AND level = 'owner'", owner
        )
    }
    name = room.name
    if room.kind == "dm":
        name = next((m.name for m in present if m.user_id != me.user_id), me.name)
    return {
        "room_id": room.room_id,
        "name": name,
        "kind": room.kind,
        "unread": mine.unread,
        "read_seq": mine.read_seq,
        "last_ts": int(mine.last_ts * 1000),
        "moderator": mine.moderator,
        "sensitive_data_filter": room.sensitive,
        "members": [
            {
                "user_id": m.user_id,
                "name": m.name,
                "kind": str(m.kind),
                "tier": _tier(m, owners, trusted),
                "online": online(m.user_id),
            }
            for m in present
        ],
    }


def _tier(member: Member, owners: set[str], trusted: set[str]) -> str:
    if member.kind is not Kind.PERSON or not owners:
        return ""
    if member.user_id in owners or member.user_id in trusted:
        return addressing.OWNER
    return addressing.COLLABORATOR if member.tier == addressing.COLLABORATOR else addressing.GUEST
