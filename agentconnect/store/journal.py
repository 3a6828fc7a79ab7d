"""The journal: every task from acceptance to the broker having its answer. Must not be lost.

``accepted → pending → done``, or ``parked`` where the broker refuses an answer for good
(relay-wire.md §14). Record, then act: each awaited call is on disk when it returns. Reads come from
a copy in memory; what is on disk is only ever added to or explicitly removed. The whole task is
kept in its row until it is answered, so that a restart can run it without the broker's help.
"""

import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import trio

from agentconnect.core.outcomes import Progress
from agentconnect.core.relay.journal import State, in_flight
from agentconnect.core.surrogates import replace_surrogates
from agentconnect.core.task import Task, TaskId
from agentconnect.store.database import Database, Statements
from agentconnect.store.debts import Debts, load_debts
from agentconnect.store.legacy import import_legacy
from agentconnect.store.rows import SCHEMA, Counts, Entry, Upload, load_entries, worker_id
from agentconnect.store.sqlite_file import connect

DONE_WINDOW = 4096
"""Answered ids remembered, newest first out last: replays of about 500 have been seen."""

_tasks = msgspec.json.Decoder(Task)
_paths = msgspec.json.Decoder(tuple[str, ...])
_ACCEPT = "INSERT INTO tasks (id, state, room, lease_id, ts, task) VALUES (?, ?, ?, ?, ?, ?)"

log = logging.getLogger("agentconnect.store")


class Journal:
    """The tasks of one relay instance. Made by :func:`open_journal`; satisfies ``TaskRecord``."""

    def __init__(
        self,
        database: Database,
        entries: dict[TaskId, Entry],
        worker_id: str,
        debts: Debts,
        wall_now: Callable[[], float],
    ) -> None:
        self.worker_id = worker_id
        self.debts = debts
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
        return Counts(
            inflight=in_flight(states),
            pending=states.count(State.PENDING),
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
            starts=entry.starts,
            answer=entry.answer or "",
            answered=entry.answer is not None,
            edited=entry.edited,
            files=_paths.decode(entry.files) if entry.files else (),
        )

    def accepted(self) -> list[Entry]:
        """Tasks that are owed an answer, oldest first."""
        return [entry for entry in self._open.values() if entry.state is State.ACCEPTED]

    async def unanswered(self) -> list[Task]:
        """Every accepted task without a result, whole, oldest first, under its newest lease.

        One that cannot be read any more counts as stranded. Raises: StoreUnreadableError.
        """
        rows = await self._database.read(
            "SELECT id, lease_id, task FROM tasks"
            " WHERE state = 'accepted' AND task IS NOT NULL ORDER BY seq"
        )
        tasks: list[Task] = []
        for task_id, lease_id, blob in rows:
            try:
                task = _tasks.decode(blob if isinstance(blob, bytes) else b"")
            except (msgspec.DecodeError, msgspec.ValidationError):
                log.exception("task %s: its record cannot be read", task_id)
                if entry := self._open.get(TaskId(str(task_id))):
                    entry.whole = False
                continue
            tasks.append(msgspec.structs.replace(task, lease_id=str(lease_id)))
        return tasks

    # writing: durable when it returns

    async def accept(self, tasks: Sequence[Task]) -> None:
        """Take tasks in, all in one commit. Raises: StoreUnreadableError, and none is taken."""
        now = self._wall_now()
        fresh = [
            Entry(
                id=t.id,
                state=State.ACCEPTED,
                room=t.room_id,
                lease_id=t.lease_id,
                ts=now,
                whole=True,
            )
            for t in tasks
        ]
        statements: list[tuple[str, tuple[object, ...]]] = []
        for t in tasks:
            if self.stranded(t.id):
                statements.append(("DELETE FROM tasks WHERE id = ?", (t.id,)))
            values = (t.id, State.ACCEPTED, t.room_id, t.lease_id, now, msgspec.json.encode(t))
            statements.append((_ACCEPT, values))
        await self._database.write(
            statements, lambda: self._open.update({entry.id: entry for entry in fresh})
        )

    def stranded(self, task_id: TaskId) -> bool:
        """Accepted by a run that kept no task of it: it can only be served again."""
        entry = self._open.get(task_id)
        return entry is not None and entry.state is State.ACCEPTED and not entry.whole

    async def take_up(self) -> list[Task]:
        """:meth:`unanswered`, for running: a run that a process took with it is counted first."""
        tasks = await self.unanswered()
        begun = [entry for t in tasks if (entry := self._open.get(t.id)) is not None]

        def applied() -> None:
            for entry in begun:
                entry.starts += entry.prompted
                entry.prompted, entry.taken_up = False, True

        if any(entry.prompted for entry in begun):
            again = "UPDATE tasks SET starts = starts + 1, prompted = 0 WHERE prompted = 1"
            await self._database.write([(f"{again} AND state = 'accepted'", ())], applied)
        else:
            applied()
        return tasks

    def leased(self, task_id: TaskId, lease_id: str) -> None:
        """The task was served again, under a newer lease."""
        entry = self._open.get(task_id)
        if entry is not None and lease_id and entry.lease_id != lease_id:
            self._set_later(task_id, lease_id=lease_id)

    async def placed(self, task_id: TaskId, event_id: str) -> None:
        """The placeholder is in the room under this event id.

        On disk in a moment: an answer that is nearly there shares the commit.
        """
        self._set_later(task_id, placeholder=event_id)

    async def prompted(self, task_id: TaskId) -> None:
        """The agent is about to be prompted.

        On disk a moment later: a restart runs an unanswered task again either way. Of a task that
        was taken up it is on disk first, so that one which ends its process is counted.
        """
        entry = self._open.get(task_id)
        if entry is not None and entry.taken_up:
            await self._set(task_id, prompted=True)
            return
        self._set_later(task_id, prompted=True)

    async def answered(self, task_id: TaskId, answer: str, files: Sequence[str] = ()) -> None:
        """The final text, before it is edited into the room, and the files it brings by list."""
        paths = [replace_surrogates(path) for path in files]
        listed = msgspec.json.encode(paths).decode() if paths else ""
        await self._set(task_id, answer=replace_surrogates(answer), files=listed)

    async def edited(self, task_id: TaskId) -> None:
        """The final edit is in the room.

        On disk with the result that follows: what a crash loses is a repeat of the same edit.
        """
        self._set_later(task_id, edited=True)

    async def owe(self, room: str, event_id: str, text: str) -> None:
        """A placeholder is owed this text until it shows it; see ``debts``."""
        await self.debts.owe(room, event_id, text)

    def paid(self, event_id: str) -> None:
        """It shows it."""
        self.debts.paid(event_id)

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
            result=replace_surrogates(result),
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
                    " result = excluded.result, task = NULL, answer = NULL, files = '', error = '',"
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
        statements: list[tuple[str, tuple[object, ...]]] = [
            (
                # the row anew, under a new seq: the window on disk is in the order of the answers
                "INSERT OR REPLACE INTO tasks (id, state, ts, result, undelivered)"
                " VALUES (?, ?, ?, ?, ?)",
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
    columns = ", ".join(f"{column} = ?" for column in values)
    return [(f"UPDATE tasks SET {columns} WHERE id = ?", (*values.values(), task_id))]  # noqa: S608 - ours


@asynccontextmanager
async def open_journal(
    path: Path, *, legacy: Path | None = None, wall_now: Callable[[], float] = time.time
) -> AsyncIterator[Journal]:
    """Open the journal, made if it is missing; its writer lives in this context.

    ``legacy``: the reference client's file; if it is there it is imported first, once.

    Raises: StoreUnreadableError if a journal is there that cannot be used: do not poll then.
    """
    database = Database(path, await trio.to_thread.run_sync(connect, path, SCHEMA))
    failure: Exception | None = None
    async with trio.open_nursery() as writer:
        writer.start_soon(database.run)
        try:
            if legacy is not None:
                await import_legacy(database, legacy)
            entries = await load_entries(database)
            debts = await load_debts(database, wall_now)
            yield Journal(database, entries, await worker_id(database), debts, wall_now)
        except Exception as error:  # noqa: BLE001 - raised again, outside the group
            failure = error
        finally:
            database.close()
    if failure is not None:
        raise failure
