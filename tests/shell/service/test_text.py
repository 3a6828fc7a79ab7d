"""The unit and the property list as text: what they promise, and paths that try to break them."""

import plistlib
import shutil
import subprocess
from pathlib import Path

import pytest

from agentconnect.core.doctor import plist_environment, unit_environment
from agentconnect.service import launchd, systemd
from agentconnect.service.launcher import COMMON, launcher
from agentconnect.service.place import Service, service_path

AWKWARD = [
    "plain",
    "with blank",
    "100% %h %n",
    'a "quote" here',
    "it's",
    "back\\slash \\n",
    "$HOME ${X} `id`",
    "größe-目錄",
    "<&>",
]


def service(folder: Path, name: str = "plain", instance: str = "default") -> Service:
    home = folder / name
    return Service(
        home=home,
        config=home / ".agent-connect" / "config.env",
        command=(str(home / "bin" / "agent-connect"),),
        path=f"{home}/node bin:/usr/bin:/bin",
        instance=instance,
    )


def test_the_unit_says_what_it_must(tmp_path: Path) -> None:
    """Each promise of worker.md §17.4 is a line; no token, two variables only."""
    text = systemd.unit(service(tmp_path))
    for line in (
        "After=network-online.target",
        "Type=notify",
        "NotifyAccess=main",
        f"WatchdogSec={systemd.WATCHDOG_S}",
        "KillMode=mixed",
        "TimeoutStopSec=45",
        "Restart=always",
        "RestartSec=10",
        "StartLimitIntervalSec=0",
        f'ExecStart=/bin/sh "{tmp_path}/plain/.agent-connect/launch.sh"',
        f'Environment="AGENT_CONNECT_CONFIG={tmp_path}/plain/.agent-connect/config.env"',
        f'Environment="PATH={tmp_path}/plain/node bin:/usr/bin:/bin"',
        "WantedBy=default.target",
    ):
        assert line in text.splitlines()
    assert 2 == text.count("Environment=")
    assert "TOKEN" not in text


def test_nothing_in_the_unit_takes_from_an_agent_what_it_needs(tmp_path: Path) -> None:
    """No mount namespace, no seccomp, no lost privileges: agents bring sandboxes of their own."""
    text = systemd.unit(service(tmp_path))
    for word in (
        "NoNewPrivileges",
        "Protect",
        "Private",
        "Restrict",
        "SystemCall",
        "Lock",
        "UMask",
    ):
        assert word not in text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a b", '"a b"'),
        ("100% %h", '"100%% %%h"'),
        ('say "x"', '"say \\"x\\""'),
        ("back\\slash", '"back\\\\slash"'),
        ("größe", '"größe"'),
        ("$HOME", '"$HOME"'),  # expanded in commands only
    ],
)
def test_a_word_of_a_unit_is_quoted(text: str, written: str) -> None:
    """As systemd.syntax(7) and the specifiers of systemd.unit(5) want it."""
    assert written == systemd.quoted(text)


def test_a_dollar_in_the_command_is_no_variable(tmp_path: Path) -> None:
    """systemd expands variables in ExecStart, in quotes too; ``$$`` is one dollar."""
    text = systemd.unit(service(tmp_path, "$HOME"))
    assert f'ExecStart=/bin/sh "{tmp_path}/$$HOME/.agent-connect/launch.sh"' in text
    assert f'"AGENT_CONNECT_CONFIG={tmp_path}/$HOME/' in text


@pytest.mark.parametrize("name", AWKWARD)
def test_systemd_takes_the_unit(tmp_path: Path, name: str) -> None:
    """``systemd-analyze verify`` has nothing to say, whatever the paths hold."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    made = service(tmp_path, name)
    unit = tmp_path / made.unit
    unit.write_text(systemd.unit(made), "utf-8")
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(unit)],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("name", AWKWARD)
def test_paths_survive_both_files(tmp_path: Path, name: str) -> None:
    """What is read back is what was meant."""
    made = service(tmp_path, name)
    given = {"AGENT_CONNECT_CONFIG": str(made.config), "PATH": made.path}
    assert given == unit_environment(systemd.unit(made))
    text = launchd.plist(made).encode()
    assert given == plist_environment(text)
    content = plistlib.loads(text)
    assert ["/bin/sh", str(made.launcher)] == content["ProgramArguments"]


def test_the_property_list_says_what_it_must(tmp_path: Path) -> None:
    """The keys of worker.md §17.4 and no others; no token."""
    made = service(tmp_path, "<&>")
    text = launchd.plist(made)
    assert {
        "Label": "space.ag2.agent-connect",
        "ProgramArguments": ["/bin/sh", str(made.launcher)],
        "EnvironmentVariables": {"AGENT_CONNECT_CONFIG": str(made.config), "PATH": made.path},
        "RunAtLoad": True,
        "KeepAlive": True,
        "ExitTimeOut": 45,
        "StandardOutPath": str(made.log),
        "StandardErrorPath": str(made.log),
    } == plistlib.loads(text.encode())
    assert "TOKEN" not in text


def test_another_instance_has_names_of_its_own(tmp_path: Path) -> None:
    """Two services share no file and no name."""
    one, two = service(tmp_path), service(tmp_path, instance="scratch")
    assert "agent-connect.service" == one.unit
    assert "agent-connect-scratch.service" == two.unit
    assert "space.ag2.agent-connect.scratch" == two.label
    assert {one.launcher, one.log, one.unit_file, one.plist_file}.isdisjoint(
        {two.launcher, two.log, two.unit_file, two.plist_file}
    )
    assert "(scratch)" in systemd.unit(two)


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("shell", ["sh", "bash", "dash"])
def test_the_launcher_names_any_path(tmp_path: Path, name: str, shell: str) -> None:
    """The worker's program is found, wherever it is."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    made = service(tmp_path, name)
    program = Path(made.command[0])
    program.parent.mkdir(parents=True)
    program.write_text(
        '#!/bin/sh\n[ $# = 0 ] && printf "%s " "$0" "$AGENT_CONNECT_CONFIG"\nexit 0\n'
    )
    program.chmod(0o755)
    script = tmp_path / "launch.sh"
    script.write_text(launcher(made, COMMON.read_text()))
    done = subprocess.run(
        [shell, str(script)],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "AGENT_CONNECT_TOKEN": "t"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"{program} {made.config} " == done.stdout, done.stderr


def test_the_services_path_is_the_shells_made_to_last(tmp_path: Path) -> None:
    """Relative and missing folders go, each is there once, the worker's and the usual ones are."""
    node = tmp_path / "node"
    node.mkdir()
    found = service_path({"PATH": f"{node}:bin:{tmp_path}/gone::{node}"}, ("/opt/w/agent-connect",))
    assert [str(node), "/opt/w", "/usr/local/bin", "/usr/bin", "/bin"] == found.split(":")[:5]


def test_a_folder_made_for_one_shell_is_replaced_by_where_it_leads(tmp_path: Path) -> None:
    """Version managers put links into /run or /tmp that are gone at the next login."""
    real = tmp_path / "versions" / "node-20"
    real.mkdir(parents=True)
    (tmp_path / "multishell").symlink_to(real)
    found = service_path({"PATH": f"{tmp_path}/multishell"}, ("/opt/w/agent-connect",))
    assert str(real) == found.split(":")[0]
