"""Leases under long turns and replays, and tasks that waited while nobody worked."""

from pathlib import Path

from agentconnect.embedded.leases import State
from agentconnect.embedded.timing import Timing
from tests.e2e.faults.stand import stand
from tests.support.relay import Clock
from tests.support.worker import until


async def test_work_outlasting_its_lease_is_done_once(tmp_path: Path) -> None:
    """D15: served three times during one turn, each time with a new lease: one prompt, one answer.

    The latest lease is acked, and one task is running by the worker's own count.
    """
    request = "wait go long work"
    async with stand(tmp_path) as case:
        await case.start()
        source = await case.relay.say(request)
        await case.asked(request)
        leases: list[str] = []

        async def acked_anew() -> bool:
            (task,) = await case.relay.relay.tasks_of(source)
            return bool(task.acked) and task.lease_id not in leases

        for _ in range(3):
            await until(acked_anew, "an ack of the newest lease")
            (task,) = await case.relay.relay.tasks_of(source)
            leases.append(task.lease_id)
            if len(leases) < 3:
                await case.relay.relay.expire_lease(task.id)
        assert task.attempt == 3
        assert case.worker.status["tasks_running"] == 1
        assert case.prompts() == [request]
        case.let("go")
        await case.closed(source)
        await case.settled()
        assert await case.texts() == [request]
        assert case.prompts() == [request]


async def test_an_acked_turn_outlives_its_windows(tmp_path: Path) -> None:
    """Polling keeps the lease: many windows later it is still the first serve."""
    request = "wait go long work"
    clock = Clock()
    timing = Timing(wall=clock, sweep_s=0.1)
    async with stand(tmp_path, timing=timing) as case:
        await case.start()
        source = await case.relay.say(request)
        await case.asked(request)

        async def lasts() -> bool:
            (now,) = await case.relay.relay.tasks_of(source)
            return bool(now.acked) and now.until > clock.now

        for _ in range(6):
            await until(lasts, "an acked lease")
            await until(lambda: case.relay.relay.open_polls(case.relay.agent) == 1, "a poll")
            clock.forward(timing.visibility_s + 1)
        await until(lasts, "an extended lease")
        case.let("go")
        await case.closed(source)
        (task,) = await case.relay.relay.tasks_of(source)
        assert (task.attempt, task.state) == (1, State.DONE)
        assert await case.texts() == [request]


async def test_messages_older_than_the_start_are_not_dropped(tmp_path: Path) -> None:
    """D14: asked while no worker ran, one in 1970 and one in the future by their clocks."""
    async with stand(tmp_path) as case:
        asked = []
        for number, skew_s in enumerate((0.0, -1.8e9, 4e8)):
            case.faults.skew_s = skew_s
            asked.append(await case.relay.say(f"echo number {number}"))
        case.faults.skew_s = 0.0
        await case.start()
        for source in asked:
            await case.closed(source)
        await case.settled()
        wanted = [f"echo number {number}" for number in range(3)]
        assert case.prompts() == wanted
        assert sorted(await case.texts()) == wanted
