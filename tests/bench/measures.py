"""The measures of design.md §6: each gives figures by worker, taken in turns within one run."""

import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import trio

from tests.bench.rig import Subject, start_to_first_poll_s, subjects_at

Figures = dict[str, list[float]]
"""Worker → figures."""

Found = dict[str, Figures]
"""Measure → worker → figures."""


THREADS_LINGER_S = 11.0
"""Trio keeps an idle thread for ten seconds."""


class Sizes:
    """How much of everything; a quick run is for seeing whether something broke."""

    def __init__(self, *, quick: bool) -> None:
        self.starts = 3 if quick else 7
        self.rounds, self.per_round = (4, 10) if quick else (10, 20)
        self.queued = 25 if quick else 200
        self.rooms, self.per_room = (50, 2) if quick else (50, 10)
        self.chunks = 20_000 if quick else 50_000
        self.slow_echoes = 5 if quick else 20
        self.idle_s = 30  # a whole long poll, and some heartbeats
        self.deliveries = 100 if quick else 1_000


async def starts(folder: Path, reference: Path | None, names: Sequence[str], sizes: Sizes) -> Found:
    """Start to first poll; the first round only fills the caches."""
    found: Figures = {name: [] for name in names}
    for number in range(sizes.starts + 1):
        for name in names:
            took = await start_to_first_poll_s(name, folder / f"start-{number}", reference)
            if number:
                found[name].append(took * 1e3)
    return {"start to first poll, ms": found}


async def echoes(subjects: Sequence[Subject], sizes: Sizes) -> Found:
    """One warm room, one message after the other."""
    latency: Figures = {subject.name: [] for subject in subjects}
    cpu: Figures = {subject.name: [] for subject in subjects}
    for number in range(sizes.rounds):
        for subject in subjects:
            before = subject.cpu_s()
            for item in range(sizes.per_round):
                latency[subject.name].append(await subject.ask(f"echo {number}-{item}") * 1e3)
            cpu[subject.name].append((subject.cpu_s() - before) / sizes.per_round * 1e3)
    placed = {s.name: [took * 1e3 for took in await s.placeholders_s()] for s in subjects}
    return {
        "message to answer, ms": latency,
        "message to placeholder, ms": placed,
        "worker's CPU a task, ms": cpu,
    }


async def queued(subjects: Sequence[Subject], sizes: Sizes) -> Found:
    """Many messages at once, in one room and over many: tasks a second, and the longest silence."""
    found: Found = {}
    for title, per_room, rooms in (
        (f"1 room x {sizes.queued} queued", sizes.queued, 1),
        (f"{sizes.rooms} rooms x {sizes.per_room} queued", sizes.per_room, sizes.rooms),
    ):
        rate = found.setdefault(f"{title}, s a task", {})
        silence = found.setdefault(f"{title}, longest silence, ms", {})
        for subject in subjects:
            where = [subject.room] if rooms == 1 else await subject.rooms(rooms)
            ends: list[float] = [time.perf_counter()]

            async def one(body: str, room: str, subject: Subject, ends: list[float]) -> None:
                await subject.ask(body, room)
                ends.append(time.perf_counter())

            async with trio.open_nursery() as asking:
                for number in range(per_room):
                    for room in where:
                        asking.start_soon(one, f"queued {number}", room, subject, ends)
            ends.sort()
            rate[subject.name] = [(ends[-1] - ends[0]) / (len(ends) - 1)]
            gaps = [later - earlier for earlier, later in pairwise(ends[1:])]
            silence[subject.name] = [max(gaps) * 1e3]
    return found


async def flood(subjects: Sequence[Subject], sizes: Sizes) -> Found:
    """One turn of very many chunks, with echoes in another room meanwhile."""
    took: Figures = {}
    beside: Figures = {}
    grown: Figures = {}
    for subject in subjects:
        (other,) = await subject.rooms(1)
        await subject.ask("warm up too", other)
        before = subject.memory_mib()
        echoed: list[float] = []

        async def keep_asking(subject: Subject, room: str, echoed: list[float]) -> None:
            while True:
                echoed.append(await subject.ask(f"beside {len(echoed)}", room) * 1e3)

        async with trio.open_nursery() as asking:
            asking.start_soon(keep_asking, subject, other, echoed)
            took[subject.name] = [await subject.ask(f"flood {sizes.chunks}") * 1e3]
            # the one under way may have waited for the flood: it counts as well
            await _until(lambda echoed=echoed: bool(echoed))
            asking.cancel_scope.cancel()
        beside[subject.name] = echoed
        grown[subject.name] = [max(subject.memory_mib("VmHWM") - before, 0.1)]
    return {
        f"one turn of {sizes.chunks} chunks, ms": took,
        "an echo in another room meanwhile, ms": beside,
        "memory grown by the flood, MiB": grown,
    }


async def _until(done: object) -> None:
    assert callable(done)
    with trio.move_on_after(30):
        while not done():
            await trio.sleep(0.01)


async def slow_agent(
    folder: Path, reference: Path | None, names: tuple[str, ...], sizes: Sizes
) -> Found:
    """The same echoes with an agent that needs 300 ms to start."""
    found: Figures = {name: [] for name in names}
    async with subjects_at(folder, reference, names, agent_start_s=0.3) as subjects:
        for number in range(sizes.slow_echoes):
            for subject in subjects:
                found[subject.name].append(await subject.ask(f"echo {number}") * 1e3)
    return {"message to answer, agent starts in 300 ms, ms": found}


async def idle(subjects: Sequence[Subject], sizes: Sizes) -> Found:
    """Nothing to do: memory, threads, wake-ups."""
    await trio.sleep(THREADS_LINGER_S)
    known = {subject.name: subject.wake_ups() for subject in subjects}
    woken = dict.fromkeys(known, 0)
    for _ in range(sizes.idle_s):  # each second: a thread that ends takes its count with it
        await trio.sleep(1)
        for subject in subjects:
            before, known[subject.name] = known[subject.name], subject.wake_ups()
            for thread, count in known[subject.name].items():
                woken[subject.name] += count - before.get(thread, 0)
    return {
        "idle: wake-ups a second": {s.name: [woken[s.name] / sizes.idle_s] for s in subjects},
        "idle: threads": {s.name: [float(s.threads())] for s in subjects},
        "idle: resident memory, MiB": {s.name: [s.memory_mib()] for s in subjects},
    }


async def stops(subjects: Sequence[Subject]) -> Found:
    """SIGTERM while idle."""
    return {"stop while idle, ms": {s.name: [await s.stop() * 1e3] for s in subjects}}
