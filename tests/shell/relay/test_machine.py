"""Journal, intake, acks and outbox under any order of events: a model as a state machine.

Nothing lost, nothing run twice, nothing forgotten early, whatever is lost on the way, served again,
or killed at any boundary; and the machine sees the faults it is there for.
"""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)

from agentconnect.core.relay.journal import State
from agentconnect.core.task import Task, TaskId
from agentconnect.relay.acks import Acks
from agentconnect.relay.intake import Intake
from agentconnect.relay.outbox import Outbox
from agentconnect.store.journal import Journal
from agentconnect.store.rows import Entry
from tests.support.relay_world import Broken, Served, Theatre

pytestmark = pytest.mark.timeout(900)

DEATHS = st.sampled_from(
    [
        "handed over",
        "ack arrives",
        "ack applied",
        "recorded",
        "results arrives",
        "results applied",
    ]
)
STEPS = st.sampled_from(["lost", "refused", "busy", "fine"])


class RelayMachine(RuleBasedStateMachine):
    """Plays the broker, the consumer, the network, the clock and the reaper."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="relay-machine-"))
        self.theatre = Theatre(self.folder)
        self.world = self.theatre.world
        self.count = 0

    def queue(self, count: int) -> None:
        """People write."""
        for _ in range(count):
            self.count += 1
            self.world.broker.tasks[f"t{self.count}"] = Served()

    @rule(fresh=st.integers(0, 2))
    def poll(self, fresh: int) -> None:
        self.queue(fresh)
        self.theatre.step(self.world.poll)

    @rule()
    def poll_and_lose_the_batch(self) -> None:
        self.queue(1)
        self.theatre.step(self.world.poll, lost=True)

    @rule()
    def replay(self) -> None:
        """A reconnect: everything there ever was is served again."""
        self.theatre.step(self.world.poll, replay=True)

    @rule()
    def leases_expire(self) -> None:
        """Whatever has no answer yet is queued again."""
        for served in self.world.broker.tasks.values():
            served.leased = False

    @precondition(lambda self: self.world.running)
    @rule(data=st.data(), steps=st.lists(STEPS, max_size=3))
    def finish(self, data: st.DataObject, steps: list[str]) -> None:
        """An answer, and what becomes of its first posts."""
        name = data.draw(st.sampled_from(sorted(self.world.running)))
        self.world.broker.plan("results", steps)
        self.theatre.step(self.world.finish, name)

    @rule(steps=st.lists(STEPS, max_size=4))
    def plan_acks(self, steps: list[str]) -> None:
        """What becomes of the next acks."""
        self.world.broker.plan("ack", steps)

    @rule(gone=st.booleans())
    def deploy(self, gone: bool) -> None:
        """The broker loses its route for acks, or gets it back."""
        self.world.broker.no_acks = gone

    @rule(seconds=st.sampled_from([0.3, 1.0, 5.0, 61.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.theatre.step(self.theatre.pass_time, seconds)

    @rule(seconds=st.sampled_from([-1e6, -30.0, 1e6]))
    def step_the_wall_clock(self, seconds: float) -> None:
        self.world.wall += seconds

    @rule()
    def kill(self) -> None:
        self.theatre.step(self.theatre.kill)

    @rule(moment=DEATHS)
    def kill_later(self, moment: str) -> None:
        """At the next such moment."""
        self.world.crash_on = moment

    def teardown(self) -> None:
        """Faults end, time passes: leases are acked, each task has its answer, nothing is owed."""
        try:
            if not self.world.failures:
                self._acks_arrive()
                self._come_to_an_end()
        finally:
            self.theatre.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _acks_arrive(self) -> None:
        """A lost ack is sent again within the lease; one for a re-serve never waits."""
        world = self.world
        self._faults_end()
        self.theatre.step(self.theatre.pass_time, 301.0)  # no pause is left
        self.queue(1)
        self.leases_expire()
        world.broker.plan("ack", ["lost", "refused"])
        self.theatre.step(world.poll)
        self.theatre.step(self.theatre.pass_time, 1.0)
        self.theatre.step(self.theatre.pass_time, 30.0)
        assert world.unacked() == []
        self.queue(1)
        world.broker.no_acks = True
        self.theatre.step(world.poll)  # ordinary acks pause from here
        world.broker.no_acks = False
        self.leases_expire()
        self.theatre.step(world.poll)
        assert world.unacked() == []

    def _faults_end(self) -> None:
        self.world.crash_on = ""
        self.world.broker.no_acks = False
        for route in ("ack", "results"):
            self.world.broker.plan(route, ())

    def _come_to_an_end(self) -> None:
        world = self.world
        self._faults_end()
        for _ in range(3):
            self.leases_expire()
            self.theatre.step(world.poll)
            for name in sorted(world.running):
                self.theatre.step(world.finish, name)
            for _ in range(3):
                self.theatre.step(self.theatre.pass_time, 90.0)
        for name, served in world.broker.tasks.items():
            assert served.answer is not None, f"{name} was lost"
            assert served.answer == world.answers[name]
        counts = world.journal.counts()
        assert (counts.inflight, counts.pending, counts.parked) == (0, 0, 0)


def run(examples: int, steps: int, phases: Sequence[Phase] = tuple(Phase)) -> None:
    run_state_machine_as_test(
        RelayMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            phases=phases,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_nothing_is_lost_or_done_twice_whatever_happens() -> None:
    """The invariants of the journal, under any order of events."""
    profile = settings.default.max_examples if settings.default else 50
    run(min(max(20, profile // 5), 300), 30)


def test_five_hundred_old_tasks_served_again_run_nothing() -> None:
    """A replay after a reconnect is closed again from memory, also after a kill."""
    folder = Path(tempfile.mkdtemp(prefix="relay-machine-"))
    theatre = Theatre(folder)
    world = theatre.world
    try:
        for number in range(500):
            world.broker.tasks[f"t{number}"] = Served()
        theatre.step(world.poll)
        for name in sorted(world.running):
            theatre.step(world.finish, name)
        for _ in range(3):
            theatre.step(theatre.pass_time, 5.0)
        theatre.step(theatre.kill)
        theatre.step(world.poll, replay=True)
        theatre.step(theatre.pass_time, 5.0)
        assert world.running == set()
        assert all(served.answer for served in world.broker.tasks.values())
    finally:
        theatre.close()
        shutil.rmtree(folder, ignore_errors=True)


# --- the machine sees what it is there for


def _retired_early(patch: pytest.MonkeyPatch) -> None:
    honest = Outbox._send

    async def early(self: Outbox, owed: Any) -> None:
        if not owed.echo:
            self._journal.retire(owed.task_id)
        await honest(self, owed)

    patch.setattr(Outbox, "_send", early)


def _handed_over_early(patch: pytest.MonkeyPatch) -> None:
    honest = Intake.take

    async def early(self: Intake, batch: Any) -> bool:
        for task in batch.tasks:
            if self._journal.entry(task.id) is None:
                self._give(task)
        return await honest(self, batch)

    patch.setattr(Intake, "take", early)


def _run_again(patch: pytest.MonkeyPatch) -> None:
    honest = Intake._known

    def again(self: Intake, task: Task, entry: Entry) -> None:
        if entry.state is State.DONE:
            self._give(task)
        else:
            honest(self, task, entry)

    patch.setattr(Intake, "_known", again)


def _not_recorded(patch: pytest.MonkeyPatch) -> None:
    async def forgetful(self: Journal, task_id: Any, result: str, *, room: str = "") -> None:
        entry = self._open[task_id]
        entry.state, entry.result = State.PENDING, result

    patch.setattr(Journal, "record_result", forgetful)


def _given_up(patch: pytest.MonkeyPatch) -> None:
    async def dropping(self: Outbox, owed: Any, error: Any) -> None:
        self._journal.retire(owed.task_id)
        self._drop(owed)

    patch.setattr(Outbox, "_refused", dropping)


def _ack_lost_for_good(patch: pytest.MonkeyPatch) -> None:
    def forgetting(self: Acks, owed: Any, error: Any) -> None:
        self._settle(owed)

    patch.setattr(Acks, "_failed", forgetting)


def _ack_never_urgent(patch: pytest.MonkeyPatch) -> None:
    honest = Acks.owe

    def patient(self: Acks, task_id: TaskId, lease_id: str, *, urgent: bool) -> None:
        honest(self, task_id, lease_id, urgent=False)

    patch.setattr(Acks, "owe", patient)


def _ack_of_the_first_lease(patch: pytest.MonkeyPatch) -> None:
    honest = Acks.owe
    first: dict[str, str] = {}

    def stale(self: Acks, task_id: TaskId, lease_id: str, *, urgent: bool) -> None:
        honest(self, task_id, first.setdefault(task_id, lease_id), urgent=urgent)

    patch.setattr(Acks, "owe", stale)


@pytest.mark.parametrize(
    "fault",
    [
        _retired_early,
        _handed_over_early,
        _run_again,
        _not_recorded,
        _given_up,
        _ack_lost_for_good,
        _ack_never_urgent,
        _ack_of_the_first_lease,
    ],
)
def test_a_planted_fault_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retired before it was taken, run before it was recorded, run again after it was answered,
    posted without a record, given up after one failure; an ack that is lost for good, waits out a
    pause although the lease dies, or names a lease that is over."""
    fault(monkeypatch)
    with pytest.raises((Broken, AssertionError)):
        run(40, 25, phases=(Phase.generate,))
