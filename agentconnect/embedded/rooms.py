"""Rooms, members, messages and the log of what changed, as units of work.

Every change takes the next number of one sequence and leaves a line in ``events``; event streams
follow that log, so they go on where they were after a restart of either side.
"""

from agentconnect.embedded import ids
from agentconnect.embedded.records import Kind, Member, Message, Reaction, Room
from agentconnect.embedded.store import Tx

_MESSAGE = """SELECT m.event_id, m.room_id, m.seq, m.sender, u.name AS sender_name, m.ts, m.kind,
    m.body, m.reply_to, m.media_id, m.edited, m.redacted, m.task_id, m.placeholder,
    CASE WHEN t.state IN ('queued', 'leased') THEN 1 ELSE 0 END AS pending
    FROM messages m JOIN users u ON u.user_id = m.sender LEFT JOIN tasks t ON t.id = m.task_id"""
_SLICE = 500
_ROOM = "SELECT r.room_id, r.name, r.kind, r.sensitive FROM rooms r"


def log(
    tx: Tx, room_id: str, kind: str, *, event_id: str = "", sender: str = "", only_user: str = ""
) -> int:
    """Leave a line in the log of changes; its number."""
    seq = tx.next_seq()
    tx.run(
        "INSERT INTO events (seq, room_id, kind, event_id, sender, only_user, ts) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        seq,
        room_id,
        kind,
        event_id,
        sender,
        only_user,
        tx.now,
    )
    return seq


def prune_log(tx: Tx, before: float, up_to: int) -> int:
    """Forget some of the oldest lines of the log: from before a time, or up to a number."""
    return tx.run(
        "DELETE FROM events WHERE seq IN "
        "(SELECT seq FROM events WHERE ts < ? OR seq <= ? ORDER BY seq LIMIT ?)",
        before,
        up_to,
        _SLICE,
    )


def create(tx: Tx, name: str, creator: str, *, kind: str = "room") -> Room:
    """Make a room whose creator is its moderator."""
    room = Room(room_id=ids.room_id(tx.domain), name=name, kind=kind, sensitive=True)
    tx.run(
        "INSERT INTO rooms (room_id, name, kind, sensitive, created, creator) "
        "VALUES (?, ?, ?, 1, ?, ?)",
        room.room_id,
        name,
        kind,
        tx.now,
        creator,
    )
    join(tx, room.room_id, creator, moderator=kind == "room")
    return room


def get(tx: Tx, room_id: str, member: str) -> Room | None:
    """A room, if it is there and ``member`` is in it: the two cases are told apart to nobody."""
    return tx.one(
        Room,
        f"{_ROOM} JOIN members m ON m.room_id = r.room_id WHERE r.room_id = ? AND m.user_id = ?",
        room_id,
        member,
    )


def of_member(tx: Tx, user_id: str) -> list[Room]:
    """Every room of one user, oldest first."""
    return tx.all(
        Room,
        f"{_ROOM} JOIN members m ON m.room_id = r.room_id WHERE m.user_id = ? "
        "ORDER BY r.created, r.room_id",
        user_id,
    )


def members(tx: Tx, room_id: str) -> list[Member]:
    """Who is in a room, in the order they came."""
    return tx.all(
        Member,
        "SELECT m.user_id, u.name, u.kind, u.owner_id, m.tier, m.moderator FROM members m "
        "JOIN users u ON u.user_id = m.user_id WHERE m.room_id = ? ORDER BY m.joined, m.user_id",
        room_id,
    )


def join(tx: Tx, room_id: str, user_id: str, *, tier: str = "", moderator: bool = False) -> None:
    """Put a user into a room, or change what was entered for them."""
    if (
        tx.run(
            "UPDATE members SET tier = ? WHERE room_id = ? AND user_id = ?", tier, room_id, user_id
        )
        == 0
    ):
        tx.run(
            "INSERT INTO members (room_id, user_id, tier, moderator, joined, read_seq) "
            "VALUES (?, ?, ?, ?, ?, 0)",
            room_id,
            user_id,
            tier,
            int(moderator),
            tx.now,
        )
    log(tx, room_id, "room")


def leave(tx: Tx, room_id: str, user_id: str) -> bool:
    """Take a user out of a room; they alone hear of it by name."""
    gone = tx.run("DELETE FROM members WHERE room_id = ? AND user_id = ?", room_id, user_id) > 0
    if gone:
        log(tx, room_id, "room")
        log(tx, room_id, "room", only_user=user_id)
    return gone


def direct(tx: Tx, one: str, other: str) -> Room:
    """The direct message of two users; made where there is none."""
    room = tx.one(
        Room,
        f"{_ROOM} JOIN members a ON a.room_id = r.room_id AND a.user_id = ? "
        "JOIN members b ON b.room_id = r.room_id AND b.user_id = ? WHERE r.kind = 'dm'",
        one,
        other,
    )
    if room is not None:
        return room
    room = create(tx, "", one, kind="dm")
    join(tx, room.room_id, other)
    return room


def message(tx: Tx, room_id: str, event_id: str) -> Message | None:
    """One message of a room."""
    return tx.one(Message, f"{_MESSAGE} WHERE m.room_id = ? AND m.event_id = ?", room_id, event_id)


def page(tx: Tx, room_id: str, before: int, limit: int) -> list[Message]:
    """The newest messages before a place, oldest first."""
    found = tx.all(
        Message,
        f"{_MESSAGE} WHERE m.room_id = ? AND m.seq < ? ORDER BY m.seq DESC LIMIT ?",
        room_id,
        before,
        limit,
    )
    return found[::-1]


def post(
    tx: Tx,
    room_id: str,
    sender: str,
    body: str,
    *,
    kind: str = "text",
    reply_to: str = "",
    media_id: str = "",
    task_id: str = "",
    placeholder: bool = False,
) -> Message:
    """Put a message into a room."""
    event_id = ids.event_id()
    seq = log(tx, room_id, "message", event_id=event_id, sender=sender)
    tx.run(
        "INSERT INTO messages (event_id, room_id, seq, sender, ts, kind, body, reply_to, "
        "media_id, edited, redacted, task_id, placeholder) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, ?, ?)",
        event_id,
        room_id,
        seq,
        sender,
        tx.now,
        kind,
        body,
        reply_to,
        media_id,
        task_id,
        int(placeholder),
    )
    return Message(
        event_id=event_id,
        room_id=room_id,
        seq=seq,
        sender=sender,
        ts=tx.now,
        kind=kind,
        body=body,
        reply_to=reply_to,
        media_id=media_id,
        task_id=task_id,
        placeholder=placeholder,
    )


def edit(tx: Tx, found: Message, body: str) -> None:
    """Replace a message's text."""
    tx.run("UPDATE messages SET body = ?, edited = 1 WHERE event_id = ?", body, found.event_id)
    log(tx, found.room_id, "edit", event_id=found.event_id, sender=found.sender)


def touched(tx: Tx, event_id: str) -> None:
    """Say that a message looks different, though its text is the same."""
    room_id = tx.text("SELECT room_id FROM messages WHERE event_id = ?", event_id)
    if room_id:
        log(tx, room_id, "edit", event_id=event_id)


def react(tx: Tx, room_id: str, event_id: str, key: str, sender: str) -> None:
    """Add a reaction; the same one twice is one."""
    # it follows the newest line of the log, and its own line follows that
    new = tx.run(
        "INSERT INTO reactions (event_id, key, sender, seq) VALUES (?, ?, ?, "
        "(SELECT value + 1 FROM counters WHERE name = 'seq')) ON CONFLICT DO NOTHING",
        event_id,
        key,
        sender,
    )
    if new:
        log(tx, room_id, "react", event_id=event_id, sender=sender)


def unreact(tx: Tx, found: Message, key: str, sender: str) -> None:
    """Take a reaction back, if it is there."""
    sql = "DELETE FROM reactions WHERE event_id = ? AND key = ? AND sender = ?"
    if tx.run(sql, found.event_id, key, sender):
        log(tx, found.room_id, "react", event_id=found.event_id, sender=sender)


def reactions(tx: Tx, event_id: str) -> list[tuple[str, str]]:
    """The reactions on one message, as (key, sender), in their order."""
    sql = "SELECT event_id, key, sender FROM reactions WHERE event_id = ? ORDER BY seq"
    return [(put.key, put.sender) for put in tx.all(Reaction, sql, event_id)]


def redact(tx: Tx, found: Message) -> None:
    """Take a message's content away for good; its place stays."""
    tx.run("DELETE FROM media WHERE media_id = ?", found.media_id)
    tx.run(
        "UPDATE messages SET body = '', media_id = '', redacted = 1 WHERE event_id = ?",
        found.event_id,
    )
    tx.run("DELETE FROM reactions WHERE event_id = ?", found.event_id)
    log(tx, found.room_id, "redact", event_id=found.event_id, sender=found.sender)


def mark_read(tx: Tx, room_id: str, user_id: str, seq: int, *, tell: bool = True) -> None:
    """Move a reader's mark forward; their other windows hear of it where that is news."""
    moved = tx.run(
        "UPDATE members SET read_seq = ? WHERE room_id = ? AND user_id = ? AND read_seq < ?",
        seq,
        room_id,
        user_id,
        seq,
    )
    if moved and tell:
        log(tx, room_id, "read", sender=user_id, only_user=user_id)


def agents_in(tx: Tx, room_id: str) -> list[str]:
    """The agent identities of a room."""
    return [m.user_id for m in members(tx, room_id) if m.kind is Kind.AGENT]
