"""The task queue of each agent identity, as units of work over :mod:`leases`.

A task's envelope is put together when it is served, so that the tier and the room's flag are those
of that moment: a trust taken back reaches what was asked before it (relay-wire.md §4.1, §20.1).
"""

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from agentconnect.embedded import addressing, answers, ids, leases, rooms
from agentconnect.embedded.leases import Ack, Lease, State
from agentconnect.embedded.records import Media, Message, TaskRow
from agentconnect.embedded.store import Tx
from agentconnect.embedded.timing import Timing

_TYPED_MARKER = "[ag2space-media:"
_INERT_MARKER = "[ag2space-media :"
_TASK = """SELECT id, agent_id, room_id, source, seq, state, until, acked, extended, attempt,
    lease_id, greeted, served_seq, placeholder, rejected, answer FROM tasks"""


class Served(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task on the wire."""

    id: str
    task: str
    channel_id: str
    user_id: str
    access_tier: str
    requested_access_tier: str = ""
    collaborator: bool = False
    sensitive_data_filter: bool
    priority: str
    timestamp: str = ""
    room_name: str = ""
    sender_name: str = ""
    reply_to_event: str = ""
    reply_to_me: bool = False
    reply_to_sender: str = ""
    source_message_id: str = ""
    room_members: tuple[str, ...] = ()
    room_member_count: int = 0
    attempt: int = 0
    lease_id: str = ""


class _Source(msgspec.Struct, frozen=True, kw_only=True):
    """A queued task joined with what its envelope tells."""

    id: str
    body: str
    room_id: str
    source: str
    agent_id: str
    sender: str
    sender_name: str
    ts: float
    reply_to: str
    room_name: str
    sensitive: bool
    owner_id: str
    trust: str
    member_tier: str | None
    reply_to_sender: str
    media_id: str
    file_name: str
    mime: str
    size: int
    attempt: int
    greeted: bool


_SOURCES = """SELECT t.id, t.body, t.room_id, t.source, t.agent_id, m.sender,
    u.name AS sender_name, m.ts, m.reply_to, r.name AS room_name, r.sensitive, a.owner_id,
    COALESCE(tr.level, '') AS trust, mem.tier AS member_tier,
    COALESCE(rm.sender, '') AS reply_to_sender, COALESCE(f.media_id, '') AS media_id,
    COALESCE(f.name, '') AS file_name, COALESCE(f.mime, '') AS mime, COALESCE(f.size, 0) AS size,
    t.attempt, t.greeted
    FROM tasks t JOIN messages m ON m.event_id = t.source JOIN users u ON u.user_id = m.sender
    JOIN rooms r ON r.room_id = t.room_id JOIN users a ON a.user_id = t.agent_id
    LEFT JOIN trust tr ON tr.owner_id = a.owner_id AND tr.user_id = m.sender
    LEFT JOIN members mem ON mem.room_id = t.room_id AND mem.user_id = m.sender
    LEFT JOIN messages rm ON rm.event_id = m.reply_to
    LEFT JOIN media f ON f.media_id = m.media_id
    WHERE t.agent_id = ? AND t.state = 'queued' ORDER BY t.seq LIMIT ?"""

SLICE = 50
"""Tasks handled in one unit of work, which others wait for."""


def task(tx: Tx, agent_id: str, task_id: str) -> TaskRow | None:
    """One task of one identity."""
    return tx.one(TaskRow, f"{_TASK} WHERE id = ? AND agent_id = ?", task_id, agent_id)


def of_source(tx: Tx, event_id: str) -> list[TaskRow]:
    """The tasks one message became."""
    return tx.all(TaskRow, f"{_TASK} WHERE source = ? ORDER BY seq, id", event_id)


def enqueue(tx: Tx, agent_id: str, source: Message, body: str) -> str:
    """Make a task of a message for one agent; its pollers are woken at the commit."""
    task_id = ids.task_id()
    tx.run(
        "INSERT INTO tasks (id, agent_id, room_id, source, body, seq, state, until, acked, "
        "extended, attempt, lease_id, greeted, served_seq, placeholder, rejected, answer, "
        "finished) VALUES (?, ?, ?, ?, ?, ?, 'queued', 0, 0, 0, 0, '', 0, 0, '', 0, '', 0)",
        task_id,
        agent_id,
        source.room_id,
        source.event_id,
        body,
        source.seq,
    )
    tx.woken.add(agent_id)
    return task_id


def serve(tx: Tx, agent_id: str, timing: Timing, marker_of: Callable[[Media], str]) -> list[Served]:
    """Lease everything that waits for an identity. ``marker_of`` writes a file's marker out."""
    served = []
    crowds: dict[str, tuple[str, ...]] = {}
    for source in tx.all(_Source, _SOURCES, agent_id, SLICE):
        before = Lease(attempt=source.attempt, greeted=source.greeted)
        lease = leases.serve(before, tx.now, ids.lease_id(), timing)
        _lease(tx, source.id, lease)
        if source.room_id not in crowds:
            crowds[source.room_id] = tuple(m.user_id for m in rooms.members(tx, source.room_id))
        served.append(_envelope(source, lease, crowds[source.room_id], _body(source, marker_of)))
    return served


def _body(source: _Source, marker_of: Callable[[Media], str]) -> str:
    typed = source.body.replace(_TYPED_MARKER, _INERT_MARKER)  # only the relay says what is a file
    if not source.media_id:
        return typed
    media = Media(
        media_id=source.media_id,
        room_id=source.room_id,
        name=source.file_name,
        mime=source.mime,
        size=source.size,
    )
    return "\n\n".join(part for part in (typed, marker_of(media)) if part.strip())


def _envelope(source: _Source, lease: Lease, crowd: tuple[str, ...], body: str) -> Served:
    said = addressing.attest(source.sender, source.owner_id, source.trust, source.member_tier)
    return Served(
        id=source.id,
        task=body,
        channel_id=source.room_id,
        user_id=source.sender,
        access_tier=said.access_tier,
        requested_access_tier=said.requested_access_tier,
        collaborator=said.collaborator,
        sensitive_data_filter=source.sensitive,
        priority="normal",
        timestamp=datetime.fromtimestamp(source.ts, UTC).isoformat(timespec="milliseconds"),
        room_name=source.room_name,
        sender_name=source.sender_name,
        reply_to_event=source.reply_to,
        reply_to_me=source.reply_to_sender == source.agent_id,
        reply_to_sender=source.reply_to_sender,
        source_message_id=source.source,
        room_members=crowd[:64],
        room_member_count=len(crowd),
        attempt=lease.attempt,
        lease_id=lease.lease_id,
    )


def ack(tx: Tx, agent_id: str, task_id: str, lease_id: str) -> Ack:
    """Take an ack; the first one of a task puts the intake reaction on its source."""
    found = task(tx, agent_id, task_id)
    if found is None:
        return Ack.NOT_LEASED
    lease, verdict = leases.ack(_of_row(found), lease_id)
    if verdict in (Ack.FIRST, Ack.AGAIN):
        _keep(tx, task_id, lease)
    if verdict is Ack.FIRST:
        rooms.react(tx, found.room_id, found.source, answers.INTAKE, agent_id)
    return verdict


def release(tx: Tx, agent_id: str, served: list[Served]) -> None:
    """Put back what a poller that went away never got."""
    for item in served:
        before = _lease_of(tx, item.id)
        after = leases.release(before, item.lease_id)
        if after is not before:
            _keep(tx, item.id, after)
            tx.woken.add(agent_id)


def sweep(tx: Tx, agent_id: str, alive: bool, timing: Timing) -> None:
    """Let the lapsed leases of one identity go on, go back or die."""
    lapsed = tx.all(
        TaskRow,
        f"{_TASK} WHERE agent_id = ? AND state = 'leased' AND until <= ? LIMIT ?",
        agent_id,
        tx.now,
        SLICE,
    )
    for row in lapsed:
        after = leases.lapse(_of_row(row), tx.now, alive, timing)
        _keep(tx, row.id, after)
        if after.state is State.QUEUED:
            tx.woken.add(agent_id)
        elif after.state is State.DEAD:
            line = answers.gave_up(timing.attempts)
            close(tx, row, State.DEAD, line)
            notice(tx, row, line)


def close(tx: Tx, row: TaskRow, state: State, answer: str, *, rejected: bool = False) -> None:
    """End a task; its placeholder stops counting as running."""
    tx.run(
        "UPDATE tasks SET state = ?, answer = ?, rejected = ?, finished = ?, acked = 0 "
        "WHERE id = ?",
        state,
        answer,
        int(rejected),
        tx.now,
        row.id,
    )
    for event_id in tx.texts("SELECT event_id FROM messages WHERE task_id = ?", row.id):
        rooms.touched(tx, event_id)
    tx.changed = tx.ended = True


def is_open(body: str) -> bool:
    """Whether a placeholder's message is one still: an answer in it is never written over."""
    return body.startswith((answers.PLACEHOLDER, answers.FAREWELL))


def notice(tx: Tx, row: TaskRow, line: str) -> str:
    """Tell the room how a task ended: in its placeholder, else as a message of its own."""
    placeholder = row.placeholder or tx.text(
        "SELECT event_id FROM messages WHERE room_id = ? AND sender = ? AND placeholder = 1 "
        "AND task_id = '' AND redacted = 0 AND seq > ? ORDER BY seq DESC LIMIT 1",
        row.room_id,
        row.agent_id,
        row.served_seq,
    )
    found = rooms.message(tx, row.room_id, placeholder) if placeholder else None
    if found is None or found.redacted or not is_open(found.body):
        return rooms.post(tx, row.room_id, row.agent_id, line, kind="notice").event_id
    rooms.edit(tx, found, line)
    return found.event_id


def place(tx: Tx, agent_id: str, room_id: str) -> str:
    """The task that a new placeholder of an identity stands for.

    Of those leased without one: the oldest that a worker has acked; else the oldest of the latest
    serving, since an earlier one that nobody acked went to a worker that is gone.
    """
    return tx.text(
        "SELECT t.id FROM tasks t LEFT JOIN messages m ON m.event_id = t.placeholder "
        "WHERE t.agent_id = ? AND t.room_id = ? AND t.state = 'leased' "
        "AND (t.placeholder = '' OR m.seq <= t.served_seq) "
        "ORDER BY CASE WHEN t.placeholder = '' THEN 0 ELSE 1 END, t.acked DESC, "
        "CASE WHEN t.acked = 1 THEN 0 ELSE -t.served_seq END, t.seq LIMIT 1",
        agent_id,
        room_id,
    )


def withdraw(tx: Tx, event_id: str) -> None:
    """End what a message asked for and no worker has been given yet."""
    for row in of_source(tx, event_id):
        if row.state == State.QUEUED:
            close(tx, row, State.DONE, "")
            tx.run("UPDATE tasks SET body = '' WHERE id = ?", row.id)


def abandon(tx: Tx, agent_id: str) -> None:
    """End what an identity that is being removed still owes, aloud."""
    line = answers.removed()
    open_rows = tx.all(
        TaskRow, f"{_TASK} WHERE agent_id = ? AND state IN ('queued', 'leased')", agent_id
    )
    for row in open_rows:
        close(tx, row, State.DEAD, line)
        notice(tx, row, line)


def prune(tx: Tx, timing: Timing) -> int:
    """Forget some tasks that ended before the window, keeping at least the newest ``done_min``."""
    return tx.run(
        "DELETE FROM tasks WHERE id IN (SELECT id FROM tasks WHERE state IN ('done', 'dead') "
        "AND finished < ? AND finished < (SELECT finished FROM tasks "
        "WHERE state IN ('done', 'dead') ORDER BY finished DESC LIMIT 1 OFFSET ?) LIMIT ?)",
        tx.now - timing.done_window_s,
        timing.done_min - 1,
        SLICE,
    )


def expire(tx: Tx, task_id: str, timing: Timing) -> None:
    """For tests: the lease lapses now, as it would without a living worker."""
    row = tx.one(TaskRow, f"{_TASK} WHERE id = ? AND state = 'leased'", task_id)
    if row is not None:
        tx.run("UPDATE tasks SET until = ? WHERE id = ?", tx.now, task_id)
        sweep(tx, row.agent_id, False, timing)


def refresh(tx: Tx, timing: Timing) -> None:
    """At start: time in which the relay was down counts against no lease."""
    tx.run("UPDATE tasks SET until = ? WHERE state = 'leased'", tx.now + timing.visibility_s)


def rewind(tx: Tx, timing: Timing) -> None:
    """After the clock was set back: no lease ends later than a whole window from now."""
    latest = tx.now + timing.visibility_s
    tx.run("UPDATE tasks SET until = ? WHERE state = 'leased' AND until > ?", latest, latest)


def _lease_of(tx: Tx, task_id: str) -> Lease:
    row = tx.one(TaskRow, f"{_TASK} WHERE id = ?", task_id)
    return Lease() if row is None else _of_row(row)


def _of_row(row: TaskRow) -> Lease:
    return Lease(
        state=State(row.state),
        until=row.until,
        acked=row.acked,
        extended=row.extended,
        attempt=row.attempt,
        lease_id=row.lease_id,
        greeted=row.greeted,
    )


def _lease(tx: Tx, task_id: str, lease: Lease) -> None:
    tx.run(
        "UPDATE tasks SET state = 'leased', until = ?, acked = 0, extended = 0, attempt = ?, "
        "lease_id = ?, served_seq = (SELECT value FROM counters WHERE name = 'seq') WHERE id = ?",
        lease.until,
        lease.attempt,
        lease.lease_id,
        task_id,
    )


def _keep(tx: Tx, task_id: str, lease: Lease) -> None:
    tx.run(
        "UPDATE tasks SET state = ?, until = ?, acked = ?, extended = ?, attempt = ?, "
        "lease_id = ?, greeted = ? WHERE id = ?",
        lease.state,
        lease.until,
        int(lease.acked),
        lease.extended,
        lease.attempt,
        lease.lease_id,
        int(lease.greeted),
        task_id,
    )
