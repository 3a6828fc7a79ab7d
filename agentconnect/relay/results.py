"""From an answer to a recorded result: markers, files, journal, then the outbox (relay-wire.md §9).

Files go out before the result, because a refusal must be said in the answer. A file is recorded
before it is posted and after, and posted under a key where the relay takes keys, so a crash or a
lost response never shows it twice. Exactly one result per task; it is on disk before it is posted.
"""

import base64
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import trio

from agentconnect.core.errors import InvariantError
from agentconnect.core.outcomes import OpResult
from agentconnect.core.relay.envelope import upload_filename
from agentconnect.core.relay.journal import State
from agentconnect.core.relay.prepared import (
    FileOutcome,
    ResultPayload,
    answer_payload,
    answer_problem,
    plan,
    prepare,
    reject_payload,
)
from agentconnect.core.relay.refusals import refusal_words
from agentconnect.core.surrogates import replace_surrogates
from agentconnect.core.task import Task, TaskId
from agentconnect.relay.capabilities import Capabilities
from agentconnect.relay.egress import Egress, Refusal
from agentconnect.relay.http import to_json
from agentconnect.relay.outbox import Outbox
from agentconnect.relay.pictures import Pictures
from agentconnect.relay.roomops import RoomOps
from agentconnect.store.journal import Journal
from agentconnect.store.rows import Upload

log = logging.getLogger("agentconnect.relay")


Inspect = Callable[[str, bytes], str]


class _File(msgspec.Struct, frozen=True, kw_only=True):
    """An approved file as it will be posted."""

    path: str
    sha256: str
    name: str
    request: bytes


class Results:
    """Satisfies the turns' ``ResultPort``."""

    def __init__(
        self,
        journal: Journal,
        outbox: Outbox,
        rooms: RoomOps,
        capabilities: Capabilities,
        egress: Egress,
        pictures: Pictures,
        *,
        release: Callable[[TaskId], Awaitable[None]],
    ) -> None:
        self._journal = journal
        self._outbox = outbox
        self._rooms = rooms
        self._capabilities = capabilities
        self._egress = egress
        self._pictures = pictures
        self._release = release

    async def complete(
        self,
        task: Task,
        body: str,
        *,
        base_dir: str,
        files: Sequence[str] = (),
        inspect: Inspect | None = None,
    ) -> None:
        """Read markers, send the files they name, record the result; the outbox posts it.

        ``files`` are further ones, by path, judged like those of markers; markers come first.
        ``inspect``: why an approved file (its name, its content) is not sent; ``""``: it is.
        Raises: InvariantError for a blank body (silence is ``[no-send]``); StoreUnreadableError
        where the result cannot be recorded: nothing was posted then.
        """
        problem = answer_problem(task.id, body)
        if problem and not (problem == "blank" and files):
            raise InvariantError(f"task {task.id}: this answer cannot be taken ({problem})")
        if self._answered(task.id):
            return
        planned = plan(replace_surrogates(body), [replace_surrogates(path) for path in files])
        room = planned.parsed.redirect or task.room_id
        outcomes = [
            await self._send_file(task, room, action.value, base_dir, inspect)
            for action in planned.wanted
        ]
        prepared = prepare(planned, outcomes)
        await self._record(task, answer_payload(task.id, prepared))

    async def reject(self, task: Task, reason: str) -> None:
        """Dead-letter the task; the broker posts the failure notice.

        Raises: StoreUnreadableError where that cannot be recorded.
        """
        if self._answered(task.id):
            return
        await self._record(task, reject_payload(task.id, reason))

    def _answered(self, task_id: TaskId) -> bool:
        entry = self._journal.entry(task_id)
        if entry is None:
            log.warning("task %s is answered without having been taken in", task_id)
            return False
        if entry.state is State.ACCEPTED:
            return False
        log.warning("task %s has an answer already: the second one is not sent", task_id)
        return True

    async def _record(self, task: Task, payload: ResultPayload) -> None:
        text = msgspec.json.encode(payload).decode()
        await self._journal.record_result(task.id, text, room=task.room_id)
        self._outbox.post(task.id)
        await self._release(task.id)
        await self._pictures.release(task.id)

    async def _send_file(
        self, task: Task, room: str, path: str, base_dir: str, inspect: Inspect | None
    ) -> FileOutcome:
        file = await trio.to_thread.run_sync(self._approve, task.id, path, base_dir, inspect)
        if isinstance(file, FileOutcome):
            return file
        earlier = self._earlier(task.id, file.path)
        if earlier is not None and earlier.sent:
            return FileOutcome(ok=True, filename=earlier.name)
        keyed = await self._capabilities.keyed()
        if earlier is not None and not keyed:
            return FileOutcome(ok=False, reason=refusal_words("maybe"))
        upload = Upload(path=file.path, sha256=file.sha256, name=file.name)
        await self._journal.record_upload(task.id, upload)
        key = self._key(task.id, file) if keyed else ""
        result = await self._rooms.upload(room, file.request, key=key)
        if not result.ok:
            if not result.maybe_sent:
                await self._journal.drop_upload(task.id, file.path)
            return FileOutcome(ok=False, reason=refusal_words(_code(result)))
        sent = msgspec.structs.replace(upload, sent=True, event_id=result.event_id)
        await self._journal.record_upload(task.id, sent)
        return FileOutcome(ok=True, filename=file.name)

    def _approve(
        self, task_id: TaskId, path: str, base_dir: str, inspect: Inspect | None
    ) -> _File | FileOutcome:
        """Judge, read and wrap a file; blocking."""
        found = self._egress.read(path, base_dir, own=self._pictures.folder_of(task_id))
        if isinstance(found, Refusal):
            words = refusal_words(found.code, size=found.size, limit=found.limit)
            return FileOutcome(ok=False, reason=words)
        name = upload_filename(found.path)
        if inspect is not None and (why := inspect(found.path, found.content)):
            return FileOutcome(ok=False, reason=why)
        content = base64.b64encode(found.content).decode("ascii")
        return _File(
            path=found.path,
            sha256=hashlib.sha256(found.content).hexdigest(),
            name=name,
            request=to_json({"content_b64": content, "filename": name}),
        )

    def _earlier(self, task_id: TaskId, path: str) -> Upload | None:
        entry = self._journal.entry(task_id)
        uploads = entry.uploads if entry else ()
        return next((upload for upload in uploads if upload.path == path), None)

    def _key(self, task_id: TaskId, file: _File) -> str:
        """By content, so that a turn run again after a crash finds its own post.

        Equal bytes under a second name in one answer are a post of their own.
        """
        entry = self._journal.entry(task_id)
        same = [u for u in entry.uploads if u.sha256 == file.sha256] if entry else []
        index = next((i for i, upload in enumerate(same) if upload.path == file.path), 0)
        part = f"{file.sha256}/{index}" if index else file.sha256
        return self._capabilities.key(f"task/{task_id}", part)


def _code(result: OpResult) -> str:
    if result.reason == "room_unknown":
        return "room_unknown"
    if result.cooling_s:
        return "unreachable"
    return "maybe" if result.maybe_sent else "refused"
