"""The journal: durable, shared commits, fail closed, bounded."""

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from agentconnect.core.errors import StoreUnreadableError
from agentconnect.core.relay.journal import State
from agentconnect.core.task import MediaMarker, Task, TaskId
from agentconnect.store import journal as journal_module
from agentconnect.store.journal import Journal, open_journal
from agentconnect.store.rows import Upload

WRITER = """
import sys, trio
from pathlib import Path
from agentconnect.core.task import Task, TaskId
from agentconnect.store.journal import open_journal

async def main():
    async with open_journal(Path(sys.argv[1])) as journal:
        for number in range(100000):
            task = TaskId(f"t{number}")
            await journal.accept([Task(id=task, body="x" * 200, room_id="!r:h")])
            await journal.placed(task, f"$e{number}")
            await journal.record_result(task, "{}")
            print(number, flush=True)

trio.run(main)
"""


def task(name: str, body: str = "hello") -> Task:
    return Task(id=TaskId(name), body=body, room_id="!r:h", access_tier="owner", lease_id="L")


async def test_what_was_recorded_is_there_after_a_restart(tmp_path: Path) -> None:
    """Every stage of a task survives closing and opening."""
    path = tmp_path / "journal.db"
    media = (MediaMarker(url="http://h/relay/v1/media/x/y", name="a.png"),)
    whole = Task(id=TaskId("a"), body="é\n😀", room_id="!r:h", media=media, attempt=3)
    upload = Upload(path="/w/a.txt", sha256="00", name="a.txt")
    async with open_journal(path) as journal:
        worker_id = journal.worker_id
        await journal.accept([whole, task("b"), task("c"), task("d")])
        await journal.placed(TaskId("a"), "$p")
        await journal.prompted(TaskId("a"))
        await journal.answered(TaskId("a"), "the answer")
        await journal.edited(TaskId("a"))
        await journal.record_upload(TaskId("a"), upload)
        await journal.record_result(TaskId("b"), '{"id":"b"}')
        await journal.record_result(TaskId("c"), '{"id":"c"}')
        journal.retire(TaskId("c"))
        await journal.record_result(TaskId("d"), '{"id":"d"}')
        journal.park(TaskId("d"), "HTTP 400")
        before = journal.counts()
    async with open_journal(path) as journal:
        assert journal.worker_id == worker_id
        assert journal.counts() == before
        assert (before.inflight, before.pending, before.parked, before.done) == (2, 1, 1, 1)
        assert await journal.unanswered() == [whole]
        progress = journal.progress(TaskId("a"))
        assert (progress.placeholder, progress.answer) == ("$p", "the answer")
        assert progress.prompted
        assert progress.answered
        assert progress.edited
        entry = journal.entry(TaskId("a"))
        assert entry is not None
        assert entry.uploads == (upload,)
        assert [found.result for found in journal.pending()] == ['{"id":"b"}']
        parked = journal.entry(TaskId("d"))
        assert parked is not None
        assert (parked.state, parked.error) == (State.PARKED, "HTTP 400")


async def test_an_answered_task_is_never_taken_up_again(tmp_path: Path) -> None:
    """A result deletes the envelope: nothing of it is left to run."""
    path = tmp_path / "journal.db"
    async with open_journal(path) as journal:
        await journal.accept([task("a", body="a secret question")])
        await journal.record_result(TaskId("a"), "{}")
    async with open_journal(path) as journal:
        assert await journal.unanswered() == []
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT task FROM tasks").fetchall() == [(None,)]
    connection.close()


async def test_callers_at_the_same_time_share_one_commit(tmp_path: Path) -> None:
    """Two hundred concurrent writes cost a few commits, not two hundred."""
    async with open_journal(tmp_path / "journal.db") as journal:
        names = [TaskId(f"t{number}") for number in range(200)]
        await journal.accept([task(name) for name in names])
        before = journal.commits
        async with trio.open_nursery() as turns:
            for name in names:
                turns.start_soon(journal.placed, name, f"$e-{name}")
        assert journal.commits - before < 10
        assert all(journal.progress(name).placeholder == f"$e-{name}" for name in names)


async def test_a_bad_write_costs_no_other_in_the_same_commit(tmp_path: Path) -> None:
    """One caller's refused row is that caller's error alone."""
    async with open_journal(tmp_path / "journal.db") as journal:
        await journal.accept([task("a")])
        errors: list[Exception] = []

        async def twice() -> None:
            try:
                await journal.accept([task("a")])
            except StoreUnreadableError as error:
                errors.append(error)

        async with trio.open_nursery() as turns:
            turns.start_soon(twice)
            turns.start_soon(journal.accept, [task("b")])
            turns.start_soon(journal.placed, TaskId("a"), "$p")
        assert len(errors) == 1
        assert journal.entry(TaskId("b")) is not None
        assert journal.progress(TaskId("a")).placeholder == "$p"


async def test_lone_surrogates_do_not_make_the_journal_unwritable(tmp_path: Path) -> None:
    """Half a character in an answer becomes U+FFFD, and the next task is still taken in."""
    path = tmp_path / "journal.db"
    async with open_journal(path) as journal:
        await journal.accept([task("a")])
        await journal.answered(TaskId("a"), "x\ud83dy\u2028z")
        await journal.record_result(TaskId("a"), '{"body":"x\ud83dy\u2028z\x85"}')
        await journal.accept([task("b")])
    async with open_journal(path) as journal:
        (entry,) = journal.pending()
        assert entry.result == '{"body":"x�y\u2028z\x85"}'


async def test_a_cancelled_caller_still_gets_its_write_done(tmp_path: Path) -> None:
    """Cancelling the wait neither loses the write nor leaves memory behind the disk."""
    async with open_journal(tmp_path / "journal.db") as journal:
        await journal.accept([task("a")])
        with trio.CancelScope() as turn:
            turn.cancel()
            await journal.placed(TaskId("a"), "$p")
        await journal.answered(TaskId("a"), "x")  # behind it in the queue
        assert journal.progress(TaskId("a")).placeholder == "$p"


async def test_the_memory_of_answered_ids_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest answered ids go first, in memory and on disk; open ones never do."""
    monkeypatch.setattr(journal_module, "DONE_WINDOW", 5)
    path = tmp_path / "journal.db"
    async with open_journal(path) as journal:
        await journal.accept([task("open")])
        for number in range(8):
            name = TaskId(f"t{number}")
            await journal.record_result(name, "{}")
            journal.retire(name, undelivered=number == 7)
        assert journal.counts().done == 5
    async with open_journal(path) as journal:
        assert journal.counts().done == 5
        assert journal.counts().undelivered == 1
        assert journal.entry(TaskId("t2")) is None
        assert journal.entry(TaskId("t3")) is not None
        assert journal.entry(TaskId("open")) is not None
        last = journal.entry(TaskId("t7"))
        assert last is not None
        assert last.result == "{}"


@pytest.mark.parametrize(
    "damage",
    [b"", b"x", b"not a database, but long enough to be one" * 10, "truncate", "foreign", "newer"],
    ids=["empty", "one byte", "garbage", "truncated", "another application's", "newer version"],
)
async def test_a_damaged_journal_is_never_taken_for_an_empty_one(
    tmp_path: Path, damage: bytes | str
) -> None:
    """Present but unusable is an error, and the file is left as it is."""
    path = tmp_path / "journal.db"
    async with open_journal(path) as journal:
        await journal.accept([task(f"t{number}", "x" * 2000) for number in range(50)])
    _damage(path, damage)
    before = path.read_bytes()
    with pytest.raises(StoreUnreadableError, match=r"journal\.db"):
        await _open(path)
    assert path.read_bytes() == before


def _damage(path: Path, damage: bytes | str) -> None:
    if isinstance(damage, bytes):
        path.write_bytes(damage)
    elif damage == "truncate":
        os.truncate(path, path.stat().st_size // 2)
    else:
        name = "application_id" if damage == "foreign" else "user_version"
        _sql(path, f"PRAGMA {name}=99")


async def _open(path: Path) -> None:
    async with open_journal(path):
        raise AssertionError("it opened")


async def test_a_folder_in_its_place_is_an_error(tmp_path: Path) -> None:
    """Anything else under that name fails closed as well."""
    (tmp_path / "journal.db").mkdir()
    with pytest.raises(StoreUnreadableError):
        await _open(tmp_path / "journal.db")


async def test_the_files_are_ours_alone(tmp_path: Path) -> None:
    """Main file, log and index are 0600 whatever the umask says."""
    old = os.umask(0o022)
    try:
        async with open_journal(tmp_path / "journal.db") as journal:
            await journal.accept([task("a")])
            files = list(tmp_path.iterdir())  # noqa: ASYNC240 - a test may look
            modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in files}
    finally:
        os.umask(old)
    assert modes == {"journal.db": 0o600, "journal.db-wal": 0o600, "journal.db-shm": 0o600}


async def test_a_failed_write_takes_nothing_in(tmp_path: Path) -> None:
    """A task whose commit fails is not in memory either, so it is taken when it comes again."""
    path = tmp_path / "journal.db"
    async with open_journal(path) as journal:
        _sql(
            path,
            "CREATE TRIGGER full BEFORE INSERT ON tasks BEGIN SELECT RAISE(ABORT, 'full'); END",
        )
        with pytest.raises(StoreUnreadableError, match="full"):
            await journal.accept([task("a")])
        assert journal.entry(TaskId("a")) is None
        _sql(path, "DROP TRIGGER full")
        await journal.accept([task("a")])
        assert journal.entry(TaskId("a")) is not None


def _sql(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


async def test_an_error_in_the_context_comes_out_as_it_is(tmp_path: Path) -> None:
    """The writer's nursery does not wrap what its user raises."""
    with pytest.raises(KeyError):
        async with open_journal(tmp_path / "journal.db"):
            raise KeyError("mine")


@pytest.mark.parametrize("round_", range(3))
async def test_a_killed_writer_loses_nothing_it_was_told_is_safe(
    tmp_path: Path, round_: int
) -> None:
    """After SIGKILL every acknowledged result is there, and the file is sound."""
    path = tmp_path / "journal.db"
    process = await trio.lowlevel.open_process(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    said = b""
    while said.count(b"\n") < 20 + 13 * round_:
        said += await process.stdout.receive_some()
    process.kill()
    await process.wait()
    said += await _rest(process.stdout)
    last = int(said.split(b"\n")[-2])
    async with open_journal(path) as journal:
        names = {entry.id for entry in journal.pending()}
    assert {f"t{number}" for number in range(last + 1)} <= names


async def _rest(stream: trio.abc.ReceiveStream) -> bytes:
    rest = b""
    async with stream:
        async for chunk in stream:
            rest += chunk
    return rest


async def test_progress_of_an_unknown_task_is_blank(tmp_path: Path) -> None:
    """Recording on an id that is not ours is no error and changes nothing."""
    async with open_journal(tmp_path / "journal.db") as journal:
        await journal.placed(TaskId("none"), "$e")
        assert journal.progress(TaskId("none")).placeholder == ""
        assert isinstance(journal, Journal)


async def test_a_journal_of_the_version_before_is_brought_up(tmp_path: Path) -> None:
    """Nothing in it is lost, and it is not refused."""
    path = tmp_path / "journal.db"
    async with open_journal(path) as journal:
        await journal.accept([task("a")])
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE tasks DROP COLUMN starts")
        connection.execute("ALTER TABLE tasks DROP COLUMN files")
        connection.execute("DROP TABLE debts")
        connection.execute("PRAGMA user_version=1")
    connection.close()
    async with open_journal(path) as journal:
        assert [found.id for found in await journal.take_up()] == ["a"]
        await journal.owe("!r:h", "$e", "done")


async def test_a_debt_outlives_the_run_until_it_is_paid(tmp_path: Path) -> None:
    """A placeholder that is owed a text is known to the next start, and only until it has it."""
    path = tmp_path / "journal.db"
    now = 1e9
    async with open_journal(path, wall_now=lambda: now) as journal:
        await journal.owe("!r:h", "$a", "see below \ud83d")
        await journal.owe("!r:h", "$b", "see below")
        assert journal.debts.earlier == ()
        journal.paid("$b")
    async with open_journal(path, wall_now=lambda: now) as journal:
        (debt,) = journal.debts.earlier
        assert (debt.room, debt.event_id, debt.text) == ("!r:h", "$a", "see below \ufffd")
    now += 8 * 86_400
    async with open_journal(path, wall_now=lambda: now) as journal:
        assert journal.debts.earlier == ()


async def test_only_runs_that_ended_with_their_process_are_counted(tmp_path: Path) -> None:
    """Waiting in line through a restart is no start; being prompted and cut off is."""
    path = tmp_path / "journal.db"
    for starts in (0, 0, 1, 2):
        async with open_journal(path) as journal:
            if journal.entry(TaskId("a")) is None:
                await journal.accept([task("a"), task("b")])
                continue
            await journal.take_up()
            assert journal.progress(TaskId("a")).starts == max(starts - 0, 0)
            assert journal.progress(TaskId("b")).starts == 0
            await journal.prompted(TaskId("a"))


async def test_a_second_run_is_on_disk_before_the_agent_is_prompted(tmp_path: Path) -> None:
    """A task that ends its process at once is counted all the same."""
    path = tmp_path / "journal.db"
    async with open_journal(path) as journal:
        await journal.accept([task("a")])
    async with open_journal(path) as journal:
        await journal.take_up()
        await journal.prompted(TaskId("a"))
        with sqlite3.connect(path) as connection:
            assert connection.execute("SELECT prompted FROM tasks").fetchall() == [(1,)]
        connection.close()


async def test_a_task_is_taken_up_under_its_newest_lease(tmp_path: Path) -> None:
    """A re-serve before the crash gave it another lease; the old one is worth nothing."""
    path = tmp_path / "journal.db"
    async with open_journal(path) as journal:
        await journal.accept([task("a")])
        journal.leased(TaskId("a"), "L2")
    async with open_journal(path) as journal:
        assert [found.lease_id for found in await journal.take_up()] == ["L2"]


async def test_a_damaged_task_costs_no_other(tmp_path: Path) -> None:
    """It counts as stranded; the rest is taken up."""
    path = tmp_path / "journal.db"
    async with open_journal(path) as journal:
        await journal.accept([task("a"), task("b")])
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE tasks SET task = x'7b' WHERE id = 'a'")
    connection.close()
    async with open_journal(path) as journal:
        assert [found.id for found in await journal.take_up()] == ["b"]
        assert journal.stranded(TaskId("a"))
