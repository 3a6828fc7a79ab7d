"""The journal: every task from acceptance to the broker having its answer. Must not be lost.

``accepted → pending → done``, or ``parked`` where the broker refuses an answer for good
(relay-wire.md §14). Record, then act: each awaited call is on disk when it returns. Reads come from
a copy in memory; what is on disk is only ever added to or explicitly removed. The whole task is
kept in its row until it is answered, so that a restart can run it without the broker's help.
"""

import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import trio

from agentconnect.core.errors import StoreUnreadableError
from agentconnect.core.outcomes import Progress
from agentconnect.core.relay.journal import State
from agentconnect.core.relay.text_out import clean_outgoing
from agentconnect.core.task import Task, TaskId
from agentconnect.store.database import Database, Statements, connect
from agentconnect.store.rows import COLUMNS, SCHEMA, Counts, Entry, Upload, read_entry

DONE_WINDOW = 4096
"""Answered ids remembered, newest first out last: replays of about 500 have been seen."""

_tasks = msgspec.json.Decoder(Task)


class Journal:
    """The tasks of one relay instance. Made by :func:`open_journal`; satisfies ``TaskRecord``."""

    def __init__(
        self,
        database: Database,
        entries: dict[TaskId, Entry],
        worker_id: str,
        wall_now: Callable[[], float],
    ) -> None:
        self.worker_id = worker_id
        self._database = database
        done = State.DONE
        # apart, so that nothing done per task ever walks through the remembered ones
        self._open = {entry.id: entry for entry in entries.values() if entry.state is not done}
        self._done = {entry.id: entry for entry in entries.values() if entry.state is done}
        self._undelivered = sum(entry.undelivered for entry in self._done.values())
        self._wall_now = wall_now

    @property
    def commits(self) -> int:
        """How many commits the writes of this run took."""
        return self._database.commits

    # reading: memory only

    def entry(self, task_id: TaskId) -> Entry | None:
        """What is known of an id. The entry is live: read it, do not change it."""
        return self._open.get(task_id) or self._done.get(task_id)

    def pending(self) -> list[Entry]:
        """Answers whose POST is owed, oldest first."""
        return [entry for entry in self._open.values() if entry.state is State.PENDING]

    def counts(self) -> Counts:
        states = [entry.state for entry in self._open.values()]
        pending = states.count(State.PENDING)
        return Counts(
            inflight=pending + states.count(State.ACCEPTED),
            pending=pending,
            parked=states.count(State.PARKED),
            undelivered=self._undelivered,
            done=len(self._done),
        )

    def progress(self, task_id: TaskId) -> Progress:
        """Where an earlier run (or this one) left a task."""
        entry = self._open.get(task_id)
        if entry is None:
            return Progress()
        return Progress(
            placeholder=entry.placeholder,
            prompted=entry.prompted,
            answer=entry.answer or "",
            answered=entry.answer is not None,
            edited=entry.edited,
        )

    async def unanswered(self) -> list[Task]:
        """Every accepted task without a result, whole, oldest first.

        Raises: StoreUnreadableError.
        """
        rows = await self._database.read(
            "SELECT task FROM tasks WHERE state = 'accepted' AND task IS NOT NULL ORDER BY seq"
        )
        return [_tasks.decode(row[0]) for row in rows if isinstance(row[0], bytes)]

    # writing: durable when it returns

    async def accept(self, tasks: Sequence[Task]) -> None:
        """Take tasks in, all in one commit. Raises: StoreUnreadableError, and none is taken."""
        now = self._wall_now()
        fresh = [
            Entry(id=t.id, state=State.ACCEPTED, room=t.room_id, lease_id=t.lease_id, ts=now)
            for t in tasks
        ]
        statements = [
            (
                "INSERT INTO tasks (id, state, room, lease_id, ts, task) VALUES (?, ?, ?, ?, ?, ?)",
                (t.id, State.ACCEPTED, t.room_id, t.lease_id, now, msgspec.json.encode(t)),
            )
            for t in tasks
        ]
        await self._database.write(
            statements, lambda: self._open.update({entry.id: entry for entry in fresh})
        )

    async def placed(self, task_id: TaskId, event_id: str) -> None:
        """The placeholder is in the room under this event id."""
        await self._set(task_id, placeholder=event_id)

    async def prompted(self, task_id: TaskId) -> None:
        """The agent is about to be prompted.

        On disk a moment later: a restart runs an unanswered task again either way.
        """
        self._set_later(task_id, prompted=True)
        await trio.lowlevel.checkpoint()

    async def answered(self, task_id: TaskId, answer: str) -> None:
        """The final text, before it is edited into the room."""
        await self._set(task_id, answer=clean_outgoing(answer))

    async def edited(self, task_id: TaskId) -> None:
        """The final edit is in the room.

        On disk with the result that follows: what a crash loses is a repeat of the same edit.
        """
        self._set_later(task_id, edited=True)
        await trio.lowlevel.checkpoint()

    async def record_upload(self, task_id: TaskId, upload: Upload) -> None:
        """A file is about to be posted, or has been: the newer record of a path replaces it."""
        entry = self._open.get(task_id)
        if entry is not None:
            others = (u for u in entry.uploads if u.path != upload.path)
            await self._set_uploads(entry, (*others, upload))

    async def drop_upload(self, task_id: TaskId, path: str) -> None:
        """The file surely did not arrive."""
        entry = self._open.get(task_id)
        if entry is not None:
            await self._set_uploads(entry, tuple(u for u in entry.uploads if u.path != path))

    async def record_result(self, task_id: TaskId, result: str, *, room: str = "") -> None:
        """The answer to post; from here on the task is never run again."""
        old = self.entry(task_id)
        entry = Entry(
            id=task_id,
            state=State.PENDING,
            room=old.room if old else room,
            lease_id=old.lease_id if old else "",
            ts=self._wall_now(),
            result=clean_outgoing(result),
            uploads=old.uploads if old else (),
        )

        def applied() -> None:
            self._forget(task_id)
            self._open[task_id] = entry

        await self._database.write(
            [
                (
                    "INSERT INTO tasks (id, state, room, ts, result) VALUES (?, ?, ?, ?, ?)"
                    " ON CONFLICT (id) DO UPDATE SET state = excluded.state, ts = excluded.ts,"
                    " result = excluded.result, task = NULL, answer = NULL, error = '',"
                    " undelivered = 0",
                    (task_id, State.PENDING, entry.room, entry.ts, entry.result),
                )
            ],
            applied,
        )

    # writing that nobody waits for: memory at once, disk soon

    def retire(self, task_id: TaskId, *, undelivered: bool = False) -> None:
        """The broker has the answer. An undelivered one keeps its text until it is trimmed."""
        old = self._open.pop(task_id, None)
        kept = old.result if old and undelivered else ""
        now = self._wall_now()
        self._forget(task_id)
        self._done[task_id] = Entry(
            id=task_id, state=State.DONE, ts=now, result=kept, undelivered=undelivered
        )
        self._undelivered += undelivered
        statements: list[tuple[str, Sequence[object]]] = [
            # a new seq, so that the window on disk is in the order of the answers
            ("DELETE FROM tasks WHERE id = ?", (task_id,)),
            (
                "INSERT INTO tasks (id, state, ts, result, undelivered) VALUES (?, ?, ?, ?, ?)",
                (task_id, State.DONE, now, kept, int(undelivered)),
            ),
        ]
        while len(self._done) > DONE_WINDOW:
            oldest = next(iter(self._done))
            self._forget(oldest)
            statements.append(("DELETE FROM tasks WHERE id = ?", (oldest,)))
        self._database.write_later(statements)

    def park(self, task_id: TaskId, error: str) -> None:
        """The broker refuses this answer for good: kept, shown, no longer in flight."""
        self._restate(task_id, State.PARKED, error)

    def unpark(self, task_id: TaskId) -> None:
        """Try a parked answer once more."""
        self._restate(task_id, State.PENDING, "")

    # inside

    def _forget(self, task_id: TaskId) -> None:
        done = self._done.pop(task_id, None)
        if done is not None:
            self._undelivered -= done.undelivered

    def _restate(self, task_id: TaskId, state: State, error: str) -> None:
        entry = self._open.get(task_id)
        if entry is None:
            return
        entry.state, entry.error = state, error
        self._database.write_later(
            [("UPDATE tasks SET state = ?, error = ? WHERE id = ?", (state, error, task_id))]
        )

    async def _set_uploads(self, entry: Entry, uploads: tuple[Upload, ...]) -> None:
        def applied() -> None:
            entry.uploads = uploads

        text = msgspec.json.encode([msgspec.structs.asdict(upload) for upload in uploads])
        await self._database.write(
            [("UPDATE tasks SET uploads = ? WHERE id = ?", (text.decode(), entry.id))], applied
        )

    async def _set(self, task_id: TaskId, **values: str | bool) -> None:
        """Update a column of a row this journal holds; an id it does not hold is no error."""
        entry = self._open.get(task_id)
        if entry is None:
            return

        def applied() -> None:
            _apply(entry, values)

        await self._database.write(_update(task_id, values), applied)

    def _set_later(self, task_id: TaskId, **values: str | bool) -> None:
        entry = self._open.get(task_id)
        if entry is not None:
            _apply(entry, values)
            self._database.write_later(_update(task_id, values))


def _apply(entry: Entry, values: Mapping[str, str | bool]) -> None:
    for column, value in values.items():
        setattr(entry, column, value)


def _update(task_id: TaskId, values: Mapping[str, str | bool]) -> Statements:
    return [
        (f"UPDATE tasks SET {column} = ? WHERE id = ?", (value, task_id))  # noqa: S608 - ours
        for column, value in values.items()
    ]


@asynccontextmanager
async def open_journal(
    path: Path, *, wall_now: Callable[[], float] = time.time
) -> AsyncIterator[Journal]:
    """Open the journal, made if it is missing; its writer lives in this context.

    Raises: StoreUnreadableError if a journal is there that cannot be used: do not poll then.
    """
    database = Database(path, await trio.to_thread.run_sync(connect, path, SCHEMA))
    try:
        entries = await _load(database)
    except BaseException:
        await _run_out(database)
        raise
    failure: Exception | None = None
    async with trio.open_nursery() as writer:
        writer.start_soon(database.run)
        try:
            yield Journal(database, entries, await _worker_id(database), wall_now)
        except Exception as error:  # noqa: BLE001 - raised again, outside the group
            failure = error
        finally:
            database.close()
    if failure is not None:
        raise failure


async def _load(database: Database) -> dict[TaskId, Entry]:
    rows = await database.read(f"SELECT {COLUMNS} FROM tasks ORDER BY seq")  # noqa: S608 - ours
    entries: dict[TaskId, Entry] = {}
    for row in rows:
        try:
            entry = read_entry(row)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise StoreUnreadableError(
                f"{database.path} holds a row this version cannot read"
            ) from error
        entries[entry.id] = entry
    return entries


async def _worker_id(database: Database) -> str:
    """The random name that keyed posts are made under; minted with the journal itself."""
    rows = await database.read("SELECT value FROM meta WHERE name = 'worker_id'")
    if rows and isinstance(rows[0][0], str):
        return rows[0][0]
    minted = secrets.token_hex(16)
    await database.write(
        [("INSERT INTO meta (name, value) VALUES ('worker_id', ?)", (minted,))], lambda: None
    )
    return minted


async def _run_out(database: Database) -> None:
    database.close()
    await database.run()
