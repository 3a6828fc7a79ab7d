"""The crash matrix: one delivery, its worker killed at one boundary, another worker started.

``scripts/crash-matrix`` runs every row and writes the table into ``docs/reliability.md``. Nothing
is simulated: a worker process is ended by SIGKILL, the relay and the agent are the real ones. A
boundary is held from outside, by the relay's planned faults, the store's lock or a stopped agent.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from agentconnect.core.delivery import posting
from agentconnect.embedded.faults import Fault
from tests.e2e.deliveries_faults.rig import Json, Late, late
from tests.e2e.faults.stand import AT_ONCE, EDIT, PLACE, UPLOAD
from tests.support.worker import until

ID = "build-4711"
TEXT, CONTENT = "Nightly build is green.", "as built\n"
NOTICE = posting.notice_text([""], unsure=False).partition(":")[0]
RETRIED = f"delivery={ID} retry"
"""In the worker's log."""

PARTS = {"text": ("text",), "file": ("file",), "file and text": ("file", "text")}
COLUMNS = (
    "killed",
    "delivery",
    "in the room then",
    "told by then",
    "in the room in the end",
    "told on resend",
)
PAGE = Path(__file__).parents[3] / "docs" / "reliability.md"
BEGIN, END = "<!-- crash matrix -->", "<!-- /crash matrix -->"

Strike = Callable[[Late, Json, str], Awaitable[None]]


@dataclass(frozen=True)
class Row:
    """What was seen, a cell for each of ``COLUMNS``."""

    cells: tuple[str, ...]

    def __str__(self) -> str:
        return f"| {' | '.join(self.cells)} |"


def put(case: Late, to: Json, kind: str) -> None:
    """The delivery, into the agent's outbox."""
    files = {"report_txt": CONTENT} if "file" in kind else {}
    case.put(to, ID, TEXT if "text" in kind else None, **files)


def first(kind: str) -> str:
    """Where the first part is posted."""
    return UPLOAD if "file" in kind else PLACE


async def met(fault: Fault, case: Late) -> None:
    """A call is held by the relay."""
    await until(fault.reached.is_set, f"a held call: {case.worker.output()}")


async def killed_at(case: Late, fault: Fault) -> None:
    """Kill the worker whose call is held, then let go of the call."""
    await met(fault, case)
    await case.kill()
    let_go(fault)


def let_go(fault: Fault) -> None:
    assert fault.hold is not None
    fault.hold.set()


# --- the boundaries, in the order of a delivery's life


async def before_first_seen(case: Late, to: Json, kind: str) -> None:
    """The record cannot be written; the request has been read."""
    with case.store_held():
        put(case, to, kind)
        await until(lambda: case.sent(ID) is not None, "a request")
        await case.kill()
    assert case.entry(ID) is None


async def before_it_leaves(case: Late, to: Json, kind: str) -> None:
    """The room cools down (for ten seconds) because of another call: nothing is sent there."""
    case.plan(EDIT, status=429, headers=((b"retry-after", b"10"),))
    await case.ask("hello")
    before = case.posts()
    put(case, to, kind)
    await until(lambda: tried(case), f"first-seen: {case.worker.output()}")
    await case.kill()
    assert before == case.posts()


def tried(case: Late) -> bool:
    """The record says that the first part is to be posted."""
    entry = case.entry(ID)
    return entry is not None and entry["parts"][0]["state"] == "trying"


async def before_it_is_applied(case: Late, to: Json, kind: str) -> None:
    """The relay has the call and has done nothing yet, and never will."""
    held = case.plan(first(kind), hold=trio.Event(), cut=True)
    put(case, to, kind)
    await killed_at(case, held)


async def before_the_response(case: Late, to: Json, kind: str) -> None:
    """The relay has done it; its answer is not out."""
    held = case.plan(first(kind), hold=trio.Event(), drop=True)
    put(case, to, kind)
    await killed_at(case, held)


async def before_the_record(case: Late, to: Json, kind: str) -> None:
    """The answer was read, what it says cannot be written down."""
    held = case.plan(first(kind), hold=trio.Event())
    put(case, to, kind)
    await met(held, case)
    with case.store_held():
        let_go(held)
        await until(lambda: RETRIED in case.worker.output(), "a Retry")
        await case.kill()


async def between_parts(case: Late, to: Json, kind: str) -> None:
    """The first part is recorded, the second one is not posted."""
    held = case.plan(PLACE, hold=trio.Event(), cut=True)
    put(case, to, kind)
    await killed_at(case, held)


async def before_it_is_told(case: Late, to: Json, kind: str) -> None:
    """All is recorded; the agent's process is stopped and reads nothing."""
    held = case.plan(first(kind), hold=trio.Event())
    put(case, to, kind)
    await met(held, case)
    with stopped(case.listener):
        let_go(held)
        await until(lambda: outcome(case) is not None, f"the end: {case.worker.output()}")
        await case.kill()


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process of the case that does not run, and never will again."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)


def outcome(case: Late) -> str | None:
    entry = case.entry(ID)
    return entry["outcome"] if entry else None


async def after_it_was_told(case: Late, to: Json, kind: str) -> None:
    """The agent has its answer."""
    put(case, to, kind)
    await until(lambda: bool(case.notes("ends.jsonl")), f"the end: {case.worker.output()}")
    await case.kill()


def refused(case: Late, kind: str) -> None:
    """The last part is refused: by a word that leaves it open, or after another was posted."""
    if kind == "file and text":
        case.plan(PLACE, status=403)
    else:
        case.plan(first(kind), status=409, body=b'{"state":"unknown"}')


async def before_the_notice(case: Late, to: Json, kind: str) -> None:
    """It ended without being delivered, and the room does not know yet."""
    refused(case, kind)
    held = case.plan(PLACE, hold=trio.Event(), cut=True)
    put(case, to, kind)
    await met(held, case)
    await until(lambda: bool(case.heard(ID)), "an answer")
    await killed_at(case, held)


async def after_the_notice(case: Late, to: Json, kind: str) -> None:
    """The room has the notice, the worker does not know."""
    refused(case, kind)
    held = case.plan(PLACE, hold=trio.Event(), drop=True)
    put(case, to, kind)
    await met(held, case)
    await until(lambda: bool(case.heard(ID)), "an answer")
    await killed_at(case, held)


BOUNDARIES: dict[str, Strike] = {
    "before first-seen is recorded": before_first_seen,
    "after that, before the post leaves": before_it_leaves,
    "the post has left, the relay has not applied it": before_it_is_applied,
    "the relay has applied it, before its response": before_the_response,
    "after the response, before its record": before_the_record,
    "between the parts": between_parts,
    "all recorded, before the answer is told": before_it_is_told,
    "after the answer was told": after_it_was_told,
    "before the notice of a failure": before_the_notice,
    "after the notice, before its response": after_the_notice,
}


def plan() -> list[tuple[str, str]]:
    """Every row: boundary, delivery."""
    several = between_parts
    return [
        (name, kind)
        for name, strike in BOUNDARIES.items()
        for kind, parts in PARTS.items()
        if strike is not several or len(parts) > 1
    ]


async def run_row(folder: Path, boundary: str, kind: str) -> Row:
    """One row. Raises: AssertionError where a promise is broken."""
    async with late(folder) as case:
        await case.listening()
        to = await case.told()
        await BOUNDARIES[boundary](case, to, kind)
        then, told_then = await in_room(case), said(case.heard(ID)[-1:])
        if (
            RETRIED in case.worker.output()
        ):  # and then its listener was ended, quicker than it reads
            told_then = "Retry"
        await case.listening()
        entry = await case.ended(ID)
        params = case.sent(ID)
        assert params is not None
        answer = await case.deliver("resend", params)
        room, posts = await in_room(case), case.posts()
        # the whole promise, whatever the table says
        assert answer == await case.deliver("resend once more", params)
        assert posts == case.posts(), "a resend of what has ended was posted"
        for part in ("file", "text", "notice"):
            assert room.count(part) <= 1, f"{part} twice: {room}"
        parts = PARTS[kind]
        assert (answer["outcome"] == "delivered") == (tuple(room) == parts), (answer, room)
        assert answer["outcome"] == entry["outcome"], (answer, entry)
        posted = [part["kind"] for part in entry["parts"] if part["state"] == "posted"]
        assert [part for part in room if part != "notice"] == posted
        await same_content(case)
        assert "Traceback" not in case.worker.output(), case.worker.output()
        return Row((boundary, kind, listed(then), told_then, listed(room), said([answer])))


async def same_content(case: Late) -> None:
    """What the room has is what was delivered."""
    for message in await case.late():
        if message.kind == "file":
            assert await case.content(message) == CONTENT
        else:
            assert message.body == TEXT or message.body.startswith(NOTICE), message.body


async def in_room(case: Late) -> list[str]:
    """What has come, in its order."""
    found = []
    for message in await case.late():
        is_notice = message.body.startswith(NOTICE)
        found.append("file" if message.kind == "file" else "notice" if is_notice else "text")
    return found


def listed(found: list[str]) -> str:
    return ", ".join(found) or "nothing"


def said(answers: list[dict[str, Any]]) -> str:
    """An answer in a cell."""
    if not answers:
        return "nothing"
    (answer,) = answers
    match answer["outcome"]:
        case "delivered":
            return f"Delivered ({', '.join(part['status'] for part in answer['delivered'])})"
        case "retry":
            return "Retry"
        case _:
            return f"Final `{answer['reason']}`"


def table(rows: list[Row]) -> str:
    """In Markdown."""
    head = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}"
    return "\n".join([head, *map(str, rows)])


def rows_of(page: str) -> list[Row]:
    """The rows that the page shows."""
    lines = page.partition(BEGIN)[2].partition(END)[0].strip().splitlines()[2:]
    return [Row(tuple(cell.strip() for cell in line.strip("|").split(" | "))) for line in lines]


async def run_all(chosen: list[tuple[str, str]], folder: Path) -> tuple[list[Row], list[str]]:
    """Every row that was chosen, some side by side; those that broke, too."""
    found: dict[int, Row] = {}
    broken: list[str] = []
    limit = trio.CapacityLimiter(AT_ONCE)

    async def one(number: int, boundary: str, kind: str) -> None:
        async with limit:
            try:
                found[number] = await run_row(folder / str(number), boundary, kind)
                print(found[number], flush=True)
            except Exception as error:  # noqa: BLE001 - told below, the others go on
                broken.append(f"{boundary}, {kind}: {error!r}")
                print(f"BROKEN {broken[-1]}", file=sys.stderr, flush=True)

    async with trio.open_nursery() as running:
        for number, (boundary, kind) in enumerate(chosen):
            running.start_soon(one, number, boundary, kind)
    return [found[number] for number in sorted(found)], broken


def main() -> int:
    """0: all held."""
    asked = argparse.ArgumentParser(prog="scripts/crash-matrix", description=__doc__)
    asked.add_argument("--only", default="", help="rows whose boundary or delivery holds this")
    asked.add_argument("--write", action="store_true", help="put the table into the docs")
    given = asked.parse_args()
    chosen = [row for row in plan() if given.only in f"{row[0]}, {row[1]}"]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="agentconnect-crash-") as name:
        rows, broken = trio.run(run_all, chosen, Path(name))
    print(f"\n{len(rows)} of {len(chosen)} rows held, {time.monotonic() - began:.0f} s")
    if broken:
        return 1
    if given.write:
        if len(rows) < len(plan()):
            print("only the whole table is written", file=sys.stderr)
            return 2
        text = PAGE.read_text()
        before, after = text.partition(BEGIN)[0], text.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{table(rows)}\n{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
