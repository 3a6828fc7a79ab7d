"""The journal's words: what a task's row may be in, what counts as in flight, what is stranded.

relay-wire.md §14. Pure; the rows themselves are in ``store/journal``.
"""

from collections.abc import Iterable, Set
from enum import StrEnum

import msgspec


class State(StrEnum):
    """A task's state: taken, answered, taken by the broker, refused by it for good."""

    ACCEPTED = "accepted"
    PENDING = "pending"
    DONE = "done"
    PARKED = "parked"


IN_FLIGHT = frozenset({State.ACCEPTED, State.PENDING})


class Sweep(msgspec.Struct, frozen=True):
    """One pass: ``dropped`` ids to remove, ``seen`` stranded ids to remember for the next."""

    dropped: tuple[str, ...]
    seen: frozenset[str]


def reconcile(entries: Iterable[tuple[str, str]], *, live: Set[str], seen: frozenset[str]) -> Sweep:
    """Find ids accepted by a run that is gone: stranded in two consecutive passes means dropped.

    Two passes let a result land in between; ``live`` ids (of this run, or held by a caller) are
    never dropped.
    """
    stranded = [
        task_id for task_id, state in entries if state == State.ACCEPTED and task_id not in live
    ]
    return Sweep(
        tuple(task_id for task_id in stranded if task_id in seen),
        frozenset(task_id for task_id in stranded if task_id not in seen),
    )


def in_flight(states: Iterable[str]) -> int:
    """How many tasks the broker should count against this worker."""
    return sum(1 for state in states if state in IN_FLIGHT)
