"""What must not grow with load, and slow or failing side routes that must hold up nobody."""

from pathlib import Path

import trio

from tests.e2e.faults.stand import ACK, EDIT, Stand, stand
from tests.support.worker import until

FEW, MANY = 4, 24


def threads(case: Stand) -> int:
    """Threads of the worker, by the kernel."""
    return len(list(Path(f"/proc/{case.worker.process.pid}/task").iterdir()))


def descriptors(case: Stand) -> int:
    """Open files of the worker."""
    return len(list(Path(f"/proc/{case.worker.process.pid}/fd").iterdir()))


async def test_hanging_turns_cost_no_threads(tmp_path: Path) -> None:
    """Six times as many open turns: as many threads, and a few descriptors for each agent."""
    async with stand(tmp_path) as case:
        await case.start()
        seen: dict[int, tuple[int, int]] = {}
        for number in range(MANY):
            relay = case.relay
            room = await relay.relay.create_room(str(number), relay.owner, (relay.agent,))
            await relay.say(f"wait go {number}", room=room)
            await case.asked(f"wait go {number}")
            seen[number + 1] = threads(case), descriptors(case)
        assert case.worker.status
        assert seen[MANY][0] <= seen[FEW][0] + 4
        assert seen[MANY][1] <= seen[FEW][1] + 5 * (MANY - FEW)
        case.let("go")
        await case.settled()


async def test_slow_edits_in_one_room_hold_up_no_other(tmp_path: Path) -> None:
    """An edit that hangs until released: the other room is answered meanwhile."""
    async with stand(tmp_path) as case:
        relay = case.relay
        other = await relay.relay.create_room("Other", relay.owner, (relay.agent,))
        await case.start()
        held = trio.Event()
        fault = case.plan(EDIT, hold=held)
        first = await relay.say("echo one")
        await fault.reached.wait()
        second = await relay.say("echo two", room=other)
        await case.closed(second)
        assert await case.texts(other) == ["echo two"]
        held.set()
        await case.closed(first)
        await case.settled()
        assert await case.texts() == ["echo one"]


async def test_a_relay_whose_acks_all_fail_still_gets_its_answer(tmp_path: Path) -> None:
    """Owed acks never hold up the turn, the answer or the next task."""
    async with stand(tmp_path) as case:
        await case.start()
        acks = case.plan(ACK, status=500, times=10**6)
        for request in ("echo one", "echo two"):
            await case.closed(await case.relay.say(request))
        await case.settled()
        assert acks.times < 10**6
        assert case.prompts() == ["echo one", "echo two"]
        assert await case.texts() == ["echo one", "echo two"]


async def test_an_idle_worker_stops_and_starts_without_a_wait(tmp_path: Path) -> None:
    """Its stop does not sit out the poll, and the next start polls at once, not as a standby."""
    async with stand(tmp_path) as case:
        await case.start()
        await until(lambda: case.relay.relay.open_polls(case.relay.agent) == 1, "an idle poll")
        with trio.fail_after(20):  # below the poll's 25 s
            assert await case.worker.stop() == 0
        seen: list[str] = []

        def connected() -> bool:
            seen.append(str(case.of_relay("state")))
            return case.worker.connected()

        case.launch()
        await until(connected, "a connected worker")
        assert "standby" not in seen
        await case.closed(await case.relay.say("echo back"))
