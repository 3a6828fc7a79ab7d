"""Pictures that an agent produced inline: ours until their answer is recorded (worker.md §18).

The agent's side writes them below a folder of the task's own; this says where that is, so that they
may be sent although they lie in the state folder, and removes them. Never raises for the disk.
"""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import trio

from agentconnect.core.relay.envelope import is_wire_id
from agentconnect.core.task import TaskId

log = logging.getLogger("agentconnect.relay")


class Pictures:
    """The folder of all tasks' pictures; None where there is none."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def folder_of(self, task_id: TaskId) -> str:
        """Where this task's pictures are; ``""``: nowhere."""
        return str(self._folder / task_id) if self._folder and is_wire_id(task_id) else ""

    async def release(self, task_id: TaskId) -> None:
        """The answer is recorded, its files are sent: they are not needed any more."""
        folder = self._made(task_id)
        if folder is not None:  # seldom: an answered task costs one stat, no thread
            await trio.to_thread.run_sync(_remove, folder)

    def _made(self, task_id: TaskId) -> Path | None:
        folder = self.folder_of(task_id)
        return Path(folder) if folder and Path(folder).is_dir() else None

    async def sweep(self, wanted: Callable[[TaskId], bool]) -> None:
        """Remove what earlier runs left of tasks that nobody wants any more."""
        if self._folder is not None:
            await trio.to_thread.run_sync(_sweep, self._folder, wanted)


def _sweep(folder: Path, wanted: Callable[[TaskId], bool]) -> None:
    try:
        found = [entry for entry in folder.iterdir() if not wanted(TaskId(entry.name))]
    except OSError:
        return
    for entry in found:
        _remove(entry)


def _remove(folder: Path) -> None:
    """A link or a file in the folder's place goes itself; nothing behind a link is touched."""
    if folder.is_symlink() or not folder.is_dir():
        try:
            folder.unlink(missing_ok=True)
        except OSError as error:
            _complain(None, str(folder), error)
        return
    shutil.rmtree(folder, onerror=_complain)


def _complain(_what: object, path: str, error: object) -> None:
    log.warning("a picture of an answered task could not be removed: %s", path)
