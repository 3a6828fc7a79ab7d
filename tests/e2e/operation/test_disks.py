"""Workspaces that cannot be written, are full, or are another user's; and a damaged file in one.

A read-only and a full disk are mounts of this test's own, which takes root; as any other user those
tests are skipped. Another user is simulated by giving root up for good in the child.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentconnect.embedded.timing import Timing
from tests.support.relay import running_relay
from tests.support.worker import environment, running_worker, start, until

DEAD_RELAY = "http://127.0.0.1:9/relay|secret-of-this-test"
NOBODY = 65534


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A small file system in memory; skips the test where it may not be mounted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system may be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(path: Path) -> None:
    """Write until there is no room left."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while os.write(handle, b"x" * 4096):
            pass
    os.close(handle)
    assert shutil.disk_usage(path.parent).free == 0


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts and other users take root")


@needs_root
async def test_a_read_only_workspace_is_refused_with_its_name(tmp_path: Path) -> None:
    """Exit 2 and a sentence; what else is wrong is told along: there is no status file to ask."""
    with mounted(tmp_path / "disk", "size=1m,ro") as disk:
        for place in (disk, disk / "below"):
            env = environment(
                DEAD_RELAY,
                tmp_path,
                AGENT_CONNECT_WORKSPACE=str(place),
                AGENT_CONNECT_REPO="/no/such/folder",
            )
            worker = start(env, tmp_path)
            assert await worker.ended() == 2
            told = worker.output()
            assert f"AGENT_CONNECT_WORKSPACE is {place}" in told
            assert "Read-only" in told
            assert "AGENT_CONNECT_REPO is /no/such/folder" in told
            assert "Traceback" not in told


@needs_root
def test_a_workspace_of_another_user_is_refused_with_the_owner() -> None:
    """Who runs a service as the wrong user is told so, and nothing is put there."""
    code = (  # all is imported first: the interpreter's own files may be root's alone
        "import os, sys\nfrom agentconnect import app\nfrom agentconnect.cli import loading\n"
        "from agentconnect.cli.main import main\n"
        f"os.setgroups([])\nos.setgid({NOBODY})\nos.setuid({NOBODY})\nsys.exit(main([]))"
    )
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)
        theirs = folder / "theirs"
        theirs.mkdir(mode=0o755)
        env = environment(DEAD_RELAY, folder, AGENT_CONNECT_WORKSPACE=str(theirs))
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**env, "HOME": scratch},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 2, done.stderr
        assert f"AGENT_CONNECT_WORKSPACE is {theirs}" in done.stderr
        assert "belongs to another user (uid 0)" in done.stderr
        assert "Traceback" not in done.stderr
        assert list(theirs.iterdir()) == []


@needs_root
async def test_a_disk_that_is_full_at_start_is_refused(tmp_path: Path) -> None:
    """Exit 2 and a sentence."""
    with mounted(tmp_path / "disk", "size=64k,nr_inodes=64") as disk:
        (disk / "workspace").mkdir()
        fill(disk / "filler")
        env = environment(DEAD_RELAY, tmp_path, AGENT_CONNECT_WORKSPACE=str(disk / "workspace"))
        worker = start(env, tmp_path)
        assert await worker.ended() == 2
        assert "AGENT_CONNECT_WORKSPACE" in worker.output()
        assert "No space left" in worker.output()
        assert "Traceback" not in worker.output()


@needs_root
async def test_a_disk_that_fills_up_loses_nothing_and_recovers(tmp_path: Path) -> None:
    """While it is full no task is taken that could not be kept; with room again all are answered.

    The status file is complained about once; the worker stays.
    """
    with mounted(tmp_path / "disk", "size=4m") as disk:
        timing = Timing(visibility_s=4.0, sweep_s=0.5, attempts=100)
        async with running_relay(tmp_path / "relay", timing=timing) as relay:
            workspace = {"AGENT_CONNECT_WORKSPACE": str(disk / "workspace")}
            async with running_worker(relay.token, tmp_path, **workspace) as worker:
                assert await relay.relay.ask(relay.room, relay.owner, "hi", 60)
                fill(disk / "filler")
                asked = [await relay.say(f"hello {number}") for number in range(3)]
                complaint = "the status file cannot be written"
                await until(lambda: complaint in worker.output(), "a complaint about the disk")
                await until(lambda: "journal.db" in worker.output(), "no task is taken")
                (disk / "filler").unlink()
                for event in asked:
                    assert "Hello" in await relay.relay.answer_to(event)
                until_now = time.time() - 5
                await until(lambda: worker.status.get("updated_at", 0) > until_now, "a beat")
                assert worker.output().count(complaint) == 1
                assert "Traceback" not in worker.output()
                assert await worker.stop() == 0


async def test_a_session_map_that_is_empty_is_said_and_survived(tmp_path: Path) -> None:
    """D17 (a): truncated to 0 bytes: it starts, says so once, tells the room, keeps the file."""
    async with running_relay(tmp_path / "relay") as relay:
        async with running_worker(relay.token, tmp_path) as worker:
            assert await relay.relay.ask(relay.room, relay.owner, "hello", 60)
            assert await worker.stop() == 0
        sessions = worker.state_dir / "sessions.json"
        assert json.loads(sessions.read_bytes())
        sessions.write_bytes(b"")
        said = len(worker.output())
        async with running_worker(relay.token, tmp_path) as worker:
            assert await relay.relay.ask(relay.room, relay.owner, "and now?", 60)
            complaints = [
                line for line in worker.output()[said:].splitlines() if "sessions.json" in line
            ]
            assert len(complaints) == 1
            bodies = await relay.bodies()
            assert any("fresh conversation" in body for body in bodies), bodies
            assert (worker.state_dir / "sessions.json.bad").read_bytes() == b""
            assert json.loads(sessions.read_bytes())
