"""The first signal asks, the second one ends; start-up steps are cut by a stop."""

import os
import signal

import trio
import trio.testing

from agentconnect.core.errors import RelayStoppedError
from agentconnect.stopping import Stop, watch_signals


async def test_only_the_first_reason_counts() -> None:
    """A later error or signal does not rewrite why the worker stopped."""
    stop = Stop()
    stop.ask("terminated")
    stop.ask("the relay client ended", RelayStoppedError("later"))
    assert stop.detail == "terminated"
    assert stop.error is None


async def test_a_signal_asks_and_a_second_one_cancels_the_root() -> None:
    """SIGINT is «interrupted», SIGTERM and SIGHUP «terminated»; again: the root goes at once."""
    for first, detail in ((signal.SIGINT, "interrupted"), (signal.SIGHUP, "terminated")):
        stop = Stop()
        async with trio.open_nursery() as root:
            await root.start(watch_signals, stop, root.cancel_scope)
            os.kill(os.getpid(), first)
            with trio.fail_after(60):
                await stop.wait()
            assert stop.detail == detail
            assert stop.second_signal is None
            os.kill(os.getpid(), signal.SIGTERM)
            with trio.fail_after(60):
                await trio.sleep_forever()
        assert stop.second_signal == signal.SIGTERM


async def test_a_stop_cuts_a_start_up_step() -> None:
    """A preflight that hangs does not hold a stop up; one that ends leaves nothing behind."""
    stop = Stop()
    reached = False
    with trio.fail_after(60):
        async with stop.cuts():
            reached = True
        async with trio.open_nursery() as nursery:

            async def ask_soon() -> None:
                await trio.testing.wait_all_tasks_blocked()
                stop.ask("terminated")

            nursery.start_soon(ask_soon)
            async with stop.cuts():
                await trio.sleep_forever()
    assert reached
    assert stop.asked
