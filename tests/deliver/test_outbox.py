"""The file: stored before it is sent, the same content once, claims, moments, pruning, faults."""

import os
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentconnect.deliver import (
    DifferentContentError,
    Outbox,
    OutboxError,
    OutboxFullError,
)
from agentconnect.deliver import outbox as module
from agentconnect.deliver.answers import Delivered, Final, Part, Retry
from agentconnect.deliver.database import APPLICATION_ID
from agentconnect.deliver.holders import holder_name
from tests.deliver.support import BINDING, OTHER, Clock

HOUR = 3600.0
DAY = 24 * HOUR


def test_the_file_is_private_and_ours(outbox: Outbox, path: Path) -> None:
    """The outbox and what SQLite puts beside it can be read by nobody else."""
    outbox.put("x", BINDING, "hello")
    files = sorted(path.parent.iterdir())
    assert ["outbox.db", "outbox.db-shm", "outbox.db-wal"] == [file.name for file in files]
    assert {0o600} == {stat.S_IMODE(file.stat().st_mode) for file in files}
    with sqlite3.connect(path) as raw:
        assert ("wal",) == raw.execute("PRAGMA journal_mode").fetchone()
        assert (APPLICATION_ID,) == raw.execute("PRAGMA application_id").fetchone()
    raw.close()


def test_the_same_id_is_the_same_delivery(outbox: Outbox) -> None:
    """Storing it again changes nothing; other content under its id is an error."""
    assert outbox.put("x", BINDING, "hello", ["file:///a"])
    before = outbox.get("x")
    assert not outbox.put("x", BINDING, "hello", ["file:///a"])
    for binding, text, files in (
        (OTHER, "hello", ["file:///a"]),
        (BINDING, "Hello", ["file:///a"]),
        (BINDING, "hello", ["file:///b"]),
        (BINDING, "hello", []),
        (BINDING, None, ["file:///a"]),
    ):
        with pytest.raises(DifferentContentError, match="'x'"):
            outbox.put("x", binding, text, files)
    assert before == outbox.get("x")


def test_ids_in_different_normal_forms_are_different(outbox: Outbox) -> None:
    """Ids are compared as they are."""
    assert all(outbox.put(ident, BINDING, "x") for ident in ("é", "e\u0301", "É", "x1", "x10"))


def test_an_ended_id_stays_known(outbox: Outbox, clock: Clock) -> None:
    """A delivery that has ended is not sent again by storing it again."""
    outbox.put("x", BINDING, "hello")
    claim = outbox.claim("me")
    assert claim is not None
    outbox.end(claim, Delivered((Part(0, "$e", "created"),)))
    clock.at += 29 * DAY
    assert not outbox.put("x", BINDING, "hello")
    with pytest.raises(DifferentContentError):
        outbox.put("x", BINDING, "other")


def test_one_sender_at_a_time(outbox: Outbox, clock: Clock) -> None:
    """A claim keeps others away until it is given back, or for a quarter of an hour."""
    outbox.put("x", BINDING, "hello")
    first, second = holder_name(), holder_name()
    claim = outbox.claim(first)
    assert claim is not None
    assert outbox.claim(second) is None
    outbox.release(claim)
    assert outbox.claim(second) is not None
    clock.at += module.LEASE_S - 1
    assert outbox.claim(first) is None
    clock.at += 1
    assert outbox.claim(first) is not None


def test_a_claim_that_was_taken_over_changes_nothing(outbox: Outbox, clock: Clock) -> None:
    """A sender that comes back late cannot give back another one's claim; an end counts, once."""
    outbox.put("x", BINDING, "hello")
    first, second = holder_name(), holder_name()
    late = outbox.claim(first)
    clock.at += module.LEASE_S
    now = outbox.claim(second)
    assert late is not None
    assert now is not None
    outbox.retry(late, Retry("busy"), 0.0)
    outbox.release(late)
    assert outbox.claim(first) is None
    outbox.end(late, Final("rejected"))
    outbox.end(now, Delivered((Part(0, "$e", "created"),)))
    entry = outbox.get("x")
    assert entry is not None
    assert ("final", "rejected") == (entry.state, entry.reason)


def test_a_killed_holder_frees_its_claim(outbox: Outbox, path: Path) -> None:
    """What a killed process held is free at once."""
    outbox.put("x", BINDING, "hello")
    code = (
        "import os, sys\n"
        "from agentconnect.deliver import Outbox\n"
        "from agentconnect.deliver.holders import holder_name\n"
        f"box = Outbox({str(path)!r}, clock=lambda: {outbox.now()})\n"
        "assert box.claim(holder_name())\n"
        "print(flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert outbox.claim("me") is None
        child.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and not reaped
        assert outbox.claim("me") is not None


def test_its_own_deadline(outbox: Outbox, clock: Clock) -> None:
    """With no moment told it stops 23 hours after the first sending, however often it was sent."""
    outbox.put("x", BINDING, "hello")
    clock.at += 5 * DAY
    for _ in range(23):
        claim = outbox.claim("me")
        assert claim is not None
        outbox.retry(claim, Retry("busy"), 0.0)
        clock.at += HOUR
    end = outbox.claim("me")
    assert end is not None
    assert ("final", "expired") == (end.entry.state, end.entry.reason)
    assert clock.at - 23 * HOUR == end.entry.first_sent
    assert "busy" in end.entry.detail
    assert {} == end.params


@pytest.mark.parametrize(("told", "last"), [(2 * HOUR, 2 * HOUR), (99 * DAY, 23 * HOUR), (-1, 0)])
def test_the_moment_that_the_client_told(
    outbox: Outbox, clock: Clock, told: float, last: float
) -> None:
    """It stops when the client said, and no later than a client can mean."""
    outbox.put("x", BINDING, "hello")
    claim = outbox.claim("me")
    assert claim is not None
    outbox.retry(claim, Retry("busy", expires=clock.at + told), 0.0)
    entry = outbox.get("x")
    assert entry is not None
    clock.at += max(0.0, last - 1)
    again = outbox.claim("me")
    assert again is not None
    assert ("waiting" if last else "final") == again.entry.state
    outbox.release(again)
    clock.at += 1
    end = outbox.claim("me")
    assert end is not None
    assert "final" == end.entry.state


def test_never_sent(outbox: Outbox, clock: Clock) -> None:
    """What no client could be sent to waits 30 days, not 23 hours."""
    outbox.put("x", BINDING, "hello")
    clock.at += 30 * DAY - 1
    assert outbox.next_due() == clock.at - 30 * DAY + 1
    clock.at += 1
    end = outbox.claim("me")
    assert end is not None
    assert ("expired", "It was never sent.") == (end.entry.reason, end.entry.detail)


def test_a_clock_stepped_back_holds_nothing_up(outbox: Outbox, clock: Clock) -> None:
    """After a step back a pause is over early rather than a year late; an end stays an end."""
    outbox.put("x", BINDING, "hello")
    outbox.put("y", BINDING, "hello", delay_s=1)
    claim = outbox.claim("me")
    assert claim is not None
    outbox.end(claim, Final("rejected"))
    claim = outbox.claim("me")
    assert claim is not None
    outbox.tell(claim)
    clock.at -= 365 * DAY
    assert outbox.claim("me") is None  # the step is seen, and what it held up is due
    claim = outbox.claim("me")
    assert claim is not None
    assert "y" == claim.entry.id
    entry = outbox.get("x")
    assert entry is not None
    assert "final" == entry.state


def test_a_delay(outbox: Outbox, clock: Clock) -> None:
    """A delivery can be stored now for later."""
    outbox.put("x", BINDING, "hello", delay_s=60)
    assert outbox.claim("me") is None
    assert clock.at + 60 == outbox.next_due()
    clock.at += 60
    assert outbox.claim("me") is not None


def test_ended_entries_are_pruned(outbox: Outbox, clock: Clock) -> None:
    """What ended is forgotten after 30 days; what waits is not."""
    outbox.put("x", BINDING, "hello")
    claim = outbox.claim("me")
    assert claim is not None
    outbox.end(claim, Final("rejected"))
    clock.at += 30 * DAY - 10
    outbox.put("y", BINDING, "hello")
    assert ["x", "y"] == [entry.id for entry in outbox.entries()]
    clock.at += 11
    outbox.put("z", BINDING, "hello")
    assert ["y", "z"] == [entry.id for entry in outbox.entries()]
    assert ["y", "z"] == [entry.id for entry in outbox.entries(waiting=True)]


def test_too_many(outbox: Outbox, path: Path) -> None:
    """Ten thousand may wait; the next one is refused in words, and those stored stay stored."""
    outbox.put("x", BINDING, "hello")
    with sqlite3.connect(path) as raw:
        raw.execute(
            "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)"
            " INSERT INTO entry(number, id, binding, worker, params, fingerprint, parts, queued,"
            " deadline, due, marked) SELECT i, i, binding, worker, params, fingerprint, parts,"
            " queued, deadline, due, marked FROM entry, n"
        )
    raw.close()
    with pytest.raises(OutboxFullError, match="10000 deliveries wait"):
        outbox.put("y", BINDING, "hello")
    assert not outbox.put("x", BINDING, "hello")


def test_changes(outbox: Outbox, path: Path) -> None:
    """Another process's or object's writing shows; looking shows nothing."""
    before = outbox.changes()
    assert outbox.claim("me") is None
    assert before == outbox.changes()
    with Outbox(path) as other:
        other.put("x", BINDING, "hello")
    assert before != outbox.changes()


DAMAGED = {
    "empty": b"",
    "one byte": b"x",
    "something else": b"hello " * 100,
    "cut short": b"SQLite format 3\0" + bytes(200),
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_another_file_is_refused(path: Path, content: bytes) -> None:
    """What is not an outbox is neither used nor touched."""
    path.write_bytes(content)
    with pytest.raises(OutboxError, match=r"outbox\.db"):
        Outbox(path)
    assert content == path.read_bytes()


def test_another_database_is_refused(path: Path) -> None:
    """Nor is a database of another program."""
    raw = sqlite3.connect(path)
    raw.execute("CREATE TABLE entry(id)")
    raw.commit()
    raw.close()
    with pytest.raises(OutboxError, match="not an outbox"):
        Outbox(path)


def test_no_folder_and_a_folder(tmp_path: Path) -> None:
    """A path that cannot be is a sentence, not a traceback."""
    for path in (tmp_path / "none" / "x.db", tmp_path):
        with pytest.raises(OutboxError, match="cannot be used"):
            Outbox(path)


def test_leftovers_of_a_removed_outbox(path: Path) -> None:
    """What a removed file left behind is not read into the new one."""
    with Outbox(path) as old:
        old.put("x", BINDING, "hello")
        for suffix in ("-wal", "-shm"):
            name = path.with_name(path.name + suffix)
            path.with_name(name.name + ".copy").write_bytes(name.read_bytes())
    path.unlink()
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix + ".copy").replace(path.with_name(path.name + suffix))
    with Outbox(path) as new:
        assert [] == new.entries()


def test_a_removed_file(outbox: Outbox, path: Path) -> None:
    """An outbox that was removed or put back under an open one: the file with the name counts."""
    outbox.put("x", BINDING, "hello")
    seen = outbox.changes()
    for file in path.parent.glob("outbox.db*"):
        file.unlink()
    with Outbox(path) as other:
        other.put("y", BINDING, "hello")
        assert seen != outbox.changes()
        assert ["y"] == [entry.id for entry in outbox.entries()]
        outbox.put("z", BINDING, "hello")
        assert ["y", "z"] == [entry.id for entry in other.entries()]
    for file in path.parent.glob("outbox.db*"):
        file.unlink()
    assert outbox.put("y", BINDING, "hello")
    with Outbox(path) as other:
        assert ["y"] == [entry.id for entry in other.entries()]


def test_a_closed_outbox(outbox: Outbox) -> None:
    """Using a closed one is an error in words, and closing it twice is none."""
    outbox.close()
    outbox.close()
    with pytest.raises(OutboxError, match="closed"):
        outbox.put("x", BINDING, "hello")


def test_a_full_disk(tmp_path: Path) -> None:
    """Where the file may not grow, storing is refused in words and what was stored can be read."""
    code = (
        "import resource, signal\n"
        "from agentconnect.deliver import Outbox, OutboxError\n"
        "box = Outbox('outbox.db')\n"
        "box.put('x', 'a.b', 'hello')\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))\n"
        "for number in range(100):\n"
        "    try:\n        box.put(f'y{number}', 'a.b', 'z' * 50_000)\n"
        "    except OutboxError as error:\n        print(error)\n        break\n"
        "assert [e.id for e in box.entries()] == ['x', *(f'y{n}' for n in range(number))]\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)\n"
        "assert box.put(f'y{number}', 'a.b', 'z' * 50_000)\n"
    )
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert "" == done.stderr
    assert "outbox.db cannot be used: the disk is full" in done.stdout


def test_a_fork_opens_its_own(outbox: Outbox) -> None:
    """A child made by fork is told to open the file itself."""
    outbox._pid += 1  # as in a child: forking a test run with threads is no good idea
    with pytest.raises(OutboxError, match="fork"):
        outbox.get("x")


def test_many_threads(path: Path) -> None:
    """Threads may share one outbox: each delivery is claimed by one of them."""
    with Outbox(path) as outbox:
        for number in range(40):
            outbox.put(f"x{number}", BINDING, "hello")
        taken: list[str] = []

        def take() -> None:
            name = holder_name()
            while (claim := outbox.claim(name)) is not None:
                taken.append(claim.entry.id)

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {f"x{number}" for number in range(40)} == set(taken)
    assert 40 == len(taken)
