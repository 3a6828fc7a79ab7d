"""Files in: what a task's markers name, fetched beside the poll into our own folder.

Nothing but the relay's own base is fetched (any member can write a marker), and what the owner's
list of origins names: that without the bearer, at public addresses only. With bounds on
count, bytes and time, so a task is handed over with what could be had and a reason for the rest
(relay-wire.md §12). Our names, our folder, deleted when the task is answered.
"""

import contextlib
import logging
import os
import secrets
from pathlib import Path

import trio

from agentconnect.core.errors import AuthRejectedError, RelayError
from agentconnect.core.relay.media import clean_mime, is_listed, on_disk, origin
from agentconnect.core.task import Attachment, MediaMarker, Task, TaskId
from agentconnect.relay.http import Call, Http

log = logging.getLogger("agentconnect.relay")

FILE_MAX_BYTES = 25 * 1024 * 1024
TASK_MAX_BYTES = 100 * 1024 * 1024
TASK_MAX_FILES = 10
TASK_WITHIN_S = 300.0
AT_ONCE = 4
ATTEMPTS, ATTEMPT_PAUSE_S = 2, 1.0
STALL_S, WITHIN_S = 30.0, 120.0


class Media:
    """The fetcher and the folder."""

    def __init__(self, http: Http, folder: Path, origins: tuple[str, ...] = ()) -> None:
        self._http = http
        self._origins = origins
        self._folder = folder
        self._slots = trio.CapacityLimiter(AT_ONCE)
        self._files: dict[TaskId, list[Path]] = {}

    async def sweep(self) -> None:
        """Delete what an earlier run left. Only once the guard is held. Never raises."""
        await trio.to_thread.run_sync(_sweep, self._folder)

    async def release(self, task_id: TaskId) -> None:
        """The task is answered: its files are not needed any more. Never raises."""
        files = self._files.pop(task_id, None)
        if files:
            await trio.to_thread.run_sync(_delete, files)

    async def fetch(self, task: Task) -> tuple[Attachment, ...]:
        """One attachment per marker, fetched or with a reason; bounded as a whole."""
        done: list[Attachment] = []
        with trio.move_on_after(TASK_WITHIN_S):
            for index, marker in enumerate(task.media):
                spent = sum(attachment.size for attachment in done if attachment.ok)
                if index >= TASK_MAX_FILES:
                    done.append(_failed(marker, f"more than {TASK_MAX_FILES} files in one message"))
                else:
                    done.append(await self._fetch_one(task.id, marker, TASK_MAX_BYTES - spent))
        done += [_failed(marker, "unreachable (out of time)") for marker in task.media[len(done) :]]
        return tuple(done)

    async def _fetch_one(self, task_id: TaskId, marker: MediaMarker, left: int) -> Attachment:
        ours = origin(marker.url, self._http.base)[1]
        if not ours and not is_listed(marker.url, self._origins):
            return _failed(marker, "unfetchable")
        call = Call(
            url=marker.url,
            accept="*/*",
            within_s=WITHIN_S,
            stall_s=STALL_S,
            answer_bytes=min(FILE_MAX_BYTES, left),
            overflow=True,
            with_bearer=ours,
        )
        reason = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                await trio.sleep(ATTEMPT_PAUSE_S)
            try:
                async with self._slots:
                    answer = await self._http.send(call)
            except AuthRejectedError as error:
                status = f"unreachable (HTTP {error.status})"
                return _failed(marker, "bearer refused" if ours else status)
            except RelayError as error:
                log.info("task %s: attachment: %s", task_id, error)
                reason = f"unreachable (HTTP {error.status})" if error.status else "unreachable"
                continue
            if not answer.whole:
                return _failed(marker, "too large")
            return await self._save(task_id, marker, answer.body, clean_mime(answer.mime))
        return _failed(marker, reason)

    async def _save(
        self, task_id: TaskId, marker: MediaMarker, content: bytes, mime: str
    ) -> Attachment:
        mime = mime or marker.mime or "application/octet-stream"
        stem, extension = on_disk(marker.name, mime)
        path = self._folder / f"{stem}-{secrets.token_hex(8)}{extension}"
        self._files.setdefault(task_id, []).append(path)
        try:
            await trio.to_thread.run_sync(_write_new, path, content)
        except OSError as error:
            log.warning("task %s: an attachment could not be saved: %s", task_id, error.strerror)
            return _failed(marker, "could not be saved")
        return Attachment(
            path=str(path),
            mime=mime,
            name=marker.name,
            kind=marker.kind,
            size=len(content),
            ok=True,
        )


def _failed(marker: MediaMarker, reason: str) -> Attachment:
    return Attachment(
        mime=marker.mime or "application/octet-stream",
        name=marker.name,
        kind=marker.kind,
        size=marker.size,
        reason=reason,
    )


def _write_new(path: Path, content: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


def _delete(files: list[Path]) -> None:
    for file in files:
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)


def _sweep(folder: Path) -> None:
    """Plain files of this one folder; no link is followed and nothing is recursive."""
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _delete([entry for entry in folder.iterdir() if entry.is_symlink() or entry.is_file()])
