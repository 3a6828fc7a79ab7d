"""doctor and the daemon's API: its address, its token, its workspaces."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentconnect.config import settings
from agentconnect.core.doctor import Finding, Level
from agentconnect.doctor import daemon
from agentconnect.store.layout import Layout
from agentconnect.store.lock import WorkspaceLock


def place(home: Path) -> Layout:
    """The workspace of this home, made."""
    made = Layout(state_dir=home / ".agent-connect" / "workspace")
    made.prepare()
    return made


def look(home: Path, listen: str, **values: str) -> dict[str, Finding]:
    """The lines about the API, by check."""
    values = {"HOME": str(home), "AGENT_CONNECT_DAEMON_LISTEN": listen, **values}
    loaded = settings.load(values, {})
    found = daemon.look(loaded, Layout(state_dir=loaded.settings.workspace))
    return {finding.check: finding for finding in found}


@pytest.fixture
def taken() -> Iterator[str]:
    """An address at which somebody listens."""
    with socket.socket() as there:
        there.bind(("127.0.0.1", 0))
        there.listen()
        yield f"127.0.0.1:{there.getsockname()[1]}"


def running(where: Layout, **status: object) -> WorkspaceLock:
    """A worker holds the workspace and says this of itself."""
    where.status.write_text(json.dumps(status))
    return WorkspaceLock.acquire(where.lock)


@pytest.mark.parametrize("listen", ["", "nonsense"])
def test_off_or_wrong_it_has_no_line_of_its_own(listen: str, home: Path) -> None:
    """A wrong address is said with the other settings."""
    assert {} == look(home, listen)


def test_before_the_first_start_all_is_well_and_nothing_is_made(home: Path) -> None:
    """The token is made by the start."""
    found = look(home, "127.0.0.1:0")
    assert [Level.OK] * 2 == [line.level for line in found.values()]
    assert "will be made at the first start" in found["daemon.token"].text
    assert [] == list(home.iterdir())


def test_an_address_that_another_program_has_is_a_failure(home: Path, taken: str) -> None:
    """And one that this machine does not have."""
    found = look(home, taken)["daemon"]
    assert Level.FAILURE == found.level
    assert f"cannot listen at {taken}: another program listens there" in found.text
    assert "port 0 takes any that is free" in found.mend
    found = look(home, "192.0.2.1:4170", AGENT_CONNECT_DAEMON_TOKEN="planted")["daemon"]
    assert (Level.FAILURE, True) == (found.level, "192.0.2.1:4170" in found.text)


def test_an_address_that_our_own_worker_has_is_fine(home: Path, taken: str) -> None:
    """By its status file; also where any port is taken."""
    where = place(home)
    with running(where, daemon={"listen": taken}):
        for listen in (taken, "127.0.0.1:0"):
            found = look(home, listen)["daemon"]
            assert (Level.OK, True) == (found.level, f"pid {os.getpid()}" in found.text)
        found = look(home, "127.0.0.1:1")["daemon"]
        assert (Level.WARNING, True) == (found.level, f"listens at {taken}, not" in found.text)
    assert Level.FAILURE == look(home, taken)["daemon"].level, "its worker is gone"


@pytest.mark.parametrize("status", [{}, {"daemon": None}, {"daemon": {"listen": 1}}])
def test_a_worker_that_does_not_say_where_it_listens(status: dict[str, object], home: Path) -> None:
    """It starts still, or was started without the setting."""
    with running(place(home), **status):
        found = look(home, "127.0.0.1:0")["daemon"]
    assert (Level.WARNING, True) == (found.level, "restart the worker" in found.mend)


def test_the_token_is_told_by_where_it_comes_from(home: Path) -> None:
    """Never by itself."""
    found = look(home, "127.0.0.1:0", AGENT_CONNECT_DAEMON_TOKEN="planted")["daemon.token"]
    assert (Level.OK, False) == (found.level, "planted" in found.text)
    file = place(home).daemon_token
    file.write_text("planted\n")
    file.chmod(0o600)
    found = look(home, "127.0.0.1:0")["daemon.token"]
    assert (Level.OK, f"{file} holds the API's token") == (found.level, found.text)
    file.chmod(0o644)
    found = look(home, "127.0.0.1:0")["daemon.token"]
    assert (Level.FAILURE, f"chmod 600 {file}") == (found.level, found.mend)
    file.write_text("two words planted")
    file.chmod(0o600)
    found = look(home, "127.0.0.1:0")["daemon.token"]
    assert (Level.FAILURE, False) == (found.level, "planted" in found.text + found.mend)


def test_a_token_that_is_missing_where_it_is_needed(home: Path, taken: str) -> None:
    """Others reach the address; or the API runs and the commands would not find its token."""
    found = look(home, "0.0.0.0:0")["daemon.token"]
    assert (Level.FAILURE, True) == (found.level, "AGENT_CONNECT_DAEMON_TOKEN" in found.mend)
    with running(place(home), daemon={"listen": taken}):
        found = look(home, taken)["daemon.token"]
    assert (Level.WARNING, True) == (found.level, "do not find" in found.text)


def test_a_workspaces_file_with_a_mistake_is_a_failure(home: Path) -> None:
    """What it says is the worker's own sentence."""
    file = place(home).workspaces
    file.write_text('{"v": 1, "workspaces": [{"id": "site", "cwd": "/no/such/folder"}]}')
    file.chmod(0o600)
    found = look(home, "127.0.0.1:0")["daemon.workspaces"]
    assert (Level.FAILURE, True) == (found.level, "Entry 1 of" in found.text)
    assert str(file) in found.mend
