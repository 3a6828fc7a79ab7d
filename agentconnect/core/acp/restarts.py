"""When something that ended is started again: soon at first, then later and later.

deferred-delivery.md §3: 1 s doubling to 60 s; what was up for 60 s begins anew.
"""

FIRST_S = 1.0
LAST_S = 60.0
STEADY_S = 60.0


class Restarts:
    """The pauses of one thing. Times in seconds."""

    def __init__(self, first_s: float = FIRST_S) -> None:
        self._first_s = first_s
        self._next_s = first_s

    def pause(self, up_s: float) -> float:
        """How long to wait, now that it has ended after ``up_s``."""
        if up_s >= STEADY_S:
            self._next_s = self._first_s
        pause, self._next_s = self._next_s, min(LAST_S, self._next_s * 2)
        return pause
