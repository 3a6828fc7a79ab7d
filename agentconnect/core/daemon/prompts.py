"""A session's prompts: one runs, few wait, in order of arrival (§6)."""

from collections import deque
from typing import Generic, Protocol, TypeVar

MAX_PENDING = 5
"""Prompts of one session that wait or run."""


class Queued(Protocol):
    """Anything with an id of its own."""

    @property
    def id(self) -> str: ...


QueuedT = TypeVar("QueuedT", bound=Queued)


class PromptQueue(Generic[QueuedT]):
    """Who runs and who waits; what running means is the caller's."""

    def __init__(self, limit: int = MAX_PENDING) -> None:
        self._limit = limit
        self._waiting: deque[QueuedT] = deque()
        self._running: QueuedT | None = None
        self._closed = False

    @property
    def running(self) -> QueuedT | None:
        return self._running

    @property
    def full(self) -> bool:
        """No room for a prompt of a client."""
        return len(self) >= self._limit

    @property
    def closed(self) -> bool:
        return self._closed

    def offer(self, item: QueuedT, *, bounded: bool = True) -> bool:
        """Put ``item`` at the end. False: full (a scheduled fire is not ``bounded``) or closed."""
        if self._closed or (bounded and self.full):
            return False
        self._waiting.append(item)
        return True

    def start(self) -> QueuedT | None:
        """The next to run; None while one runs or none waits."""
        if self._running is None and self._waiting:
            self._running = self._waiting.popleft()
            return self._running
        return None

    def finish(self, item_id: str) -> None:
        """The running one ended. Another id changes nothing."""
        if self._running is not None and self._running.id == item_id:
            self._running = None

    def pending(self) -> tuple[QueuedT, ...]:
        """All of them, the running one first."""
        return (*(() if self._running is None else (self._running,)), *self._waiting)

    def close(self) -> tuple[QueuedT, ...]:
        """Take nothing more; those that waited are given back, the running one is not."""
        self._closed = True
        dropped = tuple(self._waiting)
        self._waiting.clear()
        return dropped

    def __len__(self) -> int:
        return len(self._waiting) + (self._running is not None)
