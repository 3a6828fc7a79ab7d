"""What a message sets off: tasks for the agents it addresses, and the concierge's replies.

Units of work over :mod:`rooms` and :mod:`tasks`; who is meant and at which tier is decided in
:mod:`addressing`, what the concierge says in :mod:`concierge`.
"""

from collections.abc import Sequence

from agentconnect.core.relay.text_out import chunks
from agentconnect.core.surrogates import replace_surrogates
from agentconnect.embedded import addressing, answers, concierge, ids, people, rooms, tasks
from agentconnect.embedded.answers import Verdict
from agentconnect.embedded.leases import State
from agentconnect.embedded.records import Kind, Media, Member, Message, Room, TaskRow
from agentconnect.embedded.store import Tx


def say(
    tx: Tx,
    room: Room,
    sender: str,
    body: str,
    *,
    reply_to: str = "",
    media: Media | None = None,
    also: Sequence[str] = (),
) -> Message:
    """Post a message of a person or an agent and set off what it asks for."""
    body = replace_surrogates(body)
    placed = body.strip() == answers.PLACEHOLDER
    task_id = tasks.place(tx, sender, room.room_id) if placed else ""
    posted = rooms.post(
        tx,
        room.room_id,
        sender,
        body,
        reply_to=reply_to,
        task_id=task_id,
        placeholder=placed,
        kind="text" if media is None else "file",
        media_id=media.media_id if media else "",
    )
    if task_id:
        tx.run("UPDATE tasks SET placeholder = ? WHERE id = ?", posted.event_id, task_id)
    present = rooms.members(tx, room.room_id)
    me = next((m for m in present if m.user_id == sender), None)
    if me is not None and me.kind is Kind.PERSON:
        rooms.mark_read(tx, room.room_id, sender, posted.seq, tell=False)
        _concierge(tx, room, present, me, body)
    asked = (
        ""
        if not reply_to
        else tx.text(
            "SELECT sender FROM messages WHERE event_id = ? AND room_id = ?", reply_to, room.room_id
        )
    )
    for agent in addressing.addressed(body, present, me, asked, also):
        tasks.enqueue(tx, agent, posted, body)
    return posted


def _concierge(tx: Tx, room: Room, present: Sequence[Member], sender: Member, body: str) -> None:
    said = concierge.command(body)
    me = ids.user_id(ids.CONCIERGE, tx.domain)
    if not any(m.kind is Kind.CONCIERGE for m in present):
        if said is not None:
            rooms.post(tx, room.room_id, me, concierge.pointer(me), kind="notice")
        return
    reply = concierge.GREETING if said is None else _carry_out(tx, sender.user_id, said)
    rooms.post(tx, room.room_id, me, reply)


def _carry_out(tx: Tx, owner_id: str, said: concierge.Command) -> str:
    agents = [agent.user_id for agent in people.agents_of(tx, owner_id)]
    if not agents:
        return concierge.powerless()
    if said.user_id == owner_id:
        return concierge.yourself()
    if people.user(tx, said.user_id) is None:
        return concierge.unknown(said)
    people.set_trust(tx, owner_id, [said.user_id], concierge.level_of(said.verb))
    for room_id in tx.texts("SELECT room_id FROM members WHERE user_id = ?", said.user_id):
        rooms.log(tx, room_id, "room")
    return concierge.done(said, agents)


def finish(tx: Tx, agent_id: str, task_id: str, body: str) -> str:
    """Take a task's answer: ``done``, ``duplicate`` or ``undelivered``. Idempotent by id."""
    row = _open_task(tx, agent_id, task_id)
    if isinstance(row, str):
        return row
    verdict = answers.judge(body)
    tasks.close(tx, row, State.DONE, "")
    answer = verdict.text or verdict.archive
    if verdict.notice:
        tasks.notice(tx, row, answers.failure(verdict.notice))
        answer = answers.failure(verdict.notice)
    elif verdict.text:
        _deliver(tx, row, verdict)
    elif not answer and row.placeholder:
        answer = tx.text("SELECT body FROM messages WHERE event_id = ?", row.placeholder)
    tx.run("UPDATE tasks SET answer = ? WHERE id = ?", answer, task_id)
    return "done"


def _open_task(tx: Tx, agent_id: str, task_id: str) -> TaskRow | str:
    """A task that has no end yet, else what its end says of another one."""
    row = tasks.task(tx, agent_id, task_id)
    if row is None:
        return "undelivered"
    if row.state in (State.DONE, State.DEAD):
        return "duplicate" if row.state == State.DONE or row.rejected else "undelivered"
    return row


def _deliver(tx: Tx, row: TaskRow, verdict: Verdict) -> None:
    room = rooms.get(tx, verdict.room_id, row.agent_id) if verdict.room_id else None
    if room is None:  # not joined there: back where it was asked, without the marker
        room = rooms.get(tx, row.room_id, row.agent_id)
    if room is None:  # the room is gone or the identity left it: the id is done all the same
        return
    for piece in chunks(verdict.text):
        say(tx, room, row.agent_id, piece)


def reject(tx: Tx, agent_id: str, task_id: str, code: str) -> str:
    """Dead-letter a task: ``rejected``, ``duplicate`` or ``undelivered``."""
    row = _open_task(tx, agent_id, task_id)
    if isinstance(row, str):
        return row
    line = answers.rejected(code)
    tasks.close(tx, row, State.DEAD, line, rejected=True)
    tasks.notice(tx, row, line)
    return "rejected"
