"""``scheduled_tasks.json``: the scheduled tasks of one workspace (channel-delivery.md §7.2).

Class: must not be lost. A file that does not parse, or holds one malformed task, is an error and
never an empty list: nothing fires, and it is not written over.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import trio

from agentconnect.core.daemon.tasks import Task, decode_tasks, encode_tasks
from agentconnect.core.errors import StoreUnreadableError
from agentconnect.store.atomic import fsync_folder, read_file, write_file


class ScheduleFile:
    """The file of one workspace. One writer: :meth:`change` reads, asks and writes under a lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing = trio.Lock()

    async def load(self) -> tuple[Task, ...]:
        """The tasks; none where there is no file. Raises: StoreUnreadableError."""
        return await trio.to_thread.run_sync(self._load)

    async def change(
        self, rule: Callable[[tuple[Task, ...]], Sequence[Task] | None]
    ) -> tuple[Task, ...]:
        """Replace the tasks by what ``rule`` makes of them; None leaves the file alone.

        What is returned is what the file holds, for good. ``rule`` runs on the loop. Raises:
        StoreUnreadableError, OSError; nothing has changed then. Cancellation: a write that has
        begun is finished.
        """
        async with self._writing:
            before = await self.load()
            wanted = rule(before)
            if wanted is None:
                return before
            after = tuple(wanted)
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._save, after)
            return after

    def _load(self) -> tuple[Task, ...]:
        data = read_file(self._path)
        try:
            return () if data is None else decode_tasks(data)
        except ValueError as error:  # its text may quote the file: only its kind is told
            raise StoreUnreadableError(
                f"{self._path} holds no readable list of scheduled tasks. Nothing is run from it;"
                " mend it, or move it away to begin with none."
            ) from error

    def _save(self, tasks: tuple[Task, ...]) -> None:
        folder = self._path.parent
        if not folder.is_dir():
            folder.parent.mkdir(mode=0o700, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            fsync_folder(folder.parent)
            fsync_folder(folder.parent.parent)
        write_file(self._path, encode_tasks(tasks))
