"""Which deliveries are being run in this process, and who waits for each: never two runs of an id.

Pure bookkeeping; the shell starts and wakes the tasks. A request is registered before anything is
read for it, so that two that arrive together cannot both be new.
"""

from collections.abc import Generator
from typing import Any, Generic, TypeVar

import msgspec

from agentconnect.core.delivery import deciding
from agentconnect.core.delivery.answers import Answer, Delivered, Final, Retry
from agentconnect.core.delivery.deciding import Accept, Continue, Known, Unreadable
from agentconnect.core.delivery.effects import Consult, Effect, Idle, Tell, World
from agentconnect.core.delivery.ledger import DeliveryId, Entry
from agentconnect.core.delivery.request import DeliverRequest

CLASH_S = 1.0

CallerT = TypeVar("CallerT")


class Active(Generic[CallerT]):
    """One id that is being run. ``idle``: the run waits, and a resend may wake it."""

    def __init__(self, delivery_id: DeliveryId, fingerprint: str) -> None:
        self.id = delivery_id
        self.fingerprint = fingerprint
        self.callers: list[CallerT] = []
        self.idle: Idle | None = None
        self.last: Answer | None = None


class Started(msgspec.Struct, Generic[CallerT], frozen=True):
    """Run ``intake.deliver`` for it."""

    active: Active[CallerT]


class Joined(msgspec.Struct, Generic[CallerT], frozen=True):
    """Its answer comes with the run's; ``nudge``: end the run's ``Idle`` now."""

    active: Active[CallerT]
    nudge: bool


class Answered(msgspec.Struct, frozen=True):
    """Known without asking."""

    answer: Answer


class Other(msgspec.Struct, frozen=True):
    """The id is being run with other content: :func:`clash` has the answer."""


class Runs(Generic[CallerT]):
    """All active ids."""

    def __init__(self) -> None:
        self._active: dict[DeliveryId, Active[CallerT]] = {}

    def __len__(self) -> int:
        return len(self._active)

    @property
    def awake(self) -> int:
        """How many do something just now."""
        return sum(active.idle is None for active in self._active.values())

    def idle(self) -> list[Active[CallerT]]:
        """Those that wait between two runs."""
        return [active for active in self._active.values() if active.idle is not None]

    def arrive(
        self, request: DeliverRequest, caller: CallerT
    ) -> Started[CallerT] | Joined[CallerT] | Answered | Other:
        """A request: what to do for its caller."""
        active = self._active.get(request.id)
        if active is None:
            active = self._active[request.id] = Active(request.id, request.fingerprint)
            active.callers.append(caller)
            return Started(active)
        if active.fingerprint != request.fingerprint:
            return Other()
        if isinstance(active.last, Delivered | Final):
            return Answered(active.last)
        if active.idle is not None and not active.idle.nudgeable and active.last is not None:
            return Answered(active.last)
        active.callers.append(caller)
        return Joined(active, nudge=active.idle is not None)

    def resume(self, entry: Entry) -> Active[CallerT] | None:
        """Run ``intake.resume`` for it; None where it is being run already."""
        if entry.id in self._active:
            return None
        active = self._active[entry.id] = Active[CallerT](entry.id, entry.fingerprint)
        return active

    def told(self, active: Active[CallerT], answer: Answer) -> list[CallerT]:
        """The run gave this answer: the callers to pass it to."""
        active.last = answer
        callers, active.callers = active.callers, []
        return callers

    def over(self, active: Active[CallerT]) -> list[CallerT]:
        """The run has ended, however it did: callers it still owes a Retry."""
        self._active.pop(active.id, None)
        callers, active.callers = active.callers, []
        return callers


def clash(request: DeliverRequest, world: World) -> Generator[Effect, Any, None]:
    """Answer a request whose id is being run with other content."""
    known: Known | Unreadable = yield Consult(id=request.id, binding=request.binding)
    decision = deciding.decide(request, known, world.circumstances(), wall_now=world.wall_now())
    if isinstance(decision, Accept | Continue):  # the other one is not recorded (yet)
        decision = Retry(
            retry_after_s=CLASH_S, reason="another request with this id is being taken"
        )
    yield Tell(answer=decision)
