"""The life of one task's lease as a pure machine (relay-wire.md §5).

``queued → leased → done | dead``. Each function takes a lease and ``now`` and returns the next
one; the store writes what it returns. Nothing here reads a clock.
"""

import math
from enum import StrEnum

import msgspec

from agentconnect.embedded.timing import Timing


class State(StrEnum):
    """Where a task is. ``done`` and ``dead`` are final."""

    QUEUED = "queued"
    LEASED = "leased"
    DONE = "done"
    DEAD = "dead"


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """One task's lease. ``attempt`` counts serves; ``greeted``: the first ack ever came."""

    state: State = State.QUEUED
    until: float = 0.0
    acked: bool = False
    extended: int = 0
    attempt: int = 0
    lease_id: str = ""
    greeted: bool = False


class Ack(StrEnum):
    """What an ack met."""

    FIRST = "first"
    AGAIN = "again"
    NOT_LEASED = "not leased"
    STALE = "not leased: stale lease generation"


def serve(lease: Lease, now: float, lease_id: str, timing: Timing) -> Lease:
    """Hand a queued task to a poller: a new window, un-acked, one more attempt."""
    return Lease(
        state=State.LEASED,
        until=now + timing.visibility_s,
        attempt=lease.attempt + 1,
        lease_id=lease_id,
        greeted=lease.greeted,
    )


def ack(lease: Lease, lease_id: str) -> tuple[Lease, Ack]:
    """Take an ack; ``lease_id`` may be empty, since older clients never send one.

    A quick answer overtakes its own ack: then the ack is late, not wrong, and still the first.
    """
    if lease.state not in (State.LEASED, State.DONE):
        return lease, Ack.NOT_LEASED
    if lease_id and lease_id != lease.lease_id:
        return lease, Ack.STALE
    verdict = Ack.AGAIN if lease.greeted else Ack.FIRST
    acked = lease.state is State.LEASED
    return msgspec.structs.replace(lease, acked=acked, greeted=True), verdict


def release(lease: Lease, lease_id: str) -> Lease:
    """Undo a serve whose answer never reached its poller; it costs no attempt."""
    if lease.state is not State.LEASED or lease.lease_id != lease_id:
        return lease
    return Lease(attempt=lease.attempt - 1, greeted=lease.greeted)


def lapse(lease: Lease, now: float, alive: bool, timing: Timing) -> Lease:
    """What a lease has become by ``now``; the same lease while its window runs."""
    if lease.state is not State.LEASED or lease.until > now:
        return lease
    windows = math.floor((now - lease.until) / timing.visibility_s) + 1
    until = lease.until + windows * timing.visibility_s
    if alive and lease.acked:
        return msgspec.structs.replace(lease, until=until)
    if alive and lease.extended + windows <= timing.extensions:
        return msgspec.structs.replace(lease, until=until, extended=lease.extended + windows)
    if lease.attempt >= timing.attempts:
        return msgspec.structs.replace(lease, state=State.DEAD, acked=False)
    return Lease(attempt=lease.attempt, greeted=lease.greeted)
