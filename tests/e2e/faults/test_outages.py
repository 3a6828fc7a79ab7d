"""The relay fails for a while: patience, an honest status, and everything answered afterwards."""

import itertools
import os
from functools import partial
from pathlib import Path

import trio

from agentconnect.embedded.leases import State
from agentconnect.embedded.timing import Timing
from tests.e2e.faults.stand import POLL, RESULT, Log, Stand, end, stand, together
from tests.support.relay import running_relay
from tests.support.worker import until

REQUEST = "echo this back"
STORM_S = float(os.environ.get("AGENTCONNECT_STORM_S", "14"))
"""How long results are refused; 90 is the field report's."""


def gaps(times: list[float]) -> list[float]:
    """The seconds between tries."""
    return [after - before for before, after in itertools.pairwise(times)]


async def test_a_storm_of_503_does_not_use_up_the_retries_of_an_answer(tmp_path: Path) -> None:
    """D3: few tries with growing gaps, counted as owed all the while, posted once afterwards."""
    log = Log()
    async with stand(tmp_path, faults=log) as case:
        await case.start()
        storm = case.plan(RESULT, status=503, times=10**6)
        source = await case.relay.say(REQUEST)
        await until(lambda: case.of_relay("pending_results") == 1, "an owed result")
        await until(lambda: bool(log.times_of(RESULT)), "the first try")
        await trio.sleep_until(log.times_of(RESULT)[0] + STORM_S)  # the storm's own length
        tries = log.times_of(RESULT)
        assert len(tries) <= 10
        assert len(tries) >= 4
        assert gaps(tries)[-1] > gaps(tries)[0]  # how they grow: test_long_outages, by its clock
        assert case.of_relay("pending_results") == 1
        assert case.of_relay("state") == "connected"
        assert await case.state_of(source) == State.LEASED
        storm.times = 0
        await case.closed(source)
        await case.settled()
        assert len(log.times_of(RESULT)) == len(tries) + 1
        assert await case.texts() == [REQUEST]


async def retry_after(folder: Path) -> None:
    """A 429 that names three seconds."""
    log = Log()
    async with stand(folder, faults=log) as case:
        await case.start()
        case.plan(RESULT, status=429, headers=((b"retry-after", b"3"),))
        source = await case.relay.say(REQUEST)
        await case.closed(source)
        (wait,) = gaps(log.times_of(RESULT))
        assert wait >= 3.0
        assert await case.texts() == [REQUEST]


async def cut_poll(folder: Path) -> None:
    """The connection of an idle poll goes while it waits."""
    async with stand(folder) as case:
        held = trio.Event()
        fault = case.plan(POLL, method="GET", cut=True, hold=held, times=2)
        case.launch()
        await fault.reached.wait()
        source = await case.relay.say(REQUEST)
        held.set()
        await case.closed(source)
        await case.settled()
        assert await case.texts() == [REQUEST]
        assert case.prompts() == [REQUEST]


async def lost_poll(folder: Path) -> None:
    """The relay believes that the task was taken; its lease ends and it is served again."""
    async with stand(folder, timing=Timing(visibility_s=0.6, sweep_s=0.1, attempts=100)) as case:
        source = await case.relay.say(REQUEST)
        case.plan(POLL, method="GET", drop=True)
        case.launch()
        await case.closed(source)
        await case.settled()
        assert await case.texts() == [REQUEST]
        assert case.prompts() == [REQUEST]
        (task,) = await case.relay.relay.tasks_of(source)
        assert task.attempt >= 2


async def test_a_connection_cut_mid_poll_costs_a_moment(tmp_path: Path) -> None:
    """A cut poll, a poll whose answer was lost, a relay that names its own wait."""
    await together(
        partial(retry_after, tmp_path / "retry-after"),
        partial(cut_poll, tmp_path / "cut"),
        partial(lost_poll, tmp_path / "lost"),
    )


async def test_relay_down_across_a_worker_restart(tmp_path: Path) -> None:
    """Answered while nobody listens, killed, restarted while nobody listens: one answer arrives.

    The status says what is owed before and after the restart.
    """
    request = "wait go and say this"
    async with stand(tmp_path) as case:
        await case.start()
        source = await case.relay.say(request)
        await case.asked(request)
        placed = [m.event_id for m in await case.mine()]
        setup, port, workers = case.relay.setup, case.relay.port, list(case.workers)
        case.workers.clear()  # they outlive this relay
    try:
        down = Stand(case.relay, case.faults, tmp_path)
        down.workers = workers
        down.let("go")
        await until(lambda: down.of_relay("pending_results") == 1, "an answer that is owed")
        assert down.of_relay("connected") is False
        await down.kill()
        down.launch()
        await until(lambda: serving_alone(down), "a worker that waits for its relay")
        async with running_relay(tmp_path / "relay", port=port, setup=setup) as relay:
            back = Stand(relay, case.faults, tmp_path)
            back.workers = down.workers
            await back.closed(source)
            await back.settled()
            await until(lambda: back.nothing_stuck(), "a placeholder that says how it ended")
            assert (await back.texts()).count(request) == 1
            assert [m.event_id for m in await back.mine()][:1] == placed
            assert len(await back.mine()) <= 2  # the answer, or a pointer and the answer
            assert back.prompts() == [request]
    finally:
        end(down.workers)


def serving_alone(case: Stand) -> bool:
    """Started, not connected, and honest about the owed answer."""
    ours = case.worker.status.get("pid") == case.worker.process.pid
    owed = case.of_relay("pending_results")
    return ours and case.of_relay("state") == "reconnecting" and owed == 1
