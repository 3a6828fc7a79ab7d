"""``scripts/bench [--quick]``: measured side by side, interleaved, told as ratios.

Absolute figures depend on the machine and its other load; the ratios of one run do much less.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from tests.bench import measures
from tests.bench.deliveries import deliveries, lines
from tests.bench.measures import Figures, Found, Sizes
from tests.bench.rig import subjects_at
from tests.reference.environment import reference_python

ALL = ("ours", "reference", "floor")
TARGETS = {
    "start to first poll": 0.5,
    "message to answer, ms": 0.25,
    "message to placeholder": 0.7,
    "worker's CPU": 0.4,
    "1 room x": 0.25,
    "50 rooms x": 0.167,
    "one turn of": 0.15,
    "an echo in another room": 0.1,
    "memory grown": 0.25,
    "message to answer, agent starts": 0.06,
    "idle: wake-ups": 0.3,
}
"""The most that ours may be of the reference (design.md §6), by how a measure's name begins."""


def reference_or_none() -> Path | None:
    """The reference worker's interpreter; None (said) where it cannot be had."""
    try:
        return reference_python()
    except (pytest.skip.Exception, pytest.fail.Exception) as error:
        print(f"no reference worker: {error}", file=sys.stderr)
        return None


def spread(values: Sequence[float]) -> str:
    """The median, and the 99th percentile (the maximum where there are few) beside it."""
    ordered = sorted(values)
    middle = statistics.median(ordered)
    if len(ordered) == 1:
        return f"{middle:.3g}"
    return f"{middle:.3g} / {ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]:.3g}"


def row(title: str, found: Figures) -> None:
    """One line of the table: the three, ours against the reference, and what it should be."""
    cells = [spread(found[name]) if found.get(name) else "" for name in ALL]
    ratio = ""
    if found.get("reference"):
        ratio = f"{statistics.median(found['ours']) / statistics.median(found['reference']):.2f}"
    silent = "silence" in title
    most = "" if silent else next((f"≤ {v}" for k, v in TARGETS.items() if title.startswith(k)), "")
    print(f"| {title} | {' | '.join(cells)} | {ratio} | {most} |", flush=True)


def show(found: Found) -> None:
    """The lines of one measure."""
    for title, figures in found.items():
        row(title, figures)


async def run(folder: Path, reference: Path | None, sizes: Sizes) -> None:
    """Every measure, shown as it comes in."""
    names = tuple(name for name in ALL if name != "reference" or reference is not None)
    agents = tuple(name for name in names if name != "floor")
    show(await measures.starts(folder, reference, names, sizes))
    async with subjects_at(folder / "echo", reference, names) as subjects:
        show(await measures.echoes(subjects, sizes))
    async with subjects_at(folder / "busy", reference, agents) as subjects:
        show(await measures.idle(subjects, sizes))
        show(await measures.queued(subjects, sizes))
        show(await measures.flood(subjects, sizes))
        after = {subject.name: [subject.memory_mib()] for subject in subjects}
        show({"resident memory after all that, MiB": after})
        await trio.sleep(1)
        show(await measures.stops(subjects))
    show(await measures.slow_agent(folder / "slow", reference, agents, sizes))
    print("\n" + "\n".join(lines(await deliveries(folder / "deliveries", sizes.deliveries))))


def main() -> int:
    """Run the measures."""
    parser = argparse.ArgumentParser(prog="scripts/bench")
    parser.add_argument("--quick", action="store_true", help="about three minutes, not many")
    parser.add_argument("--deliveries", action="store_true", help="only what a delivery adds")
    asked = parser.parse_args()
    sizes = Sizes(quick=asked.quick)
    if asked.deliveries:
        with tempfile.TemporaryDirectory(prefix="agentconnect-bench-") as name:
            print("\n".join(lines(trio.run(deliveries, Path(name), sizes.deliveries))))
        return 0
    reference = reference_or_none()
    began, load = time.monotonic(), os.getloadavg()
    print("| measure (median / 99th percentile) | ours | reference | floor | ratio | target |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="agentconnect-bench-") as name:
        trio.run(run, Path(name), reference, sizes)
    loads = ", ".join(f"{value:.1f}" for value in (load[0], os.getloadavg()[0]))
    print(
        f"\n{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, load before and after {loads}, "
        f"{time.monotonic() - began:.0f} s; ratio: ours to the reference, of medians"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
