"""Real processes: one queues and others send; killed at every step; two at once."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentconnect.deliver import Outbox
from tests.deliver.sending import STEPS, Ledger
from tests.deliver.support import BINDING


def start(path: Path, ledger: Path, step: str = "") -> subprocess.Popen[str]:
    """A sender as a process."""
    command = [sys.executable, "-m", "tests.deliver.sending", str(path), str(ledger), step]
    root = Path(__file__).resolve().parent.parent.parent
    return subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True)


def ended(sender: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for its end."""
    with sender:
        assert sender.stderr is not None
        said = sender.stderr.read()
    return sender.returncode, said


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step(path: Path, tmp_path: Path, step: str) -> None:
    """The next sender goes on at once: the same request, posted once, its end told."""
    ledger = tmp_path / "ledger"
    with Outbox(path) as outbox:
        outbox.put("x", BINDING, "hello")
    assert -signal.SIGKILL == ended(start(path, ledger, step))[0]
    assert (0, "") == ended(start(path, ledger))

    found = Ledger(ledger)
    assert ["x"] == found.ids("posted")
    assert 1 <= len(found.ids("told")) <= (2 if step == "told" else 1)
    asked = [line["params"] for line in found.lines("asked")]
    assert 1 <= len(asked) <= (2 if step in {"posted", "answered"} else 1)
    assert [{"id": "x", "binding": BINDING, "text": "hello"}] * len(asked) == asked
    with Outbox(path) as outbox:
        entry = outbox.get("x")
    assert entry is not None
    assert ("delivered", True) == (entry.state, entry.told)


def test_two_senders_share_the_work(path: Path, tmp_path: Path) -> None:
    """Two processes send each delivery once; every end is told once."""
    ledger = tmp_path / "ledger"
    idents = [f"x{number}" for number in range(30)]
    with Outbox(path) as outbox:
        for ident in idents:
            outbox.put(ident, BINDING, "hello")
        senders = [start(path, ledger), start(path, ledger)]
        assert [(0, "")] * 2 == [ended(sender) for sender in senders]
    found = Ledger(ledger)
    for what in ("asked", "posted", "told"):
        assert sorted(idents) == sorted(found.ids(what)), what


def test_a_storm_of_kills(path: Path, tmp_path: Path) -> None:
    """Senders killed again and again while another process queues: nothing lost, nothing twice."""
    ledger = tmp_path / "ledger"
    idents = [f"x{number}" for number in range(40)]
    with Outbox(path) as outbox:
        for number, ident in enumerate(idents):
            outbox.put(ident, BINDING, "hello")
            if number % 4 == 0:
                assert -signal.SIGKILL == ended(start(path, ledger, STEPS[number // 4 % 9]))[0]
        assert (0, "") == ended(start(path, ledger))
        assert {"delivered"} == {entry.state for entry in outbox.entries()}
    found = Ledger(ledger)
    assert sorted(idents) == sorted(found.ids("posted"))
    assert set(idents) == set(found.ids("told"))


def test_processes_make_the_file_together(path: Path) -> None:
    """Many processes that are first at the same time make one outbox, and none loses a delivery."""
    code = (
        "import sys\n"
        "from agentconnect.deliver import Outbox\n"
        "sys.stdin.readline()\n"
        "with Outbox(sys.argv[1]) as box:\n    box.put(sys.argv[2], 'a.b', 'hello')\n"
    )
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), f"x{number}"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for number in range(6)
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    for writer in writers:
        assert (0, "") == (writer.wait(), writer.communicate()[1])
    with Outbox(path) as outbox:
        assert {f"x{number}" for number in range(6)} == {entry.id for entry in outbox.entries()}
    assert [path.name] == [file.name for file in path.parent.iterdir()]


def test_a_new_entry_is_noticed(path: Path, tmp_path: Path) -> None:
    """A sender that waits in another process sends what is stored about a second later."""
    ledger = tmp_path / "ledger"
    with Outbox(path) as outbox:
        outbox.put("far", BINDING, "hello", delay_s=3600)  # keeps the sender from ending
        outbox.put("first", BINDING, "hello")
        with start(path, ledger) as sender:
            wait_until(sender, lambda: "first" in told(outbox))
            stored = time.monotonic()
            outbox.put("new", BINDING, "hello")
            wait_until(sender, lambda: "new" in told(outbox))
            sender.kill()
    (asked,) = (line for line in Ledger(ledger).lines("asked") if line["id"] == "new")
    assert asked["at"] - stored < 20  # a second; it would look of its own accord after thirty


def told(outbox: Outbox) -> set[str]:
    """What has ended and was told."""
    return {entry.id for entry in outbox.entries() if entry.told}


def wait_until(sender: subprocess.Popen[str], ready: Callable[[], bool]) -> None:
    """Wait for what a living sender does."""
    while not ready():
        assert sender.poll() is None
        time.sleep(0.02)
