"""Blocking work in one thread."""

import threading

import pytest
import trio
import trio.testing

from agentconnect.store.threads import OneThread


async def test_calls_run_one_at_a_time_in_order_and_beside_the_loop() -> None:
    """The second begins when the first has ended; neither runs where Trio does."""
    thread, told, seen = OneThread(), threading.Event(), list[str]()
    here = threading.get_ident()

    def first() -> None:
        told.wait()
        seen.append("first" if threading.get_ident() != here else "on the loop")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(thread.run, first)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(thread.run, lambda: seen.append("second"))
        await trio.testing.wait_all_tasks_blocked()
        assert [] == seen
        told.set()
    assert ["first", "second"] == seen


async def test_what_is_raised_comes_out_and_the_next_call_runs() -> None:
    """With the value of the next."""
    thread = OneThread()

    def broken() -> None:
        raise ValueError("that")

    with pytest.raises(ValueError, match="that"):
        await thread.run(broken)
    assert 1 == await thread.run(lambda: 1)


async def test_a_cancel_waits_for_what_has_begun_and_stops_what_has_not() -> None:
    """The value of the first is returned; the work of the second is never done."""
    thread, told, seen = OneThread(), threading.Event(), list[str]()

    def first() -> str:
        told.wait()
        return "whole"

    async def ask() -> None:
        seen.append(await thread.run(first))

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(thread.run, lambda: seen.append("never"))
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            told.set()
    assert ["whole"] == seen
    with trio.CancelScope() as scope:
        scope.cancel()
        await thread.run(lambda: seen.append("never"))
    assert ["whole"] == seen
