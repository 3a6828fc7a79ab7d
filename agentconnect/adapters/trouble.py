"""What turns fail of, for the owner: told to the status file, taken back by one that ends well."""

from collections.abc import Callable

from agentconnect.core.turns.events import Done, Reason

Problem = Callable[[str], None]
"""Hears a sentence; ``""`` takes the last one back."""


def unheard(text: str) -> None:
    """Nobody keeps a status file."""


class Trouble:
    """One adapter's, over all its conversations."""

    def __init__(self, problem: Problem = unheard) -> None:
        self._problem = problem
        self._open = False

    def failed(self, text: str) -> None:
        """A turn failed of what the owner has to mend; ``""``: of something else."""
        if text:
            self._open = True
            self._problem(text)

    def ended(self, done: Done) -> None:
        """A turn ended: one that was answered shows that the agent is well again."""
        if self._open and done.reason is Reason.COMPLETED:
            self._open = False
            self._problem("")
