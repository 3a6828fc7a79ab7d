"""What is due: slots, catch-up, overlap, clocks that are set (§7.3)."""

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.daemon.authorizations import Authorizations
from agentconnect.core.daemon.cron import Cron
from agentconnect.core.daemon.reverse import scheduled_submission
from agentconnect.core.daemon.schedule import (
    GRACE_MS,
    MAX_SLEEP_S,
    Plan,
    next_look_s,
    plan,
)
from agentconnect.core.daemon.tasks import MAX_RUNS, RunKind, Task, TaskPatch, patched
from tests.core.daemon.requests import MAIN, ROOM
from tests.core.daemon.zones import BERLIN

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


def at(day: int, hour: int = 0, minute: int = 0, month: int = 6, fold: int = 0) -> int:
    local = datetime(2026, month, day, hour, minute, tzinfo=BERLIN, fold=fold)
    return int(local.timestamp()) * 1000


def task(name: str = "t1", **fields: Any) -> Task:
    defaults: dict[str, Any] = {"id": name, "cron": "0 9 * * *", "prompt": f"do {name}"}
    defaults |= {"recurring": True, "enabled": True, "created_at": at(1, 8), "session_id": "s1"}
    return Task(**(defaults | fields))


def look(*tasks: Task, now: int, **given: Any) -> Plan:
    found = plan(tasks, now=now, zone=BERLIN, **given)
    again = plan(found.tasks, now=now, zone=BERLIN, **given)
    assert not again.changed, "what was written down would be done once more"
    return found


def test_nothing_is_due_before_its_slot() -> None:
    """Nor for a task that is disabled."""
    assert not look(task(), now=at(1, 9) - 1).changed
    assert not look(task(enabled=False), now=at(1, 9)).changed


def test_a_slot_fires_with_a_snapshot_and_is_written_down_first() -> None:
    """``firedAt`` is the slot, not the moment at which it was seen."""
    before = task(target=ROOM)
    found = look(before, now=at(1, 9) + 1234)
    (fire,) = found.fires
    assert (before, at(1, 9), RunKind.SCHEDULED) == (fire.task, fire.fired_at, fire.kind)
    (after,) = found.tasks
    assert (at(1, 9), [(at(1, 9), "scheduled")]) == (
        after.last_fired_at,
        [(run.at, run.kind.value) for run in after.runs],
    )


def test_a_one_shot_leaves_the_file_as_it_fires() -> None:
    """What it may deliver is kept elsewhere until it is used."""
    found = look(task(recurring=False), now=at(1, 9))
    assert () == found.tasks
    assert [at(1, 9)] == [fire.fired_at for fire in found.fires]


def test_an_overdue_recurring_task_catches_up_once() -> None:
    """One fire for nine missed days, at the latest of them; a normal run that delivers."""
    found = look(task(target=ROOM), now=at(10, 8), started_at=at(10, 8))
    (fire,) = found.fires
    assert (at(9, 9), RunKind.CATCHUP, ROOM) == (fire.fired_at, fire.kind, fire.task.target)
    assert at(9, 9) == found.tasks[0].last_fired_at


def test_overdue_one_shots_become_one_prompt_that_delivers_nowhere() -> None:
    """Per session, in the order in which they were due; their authorizations go."""
    late, early, other = (
        task("late", recurring=False, cron="0 12 * * *", target=ROOM),
        task("early", recurring=False),
        task("other", recurring=False, session_id="s2", target=ROOM),
    )
    found = look(late, early, other, now=at(3), started_at=at(3))
    assert ((), (), ()) == (found.tasks, found.fires, found.skipped)
    assert [("s1", ["early", "late"]), ("s2", ["other"])] == [
        (each.session_id, [one.id for one in each.tasks]) for each in found.missed
    ]
    assert ["- due 2026-06-01 09:00: do early", "- due 2026-06-01 12:00: do late"] == found.missed[
        0
    ].prompt.splitlines()[1:]
    assert ["late", "other"] == [each.id for each in found.revoked]
    assert "planted" not in found.missed[0].prompt


def test_the_first_look_after_a_start_tells_late_from_missed() -> None:
    """A slot that came while workers were starting is in time, one from before is not."""
    one_shot, slot = task(recurring=False), at(1, 9)
    assert 1 == len(look(one_shot, now=slot + 14_000, started_at=slot - 1_000).fires)
    assert 1 == len(look(one_shot, now=slot + 14_000, started_at=slot).missed)


@pytest.mark.parametrize(("late", "missed"), [(GRACE_MS, 0), (GRACE_MS + 1, 1)])
def test_a_clock_set_forward_leaves_slots_overdue(late: int, missed: int) -> None:
    """More than a minute late is not in time: the machine slept, or its clock was set."""
    found = look(task("once", recurring=False), task(), now=at(1, 9) + late)
    assert (missed, 2 - missed) == (len(found.missed), len(found.fires))
    assert ("catchup" if missed else "scheduled") == found.fires[-1].kind.value


def test_a_clock_set_back_fires_nothing_twice() -> None:
    """The slot comes round again on the clock, and is over."""
    hourly = look(task(cron="0 * * * *"), now=at(1, 10)).tasks[0]
    assert at(1, 10) == hourly.last_fired_at
    for now in (at(1, 9), at(1, 9, 30), at(1, 10), at(1, 10, 59)):
        assert not look(hourly, now=now).changed
    assert [at(1, 11)] == [fire.fired_at for fire in look(hourly, now=at(1, 11)).fires]


def test_a_slot_while_the_last_one_runs_is_skipped_and_recorded() -> None:
    """It did not fire, and is not fired later."""
    found = look(task(last_fired_at=at(1, 9)), now=at(2, 9), busy={"t1"})
    assert ((), [at(2, 9)]) == (found.fires, [skip.fired_at for skip in found.skipped])
    (after,) = found.tasks
    assert (at(1, 9), [(at(2, 9), "skipped")]) == (
        after.last_fired_at,
        [(run.at, run.kind.value) for run in after.runs],
    )
    assert not look(after, now=at(2, 10)).changed
    assert [at(3, 9)] == [fire.fired_at for fire in look(after, now=at(3, 9)).fires]


def test_what_was_disabled_or_changed_owes_nothing() -> None:
    """A task that is enabled after a month does not catch that month up."""
    off = task(enabled=False)
    on = patched(off, TaskPatch(enabled=True), now=at(20, 10))
    assert not look(on, now=at(20, 11), started_at=at(20, 11)).changed
    moved = patched(task(), TaskPatch(cron="0 7 * * *"), now=at(1, 10))
    assert not look(moved, now=at(1, 11), started_at=at(1, 11)).changed


def test_runs_are_the_newest_twenty() -> None:
    """The oldest goes."""
    one = task(cron="* * * * *")
    for minute in range(1, MAX_RUNS + 6):
        one = look(one, now=at(1, 8) + minute * MINUTE_MS).tasks[0]
    assert (MAX_RUNS, at(1, 8, 6)) == (len(one.runs), one.runs[0].at)


def test_gap_and_fold_of_the_clocks() -> None:
    """One fire on each of the two days, at 03:00 and at the first 02:30."""
    nightly = task(cron="30 2 * * *", created_at=at(28, 12, month=3))
    spring = look(nightly, now=at(29, 3, month=3))
    assert [at(29, 3, month=3)] == [fire.fired_at for fire in spring.fires]
    nightly = task(cron="30 2 * * *", created_at=at(24, 12, month=10))
    autumn = look(nightly, now=at(25, 2, 30, month=10))
    assert [at(25, 2, 30, month=10)] == [fire.fired_at for fire in autumn.fires]
    assert not look(*autumn.tasks, now=at(25, 2, 30, month=10, fold=1)).changed


def test_how_long_to_sleep() -> None:
    """Until the first slot, never long; a disabled task wakes nobody."""
    hourly = task("t2", cron="0 * * * *")

    def sleep_s(now: int, *tasks: Task) -> float:
        return next_look_s(tasks, now=now, zone=BERLIN)

    assert 1.5 == sleep_s(at(1, 9) - 1500, task(), hourly)
    assert MAX_SLEEP_S == sleep_s(at(1, 8), task())
    assert MAX_SLEEP_S == sleep_s(at(1, 8), task(enabled=False)) == sleep_s(at(1, 8))
    assert 0 == sleep_s(at(5), task())


CRONS = ["0 9 * * *", "*/20 * * * *", "30 2 * * *", "*/15 1-3 * * *", "0 0 * * 1"]
MOVES = st.lists(
    st.tuples(st.integers(-2 * HOUR_MS, 6 * HOUR_MS) | st.integers(0, 90_000), st.booleans()),
    max_size=25,
)


@given(
    st.sampled_from(CRONS),
    MOVES,
    st.sampled_from([at(28, 20, month=3), at(24, 20, month=10), at(5)]),
)
def test_whatever_the_clock_does_fires_only_rise(
    cron: str, moves: list[tuple[int, bool]], start: int
) -> None:
    """Each is a true slot, none comes twice, none is in the future, each may deliver once."""
    one, now = task(cron=cron, created_at=start, target=ROOM), start
    store, slots = Authorizations(), Cron(cron, BERLIN)
    store.register(MAIN, "s1", "t1", ROOM, recurring=True, last_fired_at=None)
    last = start
    for step, busy in moves:
        now += step
        found = look(one, now=now, busy={"t1"} if busy else ())
        for fire in (*found.fires, *found.skipped):
            assert last < fire.fired_at <= now
            assert fire.fired_at == slots.last_until(fire.fired_at)
            last = fire.fired_at
        for fire in found.fires:
            sent = scheduled_submission("s1", "t1", fire.fired_at, ROOM, "x")
            assert [True, False] == [store.consume(MAIN, sent) for _ in range(2)]
        one = found.tasks[0]
        assert not found.missed


@pytest.mark.parametrize("start", [at(28, 20, month=3), at(24, 20, month=10)])
@pytest.mark.parametrize("cron", CRONS)
def test_an_ordinary_night_misses_no_slot(cron: str, start: int) -> None:
    """Looked at each minute, every slot fires in time, over both changes of the clocks."""
    one, fired = task(cron=cron, created_at=start), list[int]()
    end = start + 12 * HOUR_MS
    for now in range(start, end + 1, MINUTE_MS):
        found = plan([one], now=now, zone=BERLIN)
        fired += [fire.fired_at for fire in found.fires if fire.kind is RunKind.SCHEDULED]
        one = found.tasks[0]
    expected, slot = list[int](), Cron(cron, BERLIN).after(start)
    while slot is not None and slot <= end:
        expected.append(slot)
        slot = Cron(cron, BERLIN).after(slot)
    assert expected == fired
