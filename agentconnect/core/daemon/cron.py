"""When a cron expression fires, in a time zone with summer time (§7.1, §7.3).

Times are whole milliseconds since the epoch. A slot is a local time. One that the clocks skip is
moved to the first moment after the gap; one that they show twice counts the first time. Where the
hour field is ``*`` no hour is meant, so real minutes count instead and neither happens (ADR 21).
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

from cronsim import CronSim, CronSimError

MAX_CRON_UNITS = 200
FIELDS = 5

Zone = tzinfo
"""A time zone with its rules (``zoneinfo``), not an offset."""

_SHIFT = timedelta(hours=3)  # more than clocks are ever changed by
_BROKEN = (CronSimError, ValueError, TypeError, AssertionError, IndexError, OverflowError)


class Cron:
    """One expression in one zone. Raises: ValueError, where it cannot be read."""

    def __init__(self, expression: str, zone: Zone) -> None:
        self._expression = " ".join(expression.split())
        self._zone = zone
        fields = self._expression.split(" ")
        if len(fields) != FIELDS:
            raise ValueError("a cron expression has five fields")
        self._any_hour = fields[1] == "*"
        self._from(datetime(2000, 1, 1))

    def after(self, time_ms: int) -> int | None:
        """The first slot later than ``time_ms``; None: there is none."""
        try:
            return next((at for at in self._forward(time_ms) if at > time_ms), None)
        except _BROKEN:  # years beyond what a date can hold
            return None

    def last_until(self, time_ms: int) -> int | None:
        """The latest slot not later than ``time_ms``; None: there is none."""
        try:
            return next((at for at in self._backward(time_ms) if at <= time_ms), None)
        except _BROKEN:
            return None

    def _forward(self, time_ms: int) -> Iterator[int]:
        start = self._local(time_ms)
        if not self._any_hour:
            start = start.replace(tzinfo=None)
        return map(self._instant, self._from(start))

    def _backward(self, time_ms: int) -> Iterator[int]:
        start = self._local(time_ms + 1000)  # the search begins one second earlier
        if not self._any_hour:
            start = start.replace(tzinfo=None) + _SHIFT
        return map(self._instant, self._from(start, reverse=True))

    def _from(self, start: datetime, *, reverse: bool = False) -> CronSim:
        try:
            return CronSim(self._expression, start, reverse=reverse)
        except _BROKEN as error:
            raise ValueError("this is no cron expression") from error

    def _local(self, time_ms: int) -> datetime:
        return datetime.fromtimestamp(time_ms // 1000, self._zone)

    def _instant(self, slot: datetime) -> int:
        """The moment of a local time that may be skipped or doubled."""
        first = slot.replace(tzinfo=self._zone) if slot.tzinfo is None else slot
        real = first.astimezone(UTC)
        back = real.astimezone(self._zone)
        if back.replace(tzinfo=None) != first.replace(tzinfo=None):
            real = self._end_of_gap(first)
        return int(real.timestamp()) * 1000

    def _end_of_gap(self, skipped: datetime) -> datetime:
        """The first moment after the gap that ``skipped`` lies in, by halving."""
        low = (skipped.replace(fold=1)).astimezone(UTC)  # before the gap, counted in its own time
        high = (skipped.replace(fold=0)).astimezone(UTC)
        wanted = high.astimezone(self._zone).utcoffset()
        while high - low > timedelta(seconds=1):
            middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
            if middle.astimezone(self._zone).utcoffset() == wanted:
                high = middle
            else:
                low = middle
        return high


def check_cron(expression: str) -> None:
    """Raises: ValueError, where it cannot be read; no zone changes that."""
    Cron(expression, UTC)


def describe_time(time_ms: int, zone: Zone) -> str:
    """A moment for people, to the minute."""
    return datetime.fromtimestamp(time_ms // 1000, zone).strftime("%Y-%m-%d %H:%M")
