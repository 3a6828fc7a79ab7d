"""When a cron expression fires: gaps, folds, both directions (§7.3, ADR 21)."""

import itertools
from datetime import datetime, tzinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.daemon.cron import Cron, check_cron, describe_time
from tests.core.daemon.zones import BERLIN, CAIRO, LORD_HOWE, NEW_YORK, UTC0

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


def ms(zone: tzinfo, *local: int, fold: int = 0) -> int:
    return int(datetime(*local, tzinfo=zone, fold=fold).timestamp()) * 1000  # type: ignore[arg-type, misc]


def fires(expression: str, zone: tzinfo, start: int, end: int) -> list[str]:
    """Every slot after ``start`` and before ``end``, with its offset."""
    cron, found, at = Cron(expression, zone), [], start
    while (slot := cron.after(at)) is not None and slot < end:
        found.append(datetime.fromtimestamp(slot / 1000, zone).isoformat()[5:])
        at = slot
    return found


def day(zone: tzinfo, year: int, month: int, date: int) -> tuple[int, int]:
    """From just before the first moment of a local day to the first of the next."""
    start = ms(zone, year, month, date)
    return start - 1, ms(zone, year, month, date + 1)


SPRING = day(BERLIN, 2026, 3, 29)
AUTUMN = day(BERLIN, 2026, 10, 25)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("30 2 * * *", ["03-29T03:00:00+02:00"]),
        ("*/20 2 * * *", ["03-29T03:00:00+02:00"]),
        ("0 2,3 * * *", ["03-29T03:00:00+02:00"]),
        ("15 1,3 * * *", ["03-29T01:15:00+01:00", "03-29T03:15:00+02:00"]),
        ("0 2 28 3 *", []),
    ],
)
def test_a_slot_in_the_spring_gap_fires_at_its_end(expression: str, expected: list[str]) -> None:
    """The first moment after it, once for however many slots were skipped."""
    assert expected == fires(expression, BERLIN, *SPRING)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("30 2 * * *", ["10-25T02:30:00+02:00"]),
        ("*/30 2 * * *", ["10-25T02:00:00+02:00", "10-25T02:30:00+02:00"]),
        ("0 1-3 * * *", [f"10-25T0{h}:00:00+0{o}:00" for h, o in ((1, 2), (2, 2), (3, 1))]),
    ],
)
def test_a_slot_in_the_autumn_fold_fires_once(expression: str, expected: list[str]) -> None:
    """The first time that the clocks show it."""
    assert expected == fires(expression, BERLIN, *AUTUMN)


def test_from_within_the_fold_the_second_showing_is_none() -> None:
    """Neither before nor after its minute."""
    second = ms(BERLIN, 2026, 10, 25, 2, 10, fold=1)
    assert ms(BERLIN, 2026, 10, 26, 2, 30) == Cron("30 2 * * *", BERLIN).after(second)
    assert ms(BERLIN, 2026, 10, 25, 2, 30) == Cron("30 2 * * *", BERLIN).last_until(second)


def test_every_hour_means_real_time() -> None:
    """25 hours in autumn, 23 in spring, each an hour after the one before."""
    for (start, end), hours in ((AUTUMN, 25), (SPRING, 23)):
        assert hours == len(fires("5 * * * *", BERLIN, start, end))
        assert 12 * hours == len(fires("*/5 * * * *", BERLIN, start, end))
        cron, at = Cron("5 * * * *", BERLIN), start
        slots = [at := cron.after(at) or 0 for _ in range(hours)]
        assert {HOUR_MS} == {b - a for a, b in itertools.pairwise(slots)}


def test_zones_that_are_unlike_ours() -> None:
    """A gap at midnight, half an hour of summer time, the other side of the world."""
    midnight = ms(CAIRO, 2026, 4, 24) - 1
    assert ms(CAIRO, 2026, 4, 24, 1) == Cron("0 0 * * *", CAIRO).after(midnight)
    assert ms(CAIRO, 2026, 4, 24, 1) == Cron("0 * * * 5", CAIRO).after(midnight - DAY_MS)
    before = ms(LORD_HOWE, 2026, 10, 4, 1)
    assert ms(LORD_HOWE, 2026, 10, 4, 2, 30) == Cron("10 2 * * *", LORD_HOWE).after(before)
    assert ["11-01T01:30:00-04:00"] == fires("30 1 * * *", NEW_YORK, *day(NEW_YORK, 2026, 11, 1))


def test_seconds_and_milliseconds_of_the_clock_do_not_matter() -> None:
    """A slot is later than every moment before it, and not later than itself."""
    cron, slot = Cron("0 10 * * *", UTC0), ms(UTC0, 2026, 1, 5, 10)
    for before in (1, 999, 1000, 59_999):
        assert slot == cron.after(slot - before)
        assert slot - DAY_MS == cron.last_until(slot - before)
    for later in (0, 1, 999, 1000):
        assert slot + DAY_MS == cron.after(slot + later)
        assert slot == cron.last_until(slot + later)


@pytest.mark.parametrize(
    "expression",
    [
        *("", "x", "* * * *", "* * * * * *", "@daily", "60 * * * *", "* 24 * * *", "*/0 * * * *"),
        *("0 0 30 2 *", "5-1 * * * *", "1#1/2 * * * *", "* * * * 1#1/2", "* * * * ²L", "* * 0 * *"),
    ],
)
def test_what_is_no_cron_expression(expression: str) -> None:
    """Refused as one error, whatever the library makes of it."""
    with pytest.raises(ValueError, match="cron"):
        check_cron(expression)


def test_a_day_that_is_rare_is_found() -> None:
    """The 29th of February, and a fifth Monday in it."""
    assert ms(UTC0, 2028, 2, 29) == Cron("0 0 29 2 *", UTC0).after(ms(UTC0, 2026, 1, 1))
    assert ms(UTC0, 2044, 2, 29) == Cron("0 0 * 2 MON#5", UTC0).after(ms(UTC0, 2026, 1, 1))


def test_times_that_no_calendar_holds() -> None:
    """Nothing is due in the year 10,000."""
    assert Cron("0 0 * * *", BERLIN).after(10**15) is None
    assert Cron("0 0 * * *", BERLIN).last_until(10**18) is None


def test_a_moment_for_people() -> None:
    """Local, to the minute."""
    assert "2026-07-01 09:30" == describe_time(ms(BERLIN, 2026, 7, 1, 9, 30), BERLIN)


@given(st.text(max_size=30) | st.text(alphabet="0123456789*/-,#L W", max_size=20))
def test_any_text_is_read_or_refused(expression: str) -> None:
    """No other exception comes out, and what is read has both directions."""
    try:
        cron = Cron(expression, BERLIN)
    except ValueError:
        return
    now = ms(BERLIN, 2026, 6, 1)
    assert (cron.after(now) or now + 1) > now
    assert (cron.last_until(now) or now) <= now


FIELDS = (
    st.sampled_from(["*", "*/7", "0", "30", "5,35", "10-20"]),
    st.sampled_from(["*", "*/2", "*/5", "2", "1-3", "0,2,23"]),
    st.sampled_from(["*", "*/3", "25", "1,29"]),
    st.sampled_from(["*", "3,10"]),
    st.sampled_from(["*", "0", "1-5"]),
)


@given(
    st.tuples(*FIELDS).map(" ".join),
    st.sampled_from([BERLIN, NEW_YORK, LORD_HOWE, CAIRO, UTC0]),
    st.sampled_from([(3, 29), (10, 25), (3, 8), (11, 1), (4, 5), (10, 4), (4, 24), (10, 30)]),
    st.integers(-3 * HOUR_MS, 8 * HOUR_MS),
)
def test_both_directions_see_the_same_slots(
    expression: str, zone: tzinfo, date: tuple[int, int], offset: int
) -> None:
    """Around every change of the clocks; slots only rise, and none lies between two neighbours."""
    cron, now = Cron(expression, zone), ms(zone, 2026, *date) + offset
    at = now
    for _ in range(6):
        slot = cron.after(at)
        assert slot is not None
        assert slot > at
        assert at == now or at == cron.last_until(slot - 1)
        assert slot == cron.last_until(slot)
        at = slot
