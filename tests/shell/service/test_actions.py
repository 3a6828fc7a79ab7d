"""``agent-connect service ACTION`` with fake service managers that write down their calls."""

import plistlib
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.installer.rig import TOKEN, Machine

DARWIN = (
    "import sys; from agentconnect.cli.options import parse; "
    "from agentconnect.cli.service import run_service; "
    "sys.exit(run_service(parse(sys.argv[1:]), 'darwin'))"
)
SETTINGS = f'AGENT_CONNECT_TOKEN="{TOKEN}"\nAGENT_CONNECT_ADAPTER=acp\n'


@pytest.fixture
def ready(machine: Machine) -> Machine:
    """A config file is written."""
    machine.folder.mkdir(mode=0o700)
    machine.config.write_text(SETTINGS + "AGENT_CONNECT_ACP_COMMAND=my-agent\n")
    machine.config.chmod(0o600)
    machine.program("my-agent", "#!/bin/sh\n")
    return machine


def on_mac(machine: Machine, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return machine.run(sys.executable, "-c", DARWIN, *words, **variables)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_print_touches_nothing(ready: Machine) -> None:
    """The unit, or the property list, on stdout; no file, no call."""
    before = files(ready.home)
    done = ready.worker("service", "print")
    assert (0, "") == (done.returncode, done.stderr)
    assert "Type=notify" in done.stdout
    assert f"AGENT_CONNECT_CONFIG={ready.config}" in done.stdout
    assert str(ready.bin) in done.stdout
    listed = plistlib.loads(on_mac(ready, "service", "print").stdout.encode())
    assert "space.ag2.agent-connect" == listed["Label"]
    assert before == files(ready.home)
    assert [] == ready.calls()


def test_install_and_install_again(ready: Machine) -> None:
    """Written, reloaded, enabled, restarted: each time the same."""
    for _ in range(2):
        ready.forget()
        done = ready.worker("service", "install")
        assert (0, "") == (done.returncode, done.stderr)
        assert [
            "systemctl --user daemon-reload",
            "systemctl --user enable agent-connect.service",
            "systemctl --user restart agent-connect.service",
            "loginctl show-user ann -p Linger --value",
        ] == ready.calls()
        assert "loginctl enable-linger ann" in done.stdout
    assert "Type=notify" in ready.unit.read_text()
    assert 0o700 == stat.S_IMODE(ready.launcher.stat().st_mode)
    assert "s3cr3t" not in ready.unit.read_text() + ready.launcher.read_text()
    assert [".agent-connect/config.env", ".agent-connect/launch.sh",
            ".config/systemd/user/agent-connect.service"] == files(ready.home)  # fmt: skip


def test_who_lingers_gets_no_hint(ready: Machine) -> None:
    """The hint is for those whose agent would end at logout."""
    assert "enable-linger" not in ready.worker("service", "install", FAKE_LINGER="yes").stdout


def test_a_service_that_does_not_start_says_where_to_look(ready: Machine) -> None:
    """Exit 1, with the commands that tell why."""
    done = ready.worker("service", "install", FAKE_RESTART="1")
    assert 1 == done.returncode
    assert "agent-connect service logs" in done.stdout
    assert "agent-connect doctor" in done.stdout


def test_uninstall_keeps_what_is_the_persons(ready: Machine) -> None:
    """Stopped, disabled, removed; settings and workspace stay; again is no error."""
    ready.worker("service", "install")
    kept = ready.folder / "workspace" / "sessions.json"
    kept.parent.mkdir()
    kept.write_text("{}")
    ready.forget()
    done = ready.worker("service", "uninstall")
    assert (0, "") == (done.returncode, done.stderr)
    assert [
        "systemctl --user disable --now agent-connect.service",
        "systemctl --user daemon-reload",
    ] == ready.calls()
    assert [".agent-connect/config.env", ".agent-connect/workspace/sessions.json"] == files(
        ready.home
    )
    again = ready.worker("service", "uninstall")
    assert 0 == again.returncode
    assert "there was no service" in again.stdout


@pytest.mark.parametrize(("state", "code"), [("inactive", 0), ("active", 1), ("activating", 1)])
def test_a_service_that_goes_on_is_not_called_removed(
    ready: Machine, state: str, code: int
) -> None:
    """Where systemd refuses, it is asked whether the worker runs on."""
    ready.worker("service", "install")
    done = ready.worker("service", "uninstall", FAKE_DISABLE="1", FAKE_ACTIVE=state)
    assert code == done.returncode
    assert (code == 1) == ("still runs it" in done.stdout)


def test_launchd(ready: Machine) -> None:
    """Unloaded and loaded on each install; unloaded and removed by uninstall."""
    ready.program("launchctl", '#!/bin/sh\necho "launchctl $*" >>"$CALLS"\nexit "${FAKE_CTL:-0}"\n')
    file = ready.home / "Library" / "LaunchAgents" / "space.ag2.agent-connect.plist"
    done = on_mac(ready, "service", "install")
    assert (0, "") == (done.returncode, done.stderr)
    assert [f"launchctl unload {file}", f"launchctl load {file}"] == ready.calls()
    assert (
        str(ready.config)
        == plistlib.loads(file.read_bytes())["EnvironmentVariables"]["AGENT_CONNECT_CONFIG"]
    )
    assert b"TOKEN" not in file.read_bytes()
    ready.forget()
    assert 0 == on_mac(ready, "service", "uninstall").returncode
    assert f"launchctl unload {file}" == ready.calls()[0]
    assert not file.exists()


def test_each_instance_has_a_service(ready: Machine) -> None:
    """The name comes from the instance's own config file."""
    own = ready.folder / "instances" / "scratch" / "config.env"
    own.parent.mkdir(parents=True)
    own.write_text(
        SETTINGS
        + "AGENT_CONNECT_ACP_COMMAND=my-agent\nAGENT_CONNECT_INSTANCE=scratch\n"
        + "AGENT_CONNECT_WORKSPACE=~/.agent-connect/instances/scratch/workspace\n"
    )
    own.chmod(0o600)
    ready.worker("service", "install")
    done = ready.worker("--config", str(own), "service", "install")
    assert 0 == done.returncode
    units = sorted(path.name for path in ready.unit.parent.iterdir())
    assert ["agent-connect-scratch.service", "agent-connect.service"] == units
    assert str(own) in (ready.unit.parent / units[0]).read_text()
    assert str(own) in (ready.folder / "launch-scratch.sh").read_text()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (None, "there is no config file"),
        ("", "AGENT_CONNECT_TOKEN"),
        (SETTINGS + "AGENT_CONNECT_INSTANCE='a b'\n", "AGENT_CONNECT_INSTANCE"),
        (SETTINGS + "AGENT_CONNECT_REPO=/no/such\n", "AGENT_CONNECT_REPO"),
    ],
)
def test_what_could_not_run_is_not_installed(
    machine: Machine, settings: str | None, sentence: str
) -> None:
    """A wrong setting is said now, not every ten seconds in a log; nothing is written."""
    if settings is not None:
        machine.folder.mkdir()
        machine.config.write_text(settings)
        machine.config.chmod(0o600)
    before = files(machine.home)
    done = machine.worker("service", "install", AGENT_CONNECT_TOKEN=TOKEN)
    assert 2 == done.returncode
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert before == files(machine.home)
    assert [] == machine.calls()


def test_what_the_service_would_not_see_is_named(ready: Machine) -> None:
    """A setting of this shell, and an agent that its PATH does not have; never a value."""
    (ready.bin / "my-agent").unlink()
    done = ready.worker(
        "service",
        "install",
        "--no-start",
        AGENT_CONNECT_TURN_TIMEOUT="77",
        AGENT_CONNECT_TOKEN="z9",
    )
    assert 0 == done.returncode
    assert "AGENT_CONNECT_TOKEN, AGENT_CONNECT_TURN_TIMEOUT: set in this shell" in done.stderr
    assert "77" not in done.stderr
    assert "z9" not in done.stderr
    assert "my-agent is not found on the PATH that the service gets" in done.stderr


def test_logs_follow_the_journal_or_the_file(ready: Machine) -> None:
    """systemd's where it has the unit; else the file, when there is one."""
    for name in ("journalctl", "tail"):
        ready.program(name, f'#!/bin/sh\necho "{name} $*"\n')
    done = ready.worker("service", "logs")
    assert "journalctl --user -u agent-connect.service -n 100 -f\n" == done.stdout
    none = ready.worker("service", "logs", FAKE_NO_BUS="1")
    assert 2 == none.returncode
    assert "no service is installed" in none.stderr
    log = ready.folder / "agent-connect.log"
    log.write_text("x\n")
    assert f"tail -n 100 -F {log}\n" == ready.worker("service", "logs", FAKE_NO_BUS="1").stdout
    assert f"tail -n 100 -F {log}\n" == on_mac(ready, "service", "logs").stdout
