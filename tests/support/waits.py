"""Seconds of the rules' own waits, with real processes and without the machine's own time."""

import trio.testing

REST_S = 0.5
"""Real seconds without any event; a process that was killed is gone by then."""


def count_only_waits(clock: trio.testing.MockClock) -> None:
    """From here on time passes only from one deadline to the next, when nothing else happens.

    What a test then measures is the sum of the waits in the rules, however slow the machine is.
    """
    clock.rate = 0.0
    clock.autojump_threshold = REST_S
