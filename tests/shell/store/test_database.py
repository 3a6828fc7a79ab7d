"""The writer below the journal: who waits, who does not, and what goes together."""

import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from agentconnect.core.errors import StoreUnreadableError
from agentconnect.store.database import Database
from agentconnect.store.sqlite_file import Schema, connect

SCHEMA = Schema(application_id=7, version=1, script="CREATE TABLE t (n INTEGER PRIMARY KEY)")


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Database]:
    """A database with its writer."""
    path = folder / "t.db"
    database = Database(path, connect(path, SCHEMA))
    async with trio.open_nursery() as writer:
        writer.start_soon(database.run)
        yield database
        database.close()


def insert(number: int) -> list[tuple[str, tuple[object, ...]]]:
    """One row."""
    return [("INSERT INTO t VALUES (?)", (number,))]


def on_disk(folder: Path) -> list[int]:
    """What another process would see."""
    connection = sqlite3.connect(folder / "t.db")
    rows = [row[0] for row in connection.execute("SELECT n FROM t ORDER BY n")]
    connection.close()
    return rows


async def test_what_nobody_waits_for_goes_with_the_next_write(tmp_path: Path) -> None:
    """One commit for all of it, and it is there when the waiting one returns."""
    async with opened(tmp_path) as database:
        for number in range(5):
            database.write_later(insert(number))
        await database.write(insert(5), lambda: None)
        assert database.commits == 1
        assert on_disk(tmp_path) == [0, 1, 2, 3, 4, 5]


async def test_what_nobody_waits_for_is_written_all_the_same(tmp_path: Path) -> None:
    """With no other write to go with, in a moment."""
    async with opened(tmp_path) as database:
        database.write_later(insert(1))
        with trio.fail_after(60):
            while on_disk(tmp_path) != [1]:
                await trio.sleep(0.01)


async def test_closing_writes_what_is_queued(tmp_path: Path) -> None:
    """At once, and nothing is taken afterwards."""
    async with opened(tmp_path) as database:
        database.write_later(insert(1))
    assert on_disk(tmp_path) == [1]
    with pytest.raises(StoreUnreadableError, match="closed"):
        await database.write(insert(2), lambda: None)


async def test_a_failure_that_nobody_waits_for_is_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And it costs the others nothing."""
    async with opened(tmp_path) as database:
        await database.write(insert(1), lambda: None)
        database.write_later(insert(1))
        with caplog.at_level(logging.WARNING):
            await database.write(insert(2), lambda: None)
        assert "t.db cannot be written" in caplog.text
    assert on_disk(tmp_path) == [1, 2]


async def test_a_reader_sees_what_was_asked_for_before(tmp_path: Path) -> None:
    """Reads stand in the same line as writes."""
    async with opened(tmp_path) as database:
        database.write_later(insert(1))
        assert await database.read("SELECT n FROM t") == [(1,)]
        with pytest.raises(StoreUnreadableError, match="cannot be read"):
            await database.read("SELECT n FROM nowhere")


async def test_a_cancelled_writer_is_written(tmp_path: Path) -> None:
    """Only the waiting ends."""
    async with opened(tmp_path) as database:
        with trio.CancelScope() as scope:
            scope.cancel()
            await database.write(insert(1), lambda: None)
    assert on_disk(tmp_path) == [1]
