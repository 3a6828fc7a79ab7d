"""Histories by the thousand, and proof that the machine sees each kind of fault it is there for.

The faults are put into the rules by hand, here and nowhere else.
"""

import os
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from agentconnect.core.delivery import courier, deciding, founding, intake, keys, ledger, posting
from agentconnect.core.delivery.answers import Final
from agentconnect.core.delivery.courier import Run
from agentconnect.core.delivery.deciding import Accept, Known, Unreadable
from agentconnect.core.delivery.effects import PostText
from agentconnect.core.delivery.founding import Founding
from agentconnect.core.delivery.ledger import Entry, WorkerId
from tests.core.delivery.machine.checks import Violation
from tests.core.delivery.machine.sim import Sim, run_history

HISTORIES = int(os.environ.get("AGENTCONNECT_HISTORIES", "2000"))
BATCHES = 10
ENOUGH = 1500
"""A planted fault is found long before; the slowest takes some hundred histories."""

Plant = Callable[[pytest.MonkeyPatch], None]


def _histories(seed: str, count: int) -> None:
    for number in range(count):
        run_history(f"{seed}.{number}")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_history_keeps_the_promises(batch: int) -> None:
    """At most once per part, only where it belongs, fail closed, and every delivery has an end."""
    _histories(f"ci.{batch}", HISTORIES // BATCHES)


def key_with_binding(patch: pytest.MonkeyPatch) -> None:
    def key_of(entry: Entry, part: int | str) -> str:
        return keys.part_key(entry.worker_id + entry.binding, entry.id, part)

    patch.setattr(keys, "key_of", key_of)


def ledger_after_binding(patch: pytest.MonkeyPatch) -> None:
    right = deciding.decide

    def decide(request: Any, known: Any, circumstances: Any, *, wall_now: float) -> Any:
        if isinstance(known, Known):
            unknown = msgspec.structs.replace(known, entry=None)
            first = right(request, unknown, circumstances, wall_now=wall_now)
            if isinstance(first, Final):
                return first
        return right(request, known, circumstances, wall_now=wall_now)

    patch.setattr(deciding, "decide", decide)


def first_seen_after_post(patch: pytest.MonkeyPatch) -> None:
    right = intake.record_first_seen

    def late(entry: Entry) -> Run[Any]:
        if entry.text is not None:
            index = len(entry.parts) - 1
            key = keys.key_of(entry, index)
            yield PostText(room=entry.room, key=key, id=entry.id, text=entry.text)
        return (yield from right(entry))

    patch.setattr(intake, "record_first_seen", late)


def unreadable_is_empty(patch: pytest.MonkeyPatch) -> None:
    right = deciding.decide

    def decide(request: Any, known: Any, circumstances: Any, *, wall_now: float) -> Any:
        if isinstance(known, Unreadable):
            known = Known(worker_id=WorkerId("0" * 32))
        return right(request, known, circumstances, wall_now=wall_now)

    patch.setattr(deciding, "decide", decide)


def evicted_young(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger, "evictable_before", lambda wall_now: wall_now)


def minted_over(patch: pytest.MonkeyPatch) -> None:
    def found(*, database: bool, older: bool, seen: bool) -> Founding:
        return Founding.OPEN if seen else Founding.MINT

    patch.setattr(founding, "founding", found)


def in_progress_forgotten(patch: pytest.MonkeyPatch) -> None:
    def begin(entry: Entry) -> Run[Any]:
        return None
        yield

    patch.setattr(intake, "record_first_seen", begin)


def retried_too_long(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger, "STOP_AFTER_S", 30 * 3600.0)


def guard_skipped(patch: pytest.MonkeyPatch) -> None:
    right = deciding.decide

    def decide(*args: Any, **named: Any) -> Any:
        found = right(*args, **named)
        if isinstance(found, Accept):
            return msgspec.structs.replace(found, guarded=False)
        return found

    patch.setattr(deciding, "decide", decide)


def binding_never_refused(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deciding, "refusal", lambda binding, **_: "" if binding else "unknown")


def lost_response_forgotten(patch: pytest.MonkeyPatch) -> None:
    right = posting.meaning

    def meaning(reply: Any) -> Any:
        return msgspec.structs.replace(right(reply), unsure=False)

    patch.setattr(posting, "meaning", meaning)


def notice_without_key(patch: pytest.MonkeyPatch) -> None:
    right = keys.key_of
    count = iter(range(10**9))

    def key_of(entry: Entry, part: int | str) -> str:
        return right(entry, part) if part != keys.NOTICE else f"{next(count):064}"

    patch.setattr(keys, "key_of", key_of)


def other_content_answered(patch: pytest.MonkeyPatch) -> None:
    right = deciding._known

    def known(request: Any, entry: Entry) -> Any:
        return right(msgspec.structs.replace(request, fingerprint=entry.fingerprint), entry)

    patch.setattr(deciding, "_known", known)


def unconfirmed_keys_trusted(patch: pytest.MonkeyPatch) -> None:
    right = courier.Courier._held_up

    def held_up(self: Any) -> Run[Any]:
        held = yield from right(self)
        return None if held is not None and held.why == courier.UNTRUSTED else held

    patch.setattr(courier.Courier, "_held_up", held_up)


@pytest.mark.parametrize(
    ("plant", "seen"),
    [
        (key_with_binding, "a key is not that of worker id, id and part alone"),
        (ledger_after_binding, "a recorded id was answered by its binding"),
        (first_seen_after_post, "a post left before first-seen was on disk"),
        (unreadable_is_empty, "answered out of a store|answered by its binding"),
        (evicted_young, "an ended delivery was forgotten within 24 h"),
        (minted_over, "a new worker id over a store"),
        (in_progress_forgotten, "a post left before first-seen was on disk"),
        (retried_too_long, "was posted too late"),
        (guard_skipped, "without the guard while it is on"),
        (binding_never_refused, "under a binding that is not in force"),
        (lost_response_forgotten, "in the room, and its end says|could not be sent, and it is"),
        (notice_without_key, "a key is not that of worker id, id and part alone"),
        (other_content_answered, "was answered with the end of another one"),
        (unconfirmed_keys_trusted, "begun while keys are not trusted"),
    ],
)
def test_a_planted_fault_is_found(plant: Plant, seen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them breaks some history; without it none breaks."""
    plant(monkeypatch)
    with pytest.raises(Violation, match=seen):
        _histories("planted", ENOUGH)


def test_a_history_is_its_seed() -> None:
    """The same seed gives the same history, so that a failure can be looked at."""
    traces = []
    for _ in range(2):
        sim = Sim("twice")
        sim.run()
        traces.append(sim.trace)
    assert traces[0] == traces[1]
