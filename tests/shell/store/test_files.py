"""The JSON recipe, the layout and the lock."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from agentconnect.core.errors import StoreUnreadableError, WorkspaceHeldError
from agentconnect.store.atomic import read_file, write_file
from agentconnect.store.layout import Layout
from agentconnect.store.lock import WorkspaceLock

HOLD = """
import sys
from pathlib import Path
from agentconnect.store.lock import WorkspaceLock
lock = WorkspaceLock.acquire(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_is_replaced_whole_and_ours_alone(tmp_path: Path, *, durable: bool) -> None:
    """The new bytes are there, mode 0600, and no temporary file is left."""
    path = tmp_path / "status.json"
    path.write_bytes(b"old")
    write_file(path, b"new", durable=durable)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "write", "fchmod"])
def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """A full disk at any step keeps the old text and drops the temporary file."""
    path = tmp_path / "status.json"
    path.write_bytes(b"old")

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space"):
        write_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_file_is_none_and_an_unreadable_one_is_not(tmp_path: Path) -> None:
    """Nothing there is no error; something there that cannot be read is one."""
    assert read_file(tmp_path / "none") is None
    with pytest.raises(StoreUnreadableError):
        read_file(tmp_path)


def test_the_layout_makes_private_folders(tmp_path: Path) -> None:
    """Every folder of the state is 0700, also one that was there before."""
    layout = Layout(state_dir=tmp_path / "state", instance="two")
    layout.state_dir.mkdir(mode=0o755)
    layout.prepare()
    for folder in (layout.state_dir, layout.relay_dir, layout.media):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert layout.journal == tmp_path / "state" / "relay" / "two" / "journal.db"


def test_a_second_process_is_refused_and_told_the_pid(tmp_path: Path) -> None:
    """The refusal names the holder; its end, even by kill, frees the lock."""
    path = tmp_path / "lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(WorkspaceHeldError, match=f"pid {holder.pid}"):
            WorkspaceLock.acquire(path)
        holder.kill()
        holder.wait()
    with WorkspaceLock.acquire(path):
        assert path.read_text() == f"{os.getpid()}\n"


def test_the_same_process_cannot_hold_it_twice(tmp_path: Path) -> None:
    """A second taking in one process is refused too, until the first is given up."""
    path = tmp_path / "lock"
    first = WorkspaceLock.acquire(path)
    with pytest.raises(WorkspaceHeldError):
        WorkspaceLock.acquire(path)
    first.release()
    first.release()
    WorkspaceLock.acquire(path).release()
