"""Many tasks at once under a kill, or on a relay where many calls fail: none lost, none doubled."""

import random
from collections import Counter
from pathlib import Path

import pytest

from agentconnect.embedded.faults import Fault, Faults
from agentconnect.embedded.leases import State
from agentconnect.embedded.timing import Timing
from tests.e2e.faults.stand import PLACEHOLDER, Stand, stand
from tests.support.worker import until

pytestmark = pytest.mark.timeout(600)
LONG_S = 240.0
ENDLESS = {"AGENT_CONNECT_SESSION_TURNS": "0"}  # no budget: its notices are not the point


async def rooms_of(case: Stand, count: int) -> list[str]:
    """So many rooms with the agent in them."""
    relay = case.relay
    made = [
        await relay.relay.create_room(f"Room {number}", relay.owner, (relay.agent,))
        for number in range(count - 1)
    ]
    return [relay.room, *made]


async def ask_many(case: Stand, rooms: list[str], count: int) -> dict[str, str]:
    """Requests spread over the rooms; event id → request."""
    asked: dict[str, str] = {}
    for number in range(count):
        room = rooms[number % len(rooms)]
        asked[await case.relay.say(f"echo {number}", room=room)] = f"echo {number}"
    return asked


async def done(case: Stand, asked: dict[str, str]) -> int:
    """How many of them the relay has the answer of."""
    states = [await case.state_of(event_id) for event_id in asked]
    assert State.DEAD not in states
    return states.count(State.DONE)


async def all_done(case: Stand, asked: dict[str, str]) -> None:
    """Every one is answered and the worker owes nothing."""

    async def is_so() -> bool:
        return await done(case, asked) == len(asked)

    await until(is_so, f"{len(asked)} answers", LONG_S)
    await case.settled()


async def once_each(case: Stand, rooms: list[str], asked: dict[str, str]) -> None:
    """Each request is answered by one message, and no placeholder is left."""
    texts = [text for room in rooms for text in await case.texts(room)]
    assert not [text for text in texts if text.startswith(PLACEHOLDER)]
    assert Counter(texts) == Counter(asked.values())


async def test_200_tasks_killed_at_60_done(tmp_path: Path) -> None:
    """0 lost, 0 answered twice, 0 placeholders stuck; an answered one is not run again.

    What a poll brought to a process that died before it could record it comes with the next serve,
    after three windows; hence the short ones.
    """
    async with stand(tmp_path, timing=Timing(visibility_s=4.0, sweep_s=0.5, attempts=100)) as case:
        rooms = await rooms_of(case, 8)
        await case.start(**ENDLESS)
        asked = await ask_many(case, rooms, 200)

        async def sixty() -> bool:
            return await done(case, asked) >= 60

        await until(sixty, "60 answers", LONG_S)
        await case.kill()
        await case.start(**ENDLESS)
        await all_done(case, asked)
        await once_each(case, rooms, asked)
        runs = Counter(case.prompts())
        assert set(runs) == set(asked.values())
        assert len(case.prompts()) <= 200 + len(rooms)  # one open turn per room ran again


class Weather(Faults):
    """A share of all calls of the worker fails, in the three ways there are."""

    def __init__(self, seed: int, share: float) -> None:
        super().__init__()
        self._chance = random.Random(seed)
        self._share = share
        self.failed = self.calls = 0

    def take(self, method: str, path: str) -> Fault | None:
        if not path.startswith("/relay/v1/"):
            return None
        self.calls += 1
        if self._chance.random() >= self._share:
            return None
        self.failed += 1
        how = self._chance.choice(({"status": 503}, {"cut": True}, {"drop": True}))
        return Fault(method=method, path=path, **how)


async def test_100_tasks_with_18_percent_of_calls_failing(tmp_path: Path) -> None:
    """All answered once, nothing stuck; what a lost poll took is served again when it lapses."""
    weather = Weather(seed=18, share=0.18)
    timing = Timing(visibility_s=2.0, sweep_s=0.2, attempts=100)
    async with stand(tmp_path, faults=weather, timing=timing) as case:
        rooms = await rooms_of(case, 5)
        case.launch(**ENDLESS)
        asked = await ask_many(case, rooms, 100)
        await all_done(case, asked)
        await once_each(case, rooms, asked)
        assert weather.failed > 0.1 * weather.calls
