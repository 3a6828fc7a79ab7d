"""doctor and the workspace: who holds it, what can be read, and that nothing is touched."""

import json
import os
import sqlite3
import time
from pathlib import Path

import pytest

from agentconnect.config import settings
from agentconnect.config.settings import LoadedSettings
from agentconnect.core.delivery.capability import ELSEWHERE, UNDECLARED
from agentconnect.core.doctor import Finding, Level
from agentconnect.doctor import state
from agentconnect.store.inspect import inspect
from agentconnect.store.layout import Layout
from agentconnect.store.lock import WorkspaceLock
from agentconnect.store.rows import SCHEMA
from agentconnect.store.sqlite_file import connect


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedSettings:
    """Settings whose workspace is the test's."""
    return settings.load({"AGENT_CONNECT_WORKSPACE": str(tmp_path / "ws")}, {})


@pytest.fixture
def where(loaded: LoadedSettings) -> Layout:
    """That workspace, made."""
    made = Layout(state_dir=loaded.settings.workspace)
    made.prepare()
    return made


def look(loaded: LoadedSettings, where: Layout) -> dict[str, Finding]:
    """The lines, by check."""
    return {finding.check: finding for finding in state.look(loaded, where)}


def test_a_workspace_that_is_not_there_is_not_made(loaded: LoadedSettings, tmp_path: Path) -> None:
    """The first start makes it; where it cannot, that is a failure."""
    where = Layout(state_dir=loaded.settings.workspace)
    assert "first start" in look(loaded, where)["workspace"].text
    assert [] == list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    where = Layout(state_dir=tmp_path / "file" / "ws")
    assert Level.FAILURE == look(loaded, where)["workspace"].level
    where = Layout(state_dir=tmp_path / "file")
    assert "not a folder" in look(loaded, where)["workspace"].text


def test_a_workspace_open_to_others_is_a_warning(loaded: LoadedSettings, where: Layout) -> None:
    """It holds messages; the mend is a command."""
    assert Level.OK == look(loaded, where)["workspace"].level
    where.state_dir.chmod(0o755)
    found = look(loaded, where)["workspace"]
    assert Level.WARNING == found.level
    assert f"chmod 700 {where.state_dir}" in found.mend


def test_a_held_lock_is_a_running_worker(loaded: LoadedSettings, where: Layout) -> None:
    """And asking for it leaves it free for the next who starts."""
    assert "no worker runs" in look(loaded, where)["worker"].text
    with WorkspaceLock.acquire(where.lock):
        found = look(loaded, where)["worker"]
    assert (Level.OK, True) == (found.level, f"pid {os.getpid()}" in found.text)
    assert "no worker runs" in look(loaded, where)["worker"].text
    WorkspaceLock.acquire(where.lock).release()


def test_a_file_from_the_future_is_a_clock_set_back(loaded: LoadedSettings, where: Layout) -> None:
    """A dead worker looks alive then."""
    status = {"state": "serving", "updated_at": time.time() + 3600, "heartbeat_seconds": 15}
    where.status.write_text(json.dumps(status))
    found = look(loaded, where)["clock"]
    assert (Level.WARNING, True) == (found.level, "in the future" in found.text)


@pytest.mark.parametrize("kind", ["pipe", "folder", "huge"])
def test_what_stands_in_place_of_a_store_is_never_waited_for(
    kind: str, loaded: LoadedSettings, where: Layout
) -> None:
    """Named, with what to do; also where the journal should be."""
    for path in (where.sessions, where.access, where.children, where.journal, where.status):
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        else:
            with path.open("wb") as file:
                file.truncate(1 << 40)
    found = look(loaded, where)
    checks = {f"store.{name}" for name in ("sessions", "access", "children", "journal")}
    assert checks | {"status"} == {c for c, f in found.items() if f.level is not Level.OK}
    assert all(finding.mend for finding in found.values() if finding.level is not Level.OK)


def test_entries_of_the_access_map_that_mean_nothing_are_named(
    loaded: LoadedSettings, where: Layout
) -> None:
    """As the worker reads them: guests."""
    where.access.write_text('{"tierMap": {"@a:x": "ownr"}}')
    found = look(loaded, where)["store.access"]
    assert "@a:x" in found.text
    assert Level.WARNING == found.level, "the map is in force"
    where.access.write_text("{")
    found = look(loaded, where)["store.access"]
    assert (Level.FAILURE, True) == (found.level, "cannot be used" in found.text)


def test_a_worker_that_stands_by_says_for_whom(loaded: LoadedSettings, where: Layout) -> None:
    """The relay is well; another worker has the token."""
    relay = {"state": "standby", "connected": False}
    status = {"state": "serving", "updated_at": time.time(), "heartbeat_seconds": 15}
    where.status.write_text(json.dumps({**status, "relay": relay}))
    with WorkspaceLock.acquire(where.lock):
        found = look(loaded, where)["status"]
    assert "another one polls with this token" in found.text
    assert "agent of its own" in found.mend


def journal(path: Path) -> Path:
    """A new one, closed in order."""
    connect(path, SCHEMA).close()
    return path


def test_a_sound_journal_at_rest_is_read_without_a_trace(tmp_path: Path) -> None:
    """Neither the log nor its index appear beside it."""
    path = journal(tmp_path / "j.db")
    assert inspect(path, SCHEMA, in_use=False)
    assert [path] == list(tmp_path.iterdir())
    assert not inspect(tmp_path / "none.db", SCHEMA, in_use=False)


def test_a_journal_in_use_is_read_along(tmp_path: Path) -> None:
    """What its owner has committed and not yet moved over is seen."""
    path = journal(tmp_path / "j.db")
    owner = connect(path, SCHEMA)
    owner.execute("PRAGMA user_version=99")
    try:
        with pytest.raises(Exception, match="not a database of this version"):
            inspect(path, SCHEMA, in_use=True)
    finally:
        owner.close()


def test_a_log_that_a_crash_left_counts_and_stays(tmp_path: Path) -> None:
    """The copy is put right, the original is not."""
    path = journal(tmp_path / "j.db")
    owner = connect(path, SCHEMA)
    owner.execute("PRAGMA wal_autocheckpoint=0")
    owner.execute("PRAGMA user_version=99")
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for name in ("j.db", "j.db-wal"):
        (crashed / name).write_bytes((tmp_path / name).read_bytes())
    owner.close()
    with pytest.raises(Exception, match="not a database of this version") as caught:
        inspect(crashed / "j.db", SCHEMA, in_use=False)
    assert str(crashed / "j.db") in str(caught.value)
    assert {"j.db", "j.db-wal"} == {path.name for path in crashed.iterdir()}


@pytest.mark.parametrize("bad", [b"", b"{", b"x" * 5000])
def test_a_journal_that_is_none_is_refused(bad: bytes, tmp_path: Path) -> None:
    """Never taken for a new one, never replaced."""
    path = tmp_path / "j.db"
    path.write_bytes(bad)
    with pytest.raises(Exception, match=r"j\.db"):
        inspect(path, SCHEMA, in_use=False)
    assert bad == path.read_bytes()


def test_a_database_of_somebody_else_is_refused(tmp_path: Path) -> None:
    """Sound, and not ours."""
    path = tmp_path / "j.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE x (y)")
    other.commit()
    other.close()
    with pytest.raises(Exception, match="not a database of this version"):
        inspect(path, SCHEMA, in_use=False)


@pytest.mark.parametrize(
    ("block", "level", "words"),
    [
        ({"state": "enabled", "reason": None, "newer": 1}, Level.OK, "are delivered"),
        ({"state": "disabled", "reason": "no keyed posts"}, Level.WARNING, "no keyed posts"),
        ({"state": "withdrawn", "reason": "the relay"}, Level.WARNING, "withdrawn, the relay"),
        ({"state": "disabled", "reason": f"{UNDECLARED} And more."}, Level.OK, "does not say"),
        ({"state": "disabled", "reason": f"{ELSEWHERE} More."}, Level.OK, "another machine"),
        ({"reason": 5}, None, ""),
        ([], None, ""),
        (None, None, ""),
    ],
)
def test_what_a_running_worker_says_of_deliveries(
    block: object, level: Level | None, words: str, loaded: LoadedSettings, where: Layout
) -> None:
    """A block that this version cannot read is no news."""
    status = {"state": "serving", "updated_at": time.time(), "heartbeat_seconds": 15}
    where.status.write_text(json.dumps({**status, "delivery": block}))
    assert "delivery" not in look(loaded, where)
    with WorkspaceLock.acquire(where.lock):
        found = look(loaded, where).get("delivery")
    assert level == (found.level if found else None)
    assert found is None or words in found.text
