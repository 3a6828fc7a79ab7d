"""One open turn per session key, first come first served (worker.md §13).

Owns who is running and who waits, per key. It never starts anything: ``arrive``, ``begin`` and
``leave`` tell the shell what to do. Invariants: at most one running ticket per key; a key without
tickets does not exist; tickets of one key run in the order of their arrival; keys never meet.
"""

from collections import deque
from typing import Generic, Protocol, TypeVar

from agentconnect.core.errors import InvariantError
from agentconnect.core.task import SessionKey, TaskId


class HasId(Protocol):
    """What waits: anything that carries the id of its task."""

    @property
    def id(self) -> TaskId: ...


TicketT = TypeVar("TicketT", bound=HasId)


class Line(Generic[TicketT]):
    """The tickets of one key: the one that runs, and those behind it."""

    def __init__(self) -> None:
        self.running: TicketT | None = None
        self.waiting: deque[TicketT] = deque()

    def __len__(self) -> int:
        return len(self.waiting) + (self.running is not None)


class Queue(Generic[TicketT]):
    """All lines of the worker."""

    def __init__(self) -> None:
        self._lines: dict[SessionKey, Line[TicketT]] = {}
        self._ids: dict[TaskId, SessionKey] = {}

    def __contains__(self, task_id: TaskId) -> bool:
        return task_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def keys(self) -> tuple[SessionKey, ...]:
        """Every key with a ticket."""
        return tuple(self._lines)

    def arrive(self, key: SessionKey, ticket: TicketT) -> int:
        """Admit a ticket; how many stand in front of it, the running one included."""
        if ticket.id in self._ids:
            raise InvariantError(f"task {ticket.id} is in a queue already")
        line = self._lines.setdefault(key, Line())
        ahead = len(line)
        line.waiting.append(ticket)
        self._ids[ticket.id] = key
        return ahead

    def begin(self, key: SessionKey) -> TicketT | None:
        """The next ticket of ``key``, now running; None where nobody waits."""
        line = self._lines.get(key)
        if line is None:
            return None
        if line.running is not None:
            raise InvariantError("a turn is open on this key already")
        if not line.waiting:
            return None
        line.running = line.waiting.popleft()
        return line.running

    def leave(self, task_id: TaskId) -> None:
        """A ticket is finished, or gives up its place. Unknown ids are left alone."""
        key = self._ids.pop(task_id, None)
        if key is None:
            return
        line = self._lines[key]
        if line.running is not None and line.running.id == task_id:
            line.running = None
        else:
            line.waiting = deque(item for item in line.waiting if item.id != task_id)
        if not len(line):
            del self._lines[key]

    def front(self, key: SessionKey) -> TicketT | None:
        """The ticket that runs on ``key``, or will be the first to."""
        line = self._lines.get(key)
        if line is None:
            return None
        return line.running or (line.waiting[0] if line.waiting else None)

    def running(self) -> tuple[TicketT, ...]:
        """Every ticket whose turn is open."""
        return tuple(line.running for line in self._lines.values() if line.running is not None)

    def waiting(self) -> tuple[TicketT, ...]:
        """Every ticket that has not begun."""
        return tuple(ticket for line in self._lines.values() for ticket in line.waiting)
