"""What work costs as it grows, told apart from what a slow or busy machine adds.

Only processor time counts, and of each size only the least that was seen: noise adds and never
takes away, so that minimum comes closer to the truth with every attempt.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ATTEMPTS = 6
CEILING_S = 40.0
"""Seconds of processor time; far above what any machine needs for linear work."""


class Growth:
    """Compares a small and a large piece of the same work, over as many attempts as it takes.

    ``while growth.undecided(): with growth.small(): …; with growth.large(): …``. It holds as soon
    as the large one's least is within ``factor`` of the small one's, and ``slack_s`` on top.
    """

    def __init__(
        self,
        factor: float,
        *,
        slack_s: float = 0.0,
        attempts: int = ATTEMPTS,
        clock: Callable[[], float] = time.process_time,
    ) -> None:
        self.small_s = self.large_s = float("inf")
        self._factor = factor
        self._slack_s = slack_s
        self._left = attempts
        self._clock = clock

    def undecided(self) -> bool:
        """Whether to measure once more. Raises: AssertionError after the last attempt."""
        measured = self.large_s < float("inf")
        if measured and self.large_s <= self._factor * self.small_s + self._slack_s:
            return False
        told = f"{self.small_s:.4f} s grew to {self.large_s:.4f} s, over {self._factor:g} times"
        assert self._left > 0, told
        assert not measured or self.small_s < CEILING_S, told
        self._left -= 1
        return True

    @contextmanager
    def small(self) -> Iterator[None]:
        """Measures the small piece."""
        began = self._clock()
        yield
        self.small_s = min(self.small_s, self._clock() - began)

    @contextmanager
    def large(self) -> Iterator[None]:
        """Measures the large piece."""
        began = self._clock()
        yield
        self.large_s = min(self.large_s, self._clock() - began)


def assert_linear(
    work: Callable[[str], object],
    shape: Callable[[int], str],
    size: int = 1_000_000,
    slack_s: float = 0.5,
) -> None:
    """``size`` characters cost no more than about four times a quarter of them.

    Quadratic work costs sixteen times as much. Within ``slack_s`` nothing is proven and nothing
    matters: such work is quick enough whatever its growth.
    """
    part, whole = shape(size // 4), shape(size)
    growth = Growth(factor=8, slack_s=slack_s)
    while growth.undecided():
        for _ in range(3):
            with growth.small():
                work(part)
            if growth.small_s > 1:  # the noise of a moment is little beside that
                break
        with growth.large():
            work(whole)
    assert growth.large_s < CEILING_S
