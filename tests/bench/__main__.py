"""``scripts/bench [--quick]``: measured side by side, interleaved, told as ratios.

Absolute figures depend on the machine and its other load; the ratios of one run do not much.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from tests.bench.rig import Subject, relay_at, start_to_first_poll_s
from tests.reference.environment import reference_python

NAMES = ("ours", "reference", "floor")
Figures = dict[str, dict[str, list[float]]]


def reference_or_none() -> Path | None:
    """The reference worker's interpreter; None (said) where it cannot be had."""
    try:
        return reference_python()
    except (pytest.skip.Exception, pytest.fail.Exception) as error:
        print(f"no reference worker: {error}", file=sys.stderr)
        return None


def spread(values: Sequence[float]) -> str:
    """Median and the 99th percentile (the maximum where there are few), in milliseconds."""
    ordered = sorted(values)
    high = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"{statistics.median(ordered) * 1e3:9.1f} {high * 1e3:9.1f}"


def row(title: str, found: dict[str, list[float]]) -> None:
    """One measure: the three, then ours against each."""
    cells = [f"{name} {spread(found[name])}" for name in NAMES if found.get(name)]
    ours = statistics.median(found["ours"])
    ratios = [
        f"ours/{name} {ours / statistics.median(found[name]):.2f}"
        for name in NAMES[1:]
        if found.get(name) and statistics.median(found[name]) > 0
    ]
    print(f"{title:28} | {' | '.join(cells)} | {', '.join(ratios)}", flush=True)


async def start_ups(folder: Path, reference: Path | None, rounds: int) -> None:
    """Start to first poll."""
    found: dict[str, list[float]] = {name: [] for name in NAMES}
    for number in range(rounds):
        for name in NAMES:
            if name != "reference" or reference is not None:
                took = await start_to_first_poll_s(name, folder / f"start-{number}", reference)
                found[name].append(took)
    row("start to first poll, ms", found)


async def echoes_and_flood(
    folder: Path, reference: Path | None, rounds: int, per_round: int, chunks: int
) -> None:
    """Sequential echoes in one warm room, then one flood; then a stop."""
    async with relay_at(folder / "relay") as (relay, _watch):
        names = [n for n in NAMES if n != "reference" or reference is not None]
        subjects = [Subject(name, relay, folder / name) for name in names]
        latency: dict[str, list[float]] = {name: [] for name in names}
        cpu: dict[str, list[float]] = {name: [] for name in names}
        flood: dict[str, list[float]] = {name: [] for name in names}
        try:
            for subject in subjects:
                await subject.enrol()
                subject.start(reference)
                await subject.ask("warm up")
            for number in range(rounds):
                for subject in subjects:
                    before = subject.cpu_s()
                    for item in range(per_round):
                        took = await subject.ask(f"echo {number}-{item}")
                        latency[subject.name].append(took)
                    cpu[subject.name].append((subject.cpu_s() - before) / per_round)
            row("message to answer, ms", latency)
            placed = {subject.name: await subject.placeholders_s() for subject in subjects}
            row("message to placeholder, ms", placed)
            row("worker's CPU a task, ms", cpu)
            for subject in subjects:
                if subject.name != "floor":
                    flood[subject.name].append(await subject.ask(f"flood {chunks}"))
            row(f"one turn of {chunks} chunks, ms", flood)
            memory = ", ".join(
                f"{subject.name} {subject.memory_mib():.0f} MiB" for subject in subjects
            )
            print(f"{'resident memory afterwards':28} | {memory}")
        finally:
            stops = {subject.name: [await subject.stop()] for subject in subjects}
        row("stop while idle, ms", {k: v for k, v in stops.items() if k != "floor"})


def main() -> int:
    """Run the measures."""
    parser = argparse.ArgumentParser(prog="scripts/bench")
    parser.add_argument("--quick", action="store_true", help="a few minutes, not many")
    quick = parser.parse_args().quick
    reference = reference_or_none()
    print("each cell: median and 99th percentile; ratios are of medians, of this one run")

    async def run() -> None:
        with tempfile.TemporaryDirectory(prefix="agentconnect-bench-") as name:
            folder = Path(name)
            await start_ups(folder, reference, rounds=3 if quick else 7)
            await echoes_and_flood(
                folder / "echo",
                reference,
                rounds=4 if quick else 10,
                per_round=10 if quick else 20,
                chunks=5_000 if quick else 50_000,
            )

    trio.run(run)
    return 0


if __name__ == "__main__":
    sys.exit(main())
