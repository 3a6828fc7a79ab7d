"""The launcher as a process: whose worker it ends, whose it leaves alone, when it refuses."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentconnect.service.launcher import COMMON, launcher
from agentconnect.service.place import Service
from tests.installer.rig import Machine

WORKER = """#!/bin/sh
if [ "${1:-}" = --export-config ]; then cat "$HOME/exported"; exit "${FAKE_EXPORT:-0}"; fi
echo "worker $$ $(umask) ${AGENT_CONNECT_TOKEN:-no token here} $AGENT_CONNECT_CONFIG" >>"$HOME/runs"
[ -z "${FAKE_STAYS:-}" ] || exec sleep 50
"""

#: Says that the launcher which asks is the unit's main process.
MANAGER = """#!/bin/sh
echo ActiveState=activating
read -r _ _ _ parent _ <"/proc/$PPID/stat"
case "$(tr "\\0" " " <"/proc/$parent/cmdline")" in
  *launch.sh*) echo "MainPID=$parent" ;;
  *) echo "MainPID=$PPID" ;;
esac
"""


class Launched:
    """A launcher with a worker that only writes down that it ran."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.home = machine.home
        machine.folder.mkdir()
        program = self.home / "agent-connect"
        program.write_text(WORKER)
        program.chmod(0o755)
        self.exports("export AGENT_CONNECT_TOKEN='t'")
        made = Service(
            home=self.home, config=machine.config, command=(str(program),), path="/usr/bin:/bin"
        )
        machine.launcher.write_text(launcher(made, COMMON.read_text()))
        self.started: list[subprocess.Popen[bytes]] = []

    @property
    def workspace(self) -> Path:
        return self.machine.folder / "workspace"

    @property
    def pids(self) -> Path:
        return self.workspace / ".worker.pids"

    def exports(self, text: str) -> None:
        (self.home / "exported").write_text(text + "\n")

    def runs(self) -> list[str]:
        file = self.home / "runs"
        return file.read_text().splitlines() if file.exists() else []

    def run(
        self, *words: str, shell: str = "sh", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return self.machine.run(shell, str(self.machine.launcher), *words, **variables)

    def stay(self) -> subprocess.Popen[bytes]:
        """One that goes on; returns when its worker runs."""
        before = len(self.runs())
        process = subprocess.Popen(
            ["sh", str(self.machine.launcher)], env=self.machine.environment(FAKE_STAYS="1")
        )
        self.started.append(process)
        until = time.monotonic() + 60
        while len(self.runs()) == before:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.01)
        return process


@pytest.fixture
def launched(machine: Machine) -> Iterator[Launched]:
    """Whatever it started is ended."""
    made = Launched(machine)
    yield made
    for process in made.started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("shell", ["sh", "bash", "dash"])
def test_it_becomes_the_worker(launched: Launched, shell: str) -> None:
    """Its own pid is written down; the settings stay in the file; the person's umask stays."""
    os.umask(0o022)
    done = launched.run(shell=shell)
    assert (0, "") == (done.returncode, done.stderr)
    (line,) = launched.runs()
    word, pid, umask, rest = line.split(" ", 3)
    assert ("worker", f"no token here {launched.machine.config}") == (word, rest)
    assert umask == "0022"
    assert pid == launched.pids.read_text().partition(":")[0]
    assert 0o600 == launched.pids.stat().st_mode & 0o777
    assert 0o700 == launched.workspace.stat().st_mode & 0o777


def test_the_last_worker_is_ended_first(launched: Launched) -> None:
    """Asked to stop, waited for, and only then the next one; a zombie is gone."""
    first = launched.stay()
    launched.machine.limit_s = 30  # nobody reaps the first one meanwhile
    done = launched.run()
    assert 0 == done.returncode
    assert f"ending the worker that runs already (pid {first.pid})" in done.stderr
    assert -signal.SIGTERM == first.wait(60)
    assert 2 == len(launched.runs())


def test_stop_ends_it_and_starts_none(launched: Launched) -> None:
    """What uninstalling uses."""
    first = launched.stay()
    assert 0 == launched.run("stop").returncode
    assert -signal.SIGTERM == first.wait(60)
    assert 1 == len(launched.runs())
    assert not launched.pids.exists()
    assert 0 == launched.run("stop").returncode


@pytest.mark.parametrize("remembered", ["{}:another-start", "{}", "{} 1 0 x -5 ::"])
def test_a_stranger_with_the_same_number_lives(launched: Launched, remembered: str) -> None:
    """Numbers are used again: a process is ended only if it is the one that was remembered."""
    stranger = subprocess.Popen(["sleep", "50"])
    launched.started.append(stranger)
    launched.workspace.mkdir()
    launched.pids.write_text(remembered.format(stranger.pid) + "\n")
    (launched.workspace / "status.json").write_text(f'{{\n  "pid": {stranger.pid},\n  "x": 1\n}}\n')
    done = launched.run()
    assert (0, "") == (done.returncode, done.stderr)
    assert stranger.poll() is None
    assert 1 == len(launched.runs())


def _old(launched: Launched, name: str = "agent_connect.worker") -> subprocess.Popen[bytes]:
    """What an old launcher left: its argument list has the program's name."""
    process = subprocess.Popen(["bash", "-c", f"exec -a {name} sleep 50"])
    launched.started.append(process)
    until = time.monotonic() + 60
    while name != Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")[0]:
        assert time.monotonic() < until
        time.sleep(0.01)
    return process


def test_the_worker_of_an_old_launcher_is_ended(launched: Launched) -> None:
    """It wrote a number only; the status file of the workspace names the same process."""
    old = _old(launched)
    launched.workspace.mkdir()
    launched.pids.write_text(f"{old.pid}\n")
    (launched.workspace / "status.json").write_text(f'{{"pid": {old.pid}, "state": "serving"}}')
    launched.run()
    assert -signal.SIGTERM == old.wait(60)


def test_the_relay_process_of_an_old_pair_is_ended_too(launched: Launched) -> None:
    """Else it would go on taking the messages, and nobody would answer them."""
    old = _old(launched, "ag2-sparrow")
    launched.workspace.mkdir()
    launched.pids.write_text(f"{old.pid}\n")
    launched.run()
    assert -signal.SIGTERM == old.wait(60)


def test_the_worker_of_another_workspace_lives(launched: Launched) -> None:
    """The status file names another process."""
    old = _old(launched)
    launched.workspace.mkdir()
    launched.pids.write_text(f"{old.pid}\n")
    (launched.workspace / "status.json").write_text(f'{{"pid": {old.pid}1}}')
    assert 0 == launched.run().returncode
    assert old.poll() is None


def test_it_refuses_beside_the_service(launched: Launched) -> None:
    """One that systemd runs would come back, and the two would end each other in turn."""
    show = "ActiveState=active\nMainPID=1"
    done = launched.run(FAKE_SHOW=show)
    assert 4 == done.returncode
    assert "systemctl --user restart agent-connect.service" in done.stderr
    assert [] == launched.runs()
    waiting = "MainPID=0\nActiveState=activating"
    assert 4 == launched.run(FAKE_SHOW=waiting).returncode


def test_the_service_itself_goes_on(launched: Launched) -> None:
    """Its own number is the unit's main process."""
    launched.machine.program("systemctl", MANAGER)
    done = launched.run()
    assert (0, "") == (done.returncode, done.stderr)
    assert 1 == len(launched.runs())


def test_launchd_is_asked_where_it_is(launched: Launched) -> None:
    """The same rule on a Mac."""
    (launched.machine.bin / "systemctl").unlink()
    launched.machine.program("launchctl", """#!/bin/sh\necho '\t"PID" = 1;'\n""")
    done = launched.run()
    assert 4 == done.returncode
    assert "launchctl kickstart" in done.stderr
    launched.machine.program("launchctl", "#!/bin/sh\nexit 113\n")
    assert 0 == launched.run().returncode


def test_without_a_token_it_refuses(launched: Launched) -> None:
    """With the file to put it into; a blank one is none."""
    for exported in ("", "export AGENT_CONNECT_TOKEN='  '"):
        launched.exports(exported)
        done = launched.run()
        assert 2 == done.returncode
        assert f"put AGENT_CONNECT_TOKEN into {launched.machine.config}" in done.stderr
    assert [] == launched.runs()


def test_a_config_that_cannot_be_read_ends_it(launched: Launched) -> None:
    """The worker's own sentence is there already."""
    assert 1 == launched.run(FAKE_EXPORT="2").returncode
    assert [] == launched.runs()


@pytest.mark.parametrize("named", ["~/w s", " ~/w s  "])
def test_the_workspace_is_the_workers(launched: Launched, named: str) -> None:
    """``~`` and blanks around it are read as the worker reads them."""
    launched.exports(f"export AGENT_CONNECT_TOKEN=t\nexport AGENT_CONNECT_WORKSPACE='{named}'")
    assert 0 == launched.run().returncode
    assert (launched.home / "w s" / ".worker.pids").is_file()
