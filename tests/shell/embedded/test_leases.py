"""The lease machine: a table of its moves, and random histories against its promises."""

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agentconnect.embedded import leases
from agentconnect.embedded.leases import Ack, Lease, State
from agentconnect.embedded.timing import Timing

_TIMING = Timing()


def _served(**changes: object) -> Lease:
    base = {"state": State.LEASED, "until": 160.0, "attempt": 1, "lease_id": "a", **changes}
    return Lease(**base)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "now", "alive", "after"),
    [
        (_served(), 159.9, False, _served()),
        (_served(acked=True), 160.0, True, _served(acked=True, until=220.0)),
        (_served(acked=True), 160.0, False, Lease(attempt=1)),
        (_served(), 160.0, True, _served(until=220.0, extended=1)),
        (_served(extended=1), 160.0, True, _served(until=220.0, extended=2)),
        (_served(extended=2), 160.0, True, Lease(attempt=1)),
        (_served(), 160.0, False, Lease(attempt=1)),
        (_served(attempt=5), 160.0, False, _served(attempt=5, state=State.DEAD)),
        (_served(acked=True, attempt=5), 160.0, True, _served(acked=True, attempt=5, until=220.0)),
        (_served(acked=True), 400.0, True, _served(acked=True, until=460.0)),
        (_served(greeted=True, acked=True), 160.0, False, Lease(attempt=1, greeted=True)),
        (Lease(), 1e9, False, Lease()),
    ],
)
def test_what_a_window_that_ends_leaves(
    before: Lease, now: float, alive: bool, after: Lease
) -> None:
    """Each row of the lease rules: who keeps a lease, who loses it, what dies."""
    assert after == leases.lapse(before, now, alive, _TIMING)


def test_acks() -> None:
    """The first ack is told apart, a repeated one is fine, a stale or late one is named."""
    lease = leases.serve(Lease(), 100.0, "a", _TIMING)
    acked, verdict = leases.ack(lease, "")
    assert verdict is Ack.FIRST
    assert leases.ack(acked, "a") == (acked, Ack.AGAIN)
    assert leases.ack(acked, "b") == (acked, Ack.STALE)
    queued = leases.lapse(acked, 1e6, False, _TIMING)
    assert leases.ack(queued, "a")[1] is Ack.NOT_LEASED
    again = leases.serve(queued, 2e6, "c", _TIMING)
    assert leases.ack(again, "c")[1] is Ack.AGAIN
    ended = msgspec.structs.replace(lease, state=State.DONE)
    assert leases.ack(ended, "a") == (msgspec.structs.replace(ended, greeted=True), Ack.FIRST)
    assert leases.ack(msgspec.structs.replace(ended, state=State.DEAD), "a")[1] is Ack.NOT_LEASED


def test_release_costs_no_attempt() -> None:
    """A serve whose answer nobody got is undone; another serve's release changes nothing."""
    lease = leases.serve(Lease(), 100.0, "a", _TIMING)
    assert leases.release(lease, "other") is lease
    assert leases.release(lease, "a") == Lease()


class LeaseHistory(RuleBasedStateMachine):
    """Random polls, acks, silences and clock steps on one task."""

    def __init__(self) -> None:
        super().__init__()
        self.lease = Lease()
        self.now = 1000.0
        self.polled = 0.0
        self.serves = 0
        self.released = 0

    def _alive(self) -> bool:
        return self.now - self.polled < _TIMING.visibility_s

    @rule(seconds=st.floats(min_value=0, max_value=200))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        before, alive = self.lease, self._alive()
        self.lease = leases.lapse(before, self.now, alive, _TIMING)
        if before.state is State.LEASED and before.acked and alive:
            assert self.lease.state is State.LEASED, "an acked lease lives while its worker polls"

    @rule()
    def poll(self) -> None:
        self.polled = self.now
        self.lease = leases.lapse(self.lease, self.now, True, _TIMING)
        if self.lease.state is State.QUEUED:
            self.serves += 1
            self.lease = leases.serve(self.lease, self.now, str(self.serves), _TIMING)

    @rule()
    def ack(self) -> None:
        self.lease, _ = leases.ack(self.lease, "")

    @rule()
    def poller_vanishes(self) -> None:
        if self.lease.state is State.LEASED and not self.lease.acked:
            self.lease = leases.release(self.lease, self.lease.lease_id)
            self.released += 1

    @invariant()
    def attempts_are_counted_and_bounded(self) -> None:
        assert self.lease.attempt == self.serves - self.released
        assert self.lease.attempt <= _TIMING.attempts
        assert self.lease.extended <= _TIMING.extensions

    @invariant()
    def only_the_last_attempt_dies(self) -> None:
        if self.lease.state is State.DEAD:
            assert self.lease.attempt == _TIMING.attempts

    @invariant()
    def a_window_is_never_over_after_looking(self) -> None:
        if self.lease.state is State.LEASED:
            assert leases.lapse(self.lease, self.now, self._alive(), _TIMING).state is not None


TestLeaseHistory = LeaseHistory.TestCase
