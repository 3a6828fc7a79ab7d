"""The measuring of growth itself: noise does not break it, quadratic work does."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, repeat

import pytest

from tests.support.growth import Growth, assert_linear

SIZE = 20_000


def once(text: str) -> int:
    """Looks at every character."""
    return sum(1 for _ in text)


def again_for_each(text: str) -> int:
    """A planted fault: the whole text is searched once for every character."""
    return sum(text.count("b") for _ in text)


def measured(growth: Growth) -> int:
    """The attempts it took. Raises: AssertionError when it did not hold."""
    attempts = 0
    while growth.undecided():
        attempts += 1
        with growth.small():
            pass
        with growth.large():
            pass
    return attempts


def clock(*spans_s: float) -> Iterator[float]:
    """What a clock shows before and after each span; the last one goes on for ever."""
    now = 0.0
    for span in chain(spans_s, repeat(spans_s[-1])):
        yield now
        now += span
        yield now


def test_linear_work_holds() -> None:
    """Without any allowance but the factor."""
    assert_linear(once, lambda size: "a" * size, 50 * SIZE, slack_s=0.0)


def test_quadratic_work_is_found() -> None:
    """However often it is measured, with the factor that the tests use."""
    with pytest.raises(AssertionError, match="over 8 times"):
        assert_linear(again_for_each, lambda size: "a" * size, SIZE, slack_s=0.0)


def test_noise_of_some_attempts_does_not_break_it() -> None:
    """The machine took ten times as long twice; the third attempt says what the work costs."""
    shown = clock(1, 10, 1, 10, 1, 2)
    assert 3 == measured(Growth(factor=3, clock=lambda: next(shown)))


def test_noise_in_the_small_piece_hides_no_growth_for_long() -> None:
    """A least is never taken back, and the last attempt's failure says what was seen."""
    shown = clock(1, 5, 9, 5, 1, 5)
    growth = Growth(factor=3, attempts=3, clock=lambda: next(shown))
    with pytest.raises(AssertionError, match=r"1\.0000 s grew to 5\.0000 s, over 3 times"):
        measured(growth)


def test_what_takes_ages_is_not_measured_again() -> None:
    """The small piece alone is over the ceiling."""
    shown = clock(60, 600)
    growth = Growth(factor=3, clock=lambda: next(shown))
    with suppress(AssertionError):
        measured(growth)
    assert (60, 600) == (growth.small_s, growth.large_s)
    assert 600 + 60 == next(shown)
