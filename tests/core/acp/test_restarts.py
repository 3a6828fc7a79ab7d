"""The pauses between restarts."""

from agentconnect.core.acp.restarts import Restarts


def test_pauses_double_to_a_minute_and_begin_anew() -> None:
    """What was up for a minute is taken for healthy; a second less is not."""
    restarts = Restarts()
    assert [1, 2, 4, 8, 16, 32, 60, 60] == [restarts.pause(0.0) for _ in range(8)]
    assert [60, 1, 2] == [restarts.pause(up_s) for up_s in (59.9, 60.0, 0.0)]
