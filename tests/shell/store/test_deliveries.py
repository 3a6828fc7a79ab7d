"""The delivery store: durable, fail closed, one worker id, bounded, as quick when it is full."""

import json
import sqlite3
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from agentconnect.core.delivery.bindings import Binding, Purpose
from agentconnect.core.delivery.deciding import Known, Unreadable
from agentconnect.core.delivery.effects import Full, Recorded, Stale
from agentconnect.core.delivery.ledger import (
    BindingId,
    DeliveryId,
    Entry,
    Notice,
    PartState,
    Reason,
    ended,
    with_part,
)
from agentconnect.core.errors import StoreUnreadableError
from agentconnect.core.task import SessionKey, Tier
from agentconnect.store import delivery_rows as rows
from agentconnect.store.deliveries import Deliveries
from agentconnect.store.delivery_record import read_record
from agentconnect.store.layout import Layout
from agentconnect.store.rows import SCHEMA as JOURNAL
from agentconnect.store.sqlite_file import connect
from tests.core.delivery.entries import entry

OWNER = SessionKey(room="!r:h", tier=Tier.OWNER)
ANN = SessionKey(room="!r:h", tier=Tier.GUEST, sender="@ann:h")
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


class Clock:
    """Wall time by hand."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@asynccontextmanager
async def opened(
    folder: Path, clock: Clock, *, max_entries: int = 10_000
) -> AsyncIterator[Deliveries]:
    """The store of a folder."""
    store = Deliveries(Layout(state_dir=folder), clock, max_entries=max_entries)
    await store.open()
    yield store
    await store.close()


def bound(store: Deliveries, binding: Binding, name: str, clock: Clock, *, files: int = 0) -> Entry:
    """A new entry under a binding of the store."""
    return msgspec.structs.replace(
        entry(name, files=files, first_seen=clock.now),
        worker_id=store.worker_id,
        binding=binding.id,
        folder=binding.folder,
    )


def finished(plain: Entry, now: float, reason: Reason | None = None) -> Entry:
    posted = with_part(plain, 0, state=PartState.POSTED, event_id="$e", status="created")
    return ended(posted, now, reason, "why" if reason else "")


def modes(folder: Path) -> set[int]:
    """Of the database and what belongs to it."""
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.glob("deliveries.db*")}


async def test_what_was_recorded_is_there_after_a_restart(tmp_path: Path, clock: Clock) -> None:
    """Worker id, binding, entry and parts; the text only until the end."""
    async with opened(tmp_path, clock) as store:
        worker_id = store.worker_id
        binding = await store.bind(OWNER)
        first = bound(store, binding, "ä\u2028😀", clock, files=2)
        assert isinstance(await store.begin(first), Recorded)
        assert isinstance(await store.begin(bound(store, binding, "b", clock)), Recorded)
        done = finished(bound(store, binding, "b", clock), clock.now, Reason.EXPIRED)
        assert isinstance(await store.save(done), Recorded)
    async with opened(tmp_path, clock) as store:
        assert worker_id == store.worker_id
        assert 32 == len(worker_id)
        known = await store.consult(first.id, binding.id)
        assert Known(worker_id=worker_id, entry=first, binding=binding) == known
        known = await store.consult(DeliveryId("b"), BindingId("none"))
        assert Known(worker_id=worker_id, entry=done) == known
        bare = msgspec.structs.replace(first, text=None)
        assert (bare, done) == await store.unfinished()
        assert first.text == await store.text(first.id)
        assert isinstance(await store.text(done.id), Unreadable)
        assert Notice.OWED is done.notice
        settled = msgspec.structs.replace(done, notice=Notice.POSTED)
        await store.save(settled)
        assert (bare,) == await store.unfinished()
    with sqlite3.connect(tmp_path / "deliveries.db") as connection:
        rows = connection.execute("SELECT id, text FROM deliveries ORDER BY seq").fetchall()
        assert [(first.id, "done"), ("b", None)] == rows
    connection.close()


async def test_the_file_is_ours_alone(tmp_path: Path, clock: Clock) -> None:
    """0600 for it and what belongs to it, WAL, and marked as ours."""
    async with opened(tmp_path, clock) as store:
        await store.bind(OWNER)
        assert {0o600} == modes(tmp_path)
    connection = sqlite3.connect(tmp_path / "deliveries.db")
    assert "wal" == connection.execute("PRAGMA journal_mode").fetchone()[0]
    assert 0x41474344 == connection.execute("PRAGMA application_id").fetchone()[0]
    connection.close()


# --- failing closed

Harm = Callable[[Path], None]


def zero(path: Path) -> None:
    path.write_bytes(b"")


def one_byte(path: Path) -> None:
    path.write_bytes(b"S")


def short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:99])


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:6000])


def garbage(path: Path) -> None:
    path.write_bytes(b"garbage! " * 2000)


def pages(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[4096 : len(raw)] = b"\xa5" * (len(raw) - 4096)
    path.write_bytes(raw)


def foreign(path: Path) -> None:
    path.unlink()
    connect(path, JOURNAL).close()


def tomorrow(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=99")
    connection.close()


def nameless(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM meta WHERE name = 'worker_id'")
    connection.commit()
    connection.close()


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


HARMS = [zero, one_byte, short, cut, garbage, pages, foreign, tomorrow, nameless, folder]


@pytest.mark.parametrize("harm", HARMS)
async def test_a_store_that_is_not_sound_is_never_an_empty_one(
    tmp_path: Path, clock: Clock, harm: Harm
) -> None:
    """It cannot be opened, answers nothing, mints nothing, and is left as it is."""
    path = tmp_path / "deliveries.db"
    async with opened(tmp_path, clock) as store:
        binding = await store.bind(OWNER)
        await store.begin(bound(store, binding, "x", clock))
    harm(path)
    before = None if path.is_dir() else path.read_bytes()
    store = Deliveries(Layout(state_dir=tmp_path), clock)
    with pytest.raises(StoreUnreadableError, match=r"deliveries\.db"):
        await store.open()
    assert str(path) in store.trouble
    assert isinstance(await store.consult(DeliveryId("x"), binding.id), Unreadable)
    assert isinstance(await store.begin(entry("new")), Unreadable)
    assert isinstance(await store.save(entry("x")), Unreadable)
    with pytest.raises(StoreUnreadableError):
        await store.bind(OWNER)
    with pytest.raises(StoreUnreadableError):
        await store.unfinished()
    assert before is None or before == path.read_bytes()
    await store.close()


@pytest.mark.parametrize("harm", [zero, one_byte, short, garbage, foreign, Path.unlink])
async def test_harm_while_it_runs_and_healing(tmp_path: Path, clock: Clock, harm: Harm) -> None:
    """Unreadable from then on, nothing minted; it heals when a sound one is back, no restart."""
    path, kept = tmp_path / "deliveries.db", tmp_path / "kept"
    async with opened(tmp_path, clock) as store:
        binding = await store.bind(OWNER)
        first = bound(store, binding, "x", clock)
        await store.begin(first)
        worker_id = store.worker_id
        backup = sqlite3.connect(kept)
        source = sqlite3.connect(path)
        source.backup(backup)
        source.close()
        backup.close()
        harm(path)
        for _ in range(2):
            assert isinstance(await store.consult(first.id, binding.id), Unreadable)
        assert isinstance(await store.begin(bound(store, binding, "y", clock)), Unreadable)
        assert store.trouble
        kept.replace(path)
        known = await store.consult(first.id, binding.id)
        assert Known(worker_id=worker_id, entry=first, binding=binding) == known
        assert "" == store.trouble
        assert isinstance(await store.begin(bound(store, binding, "y", clock)), Recorded)


async def test_a_deleted_store_is_begun_anew_only_by_a_restart(
    tmp_path: Path, clock: Clock
) -> None:
    """Another worker id then: old bindings are nobody's, so nothing is posted twice."""
    async with opened(tmp_path, clock) as store:
        binding = await store.bind(OWNER)
        before = store.worker_id
        (tmp_path / "deliveries.db").unlink()
        with pytest.raises(StoreUnreadableError, match="taken away"):
            await store.bind(OWNER)
        assert not (tmp_path / "deliveries.db").exists()
    async with opened(tmp_path, clock) as store:
        assert before != store.worker_id
        known = await store.consult(DeliveryId("x"), binding.id)
        assert Known(worker_id=store.worker_id) == known


async def test_a_write_that_does_not_fit_is_no_write(tmp_path: Path, clock: Clock) -> None:
    """An id that is there already, one that is not: refused, and the store stays in order."""
    async with opened(tmp_path, clock) as store:
        binding = await store.bind(OWNER)
        first = bound(store, binding, "x", clock)
        await store.begin(first)
        assert isinstance(await store.begin(first), Unreadable)
        assert isinstance(await store.save(bound(store, binding, "gone", clock)), Unreadable)
        assert isinstance(await store.save(first), Recorded)
        assert "" == store.trouble


async def test_a_store_that_another_holds(tmp_path: Path, clock: Clock) -> None:
    """Unreadable while it does, and nothing is taken; in order as soon as it lets go."""
    async with opened(tmp_path, clock) as store:
        binding = await store.bind(OWNER)
        other = sqlite3.connect(tmp_path / "deliveries.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert isinstance(await store.begin(bound(store, binding, "x", clock)), Unreadable)
        assert "locked" in store.trouble
        other.execute("ROLLBACK")
        other.close()
        assert isinstance(await store.begin(bound(store, binding, "x", clock)), Recorded)


WRITER = """
import sys, trio, msgspec
from pathlib import Path
from agentconnect.core.task import SessionKey, Tier
from agentconnect.store.deliveries import Deliveries
from agentconnect.store.layout import Layout
from tests.core.delivery.entries import entry

async def main():
    store = Deliveries(Layout(state_dir=Path(sys.argv[1])), lambda: 1000.0)
    await store.open()
    binding = await store.bind(SessionKey(room="!r:h", tier=Tier.OWNER))
    for number in range(100000):
        await store.begin(msgspec.structs.replace(entry(f"d{number}"), binding=binding.id))
        print(number, flush=True)

trio.run(main)
"""


async def test_kill_9_loses_nothing_that_was_said_to_be_recorded(
    tmp_path: Path, clock: Clock
) -> None:
    """The last entry that was acknowledged is there."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    assert writer.stdout is not None
    last = -1
    for line in writer.stdout:
        last = int(line)
        if last >= 25:
            writer.kill()
    writer.stdout.close()
    writer.wait()
    async with opened(tmp_path, clock) as store:
        names = {found.id for found in await store.unfinished()}
        assert {f"d{number}" for number in range(last + 1)} <= names


# --- bounds


async def test_a_start_reads_no_texts(tmp_path: Path, clock: Clock) -> None:
    """What is in progress is named at once; its texts would fill the memory together."""
    large = 1024 * 1024
    async with opened(tmp_path, clock) as store:
        binding = await store.bind(OWNER)
        for number in range(20):
            plain = bound(store, binding, f"d{number}", clock)
            await store.begin(msgspec.structs.replace(plain, text="x" * large))
        tracemalloc.start()
        found = await store.unfinished()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert 20 == len(found)
        assert peak < large
        assert isinstance(await store.save(found[0]), Recorded)
        assert "x" * large == await store.text(found[0].id)


async def test_the_cap(tmp_path: Path, clock: Clock) -> None:
    """The oldest finished one older than a day makes room; if none may go, nothing is taken."""
    async with opened(tmp_path, clock, max_entries=3) as store:
        binding = await store.bind(OWNER)
        for name in ("open", "old", "young"):
            assert isinstance(await store.begin(bound(store, binding, name, clock)), Recorded)
        await store.save(finished(bound(store, binding, "old", clock), clock.now))
        clock.now += 23 * HOUR_S
        await store.save(finished(bound(store, binding, "young", clock), clock.now))
        assert isinstance(await store.begin(bound(store, binding, "a", clock)), Full)
        clock.now += HOUR_S + 1
        assert isinstance(await store.begin(bound(store, binding, "a", clock)), Recorded)
        assert isinstance(await store.begin(bound(store, binding, "b", clock)), Full)
        names = json.loads(read_record(tmp_path / "deliveries.db"))["deliveries"]
        assert ["open", "young", "a"] == list(names)


async def test_thirty_days(tmp_path: Path, clock: Clock) -> None:
    """From first-seen, but a day from its end at least; what is in progress stays."""
    async with opened(tmp_path, clock) as store:
        binding = await store.bind(OWNER)
        for name in ("open", "done", "late"):
            await store.begin(bound(store, binding, name, clock))
        await store.save(finished(bound(store, binding, "done", clock), clock.now))
        late = bound(store, binding, "late", clock)
        clock.now += 30 * DAY_S + 1
        await store.save(finished(late, clock.now))
        await store.sweep(frozenset())
        names = json.loads(read_record(tmp_path / "deliveries.db"))["deliveries"]
        assert ["open", "late"] == list(names)
        clock.now += DAY_S + 1
        await store.sweep(frozenset())
        names = json.loads(read_record(tmp_path / "deliveries.db"))["deliveries"]
        assert ["open"] == list(names)


async def test_an_entry_outlives_its_binding(tmp_path: Path, clock: Clock) -> None:
    """The binding is dropped and forgotten; a resend is answered all the same."""
    async with opened(tmp_path, clock) as store:
        binding = await store.bind(ANN)
        first = bound(store, binding, "x", clock)
        await store.begin(first)
        (dropped,) = await store.drop_unattested("!r:h", "@ann:h")
        assert "unattested" == dropped.dropped_why
        assert isinstance(await store.begin(bound(store, binding, "y", clock)), Stale)
        clock.now += 31 * DAY_S
        await store.sweep(frozenset())
        known = await store.consult(first.id, binding.id)
        assert Known(worker_id=store.worker_id, entry=first) == known


# --- bindings and folders


async def test_a_turn_renews_its_binding(tmp_path: Path, clock: Clock) -> None:
    """One per Session key and purpose; each renewed by itself, over restarts."""
    async with opened(tmp_path, clock) as store:
        owner, ann = await store.bind(OWNER), await store.bind(ANN)
        notices = await store.bind(OWNER, Purpose.NOTIFY)
        assert 3 == len({owner.id, ann.id, notices.id})
    clock.now += HOUR_S
    async with opened(tmp_path, clock) as store:
        again = await store.bind(OWNER)
        assert (owner.id, owner.expires + HOUR_S) == (again.id, again.expires)
        assert again == await store.binding(owner.id)
        assert notices.id == (await store.bind(OWNER, Purpose.NOTIFY)).id
        assert 2 == (await store.counts()).bindings
        clock.now += 31 * DAY_S
        assert owner.id != (await store.bind(OWNER)).id
        expired = await store.binding(owner.id)
        assert expired is not None
        assert "expired" == expired.dropped_why


async def test_a_start_drops_bindings_of_senders_not_listed(tmp_path: Path, clock: Clock) -> None:
    """And an expiry that was written down is not undone by a clock set back."""
    async with opened(tmp_path, clock) as store:
        owner, ann = await store.bind(OWNER), await store.bind(ANN)
        assert () == await store.sweep(frozenset({"@ann:h"}))
        (dropped,) = await store.sweep(frozenset())
        assert (ann.id, "unlisted") == (dropped.id, dropped.dropped_why)
        clock.now += 31 * DAY_S
        (dropped,) = await store.sweep(frozenset())
        clock.now -= 31 * DAY_S
        assert (owner.id, "expired") == (dropped.id, dropped.dropped_why)
        assert owner.id != (await store.bind(OWNER)).id


async def test_only_the_senders_bindings_of_that_room_are_dropped(
    tmp_path: Path, clock: Clock
) -> None:
    """Not the owner's, not another room's."""
    async with opened(tmp_path, clock) as store:
        await store.bind(OWNER)
        elsewhere = SessionKey(room="!other:h", tier=Tier.GUEST, sender="@ann:h")
        await store.bind(elsewhere)
        assert () == await store.drop_unattested("!r:h", "@ann:h")
        assert () == await store.drop_unattested("!r:h", "")
        assert 2 == (await store.counts()).bindings


async def test_which_folders_may_go(tmp_path: Path, clock: Clock) -> None:
    """Binding expired, dropped or unknown, and no entry in progress names the folder."""
    async with opened(tmp_path, clock) as store:
        owner, ann = await store.bind(OWNER), await store.bind(ANN)
        folders = [owner.folder, ann.folder, "left over"]
        await store.begin(bound(store, ann, "x", clock))
        assert ("left over",) == await store.removable(folders)
        clock.now += 2 * DAY_S
        assert ("left over",) == await store.removable(folders)
        await store.save(finished(bound(store, ann, "x", clock), clock.now))
        assert (ann.folder, "left over") == await store.removable(folders)


async def test_counts(tmp_path: Path, clock: Clock) -> None:
    """For the status file."""
    async with opened(tmp_path, clock) as store:
        binding = await store.bind(OWNER)
        for name in ("a", "b", "c"):
            await store.begin(bound(store, binding, name, clock))
        assert (await store.counts()).last_delivered_at is None
        await store.save(finished(bound(store, binding, "a", clock), clock.now + 5))
        await store.save(finished(bound(store, binding, "b", clock), clock.now + 9, Reason.UNKNOWN))
        counts = await store.counts()
        assert (1, 1, clock.now + 5) == (
            counts.in_progress,
            counts.bindings,
            counts.last_delivered_at,
        )


# --- the record as people see it


async def test_the_record_in_json(tmp_path: Path, clock: Clock) -> None:
    """The thread's form, read while the worker runs; without the text once it has ended."""
    async with opened(tmp_path, clock) as store:
        binding = await store.bind(OWNER)
        await store.begin(bound(store, binding, "x", clock, files=1))
        await store.save(finished(bound(store, binding, "x", clock, files=1), clock.now))
        shown = json.loads(read_record(tmp_path / "deliveries.db"))
        assert (1, store.worker_id) == (shown["version"], shown["worker_id"])
        found = shown["deliveries"]["x"]
        assert {
            *("worker_id", "binding", "room", "sender", "tier", "first_seen", "fingerprint"),
            *("parts", "text", "outcome", "reason", "finished_at", "notice"),
        } <= set(found)
        assert {
            *("kind", "name", "mime", "uri", "size", "sha256", "state", "event_id", "status")
        } == set(found["parts"][0])
        assert found["text"] is None


def test_no_record_is_not_an_empty_one(tmp_path: Path) -> None:
    """Looking makes no store."""
    with pytest.raises(StoreUnreadableError):
        read_record(tmp_path / "deliveries.db")
    assert [] == list(tmp_path.iterdir())


async def test_a_step_does_not_walk_through_the_record(tmp_path: Path, clock: Clock) -> None:
    """Every query of the path of a delivery uses an index, also at ten thousand entries."""
    async with opened(tmp_path, clock) as store:
        await store.bind(OWNER)
    connection = sqlite3.connect(tmp_path / "deliveries.db")
    queries: list[str] = []
    connection.set_trace_callback(queries.append)
    rows.find(connection, "x")
    rows.update(connection, entry("x"))
    rows.insert(connection, entry("x"))
    rows.unfinished(connection)
    rows.text(connection, "x")
    rows.drop_oldest_ended(connection, 1.0)
    rows.folder_in_use(connection, "f")
    rows.count_open(connection)
    rows.last_delivered_at(connection)
    rows.bindings(connection, "WHERE id = ? AND dropped_at IS NULL", ("b",))
    connection.set_trace_callback(None)
    for query in set(queries):
        if query.startswith(("SELECT", "UPDATE", "DELETE")):
            plan = connection.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()
            for *_, step in plan:
                assert "SCAN" not in step or "USING" in step, (query, step)
    connection.close()
