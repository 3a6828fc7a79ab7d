"""What the turns need of the relay and the journal, as seams for tests and for ``app``."""

from collections.abc import Sequence
from typing import Protocol

from agentconnect.core.outcomes import OpResult, Progress
from agentconnect.core.task import Task, TaskId
from agentconnect.core.turns.guard import Inspect


class RoomPort(Protocol):
    """The room ops a turn uses. None of them raises for a failure of the relay."""

    def cooling(self, room_id: str) -> float:
        """Seconds for which ops in this room would be refused without asking; 0.0 = none."""
        ...

    async def message(
        self, room_id: str, body: str, *, mentions: Sequence[str] = (), key: str = ""
    ) -> OpResult:
        """Post one message; with ``key`` it is retry-safe where the relay offers keyed posts."""
        ...

    async def edit(
        self, room_id: str, event_id: str, body: str, *, mentions: Sequence[str] = ()
    ) -> OpResult:
        """Replace a message's text (≤ 4000 characters)."""
        ...


class TaskRecord(Protocol):
    """The journal as one turn sees it: record, then act.

    ``answered`` and ``owe`` are durable when they return. ``placed``, ``prompted``, ``edited`` and
    ``paid`` count at once and reach the disk with the next commit: what a kill loses of them is
    only repeated (a keyed post, a run, an edit).
    """

    def progress(self, task_id: TaskId) -> Progress: ...
    async def placed(self, task_id: TaskId, event_id: str) -> None: ...
    async def prompted(self, task_id: TaskId) -> None: ...
    async def answered(self, task_id: TaskId, answer: str, files: Sequence[str] = ()) -> None: ...
    async def edited(self, task_id: TaskId) -> None: ...
    async def owe(self, room: str, event_id: str, text: str) -> None: ...
    def paid(self, event_id: str) -> None: ...


class ResultPort(Protocol):
    """The way out of a task: exactly one of these per task, or neither at shutdown."""

    async def complete(
        self,
        task: Task,
        body: str,
        *,
        base_dir: str,
        files: Sequence[str] = (),
        inspect: Inspect | None = None,
    ) -> None:
        """Read markers, send the files they name, record the result durably; the outbox posts it.

        A body that begins with ``[REPLIED]`` or ``[no-send]`` is posted verbatim and brings no
        file. ``files`` are paths of further ones. ``inspect`` says of each approved file, by its
        name and content, why it is not sent (``""``: it is).
        """
        ...

    async def reject(self, task: Task, reason: str) -> None:
        """Dead-letter the task; the broker posts the failure notice."""
        ...
