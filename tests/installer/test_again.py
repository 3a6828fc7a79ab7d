"""scripts/install.sh over an existing installation: ours, or the published worker's."""

import stat

import pytest

from tests.installer.rig import TOKEN, Machine
from tests.installer.test_install import ACP, ok


def test_a_second_run_loses_nothing(machine: Machine) -> None:
    """Without flags: the same settings, added ones and comments too, once; a backup; a restart."""
    repo = machine.home / "elsewhere"
    ok(machine.install("--token", TOKEN, "--repo", str(repo), *ACP))
    with machine.config.open("a") as file:
        file.write("# mine\nAGENT_CONNECT_TURN_TIMEOUT=60\nAGENT_CONNECT_LOG='json'\n")
    before = machine.settings()
    old = machine.config.read_bytes()
    machine.forget()
    ok(machine.install())
    assert before == machine.settings()
    backup = machine.folder / "config.env.bak"
    assert old == backup.read_bytes()
    assert 0o600 == stat.S_IMODE(backup.stat().st_mode)
    assert "systemctl --user restart agent-connect.service" in machine.calls()
    once = machine.config.read_text()
    assert 1 == once.count("# mine")
    assert "AGENT_CONNECT_LOG='json'" in once
    ok(machine.install())
    assert once == machine.config.read_text()
    assert sorted(path.name for path in machine.folder.iterdir()) == [
        "config.env", "config.env.bak", "launch.sh",
    ]  # fmt: skip


def test_named_settings_are_changed(machine: Machine) -> None:
    """A new token and nothing else."""
    ok(machine.install("--token", TOKEN, *ACP))
    ok(machine.install("--token", TOKEN + "x"))
    settings = machine.settings()
    assert TOKEN + "x" == settings["AGENT_CONNECT_TOKEN"]
    assert "acp" == settings["AGENT_CONNECT_ADAPTER"]
    assert 1 == machine.config.read_text().count("AGENT_CONNECT_TOKEN=")


@pytest.mark.parametrize("how", ["\ufeff{}", "export {}", "  {}", "{}\r\n# x", "# a\r{}\r"])
def test_a_line_that_only_the_worker_would_see_is_replaced_too(machine: Machine, how: str) -> None:
    """The old token never outlives a new one, however its line is written."""
    machine.folder.mkdir()
    line = how.format('AGENT_CONNECT_TOKEN="http://old|old-old-old-old-old-old"')
    machine.config.write_text(line + "\nAGENT_CONNECT_POLL=2\n", newline="")
    ok(machine.install("--token", TOKEN, "--no-start"))
    assert TOKEN == machine.settings()["AGENT_CONNECT_TOKEN"]
    assert "2" == machine.settings()["AGENT_CONNECT_POLL"]
    assert "old-old" not in machine.config.read_text()


def test_the_published_workers_installation_is_taken_over(machine: Machine) -> None:
    """Same folder, same file, same unit name; workspace and sessions stay; its package goes."""
    machine.folder.mkdir()
    repo = machine.home / "r"
    machine.config.write_text(
        f'# agent-connect config\nAGENT_CONNECT_TOKEN="{TOKEN}"\nAGENT_CONNECT_ADAPTER="acp"\n'
        f'AGENT_CONNECT_REPO="{repo}"\nAGENT_CONNECT_ACP_AGENT="gemini"\n'
        "AGENT_CONNECT_SESSION_TURNS=7\n"
    )
    machine.launcher.write_text("#!/bin/sh\nexec ag2-sparrow\n")
    machine.unit.parent.mkdir(parents=True)
    machine.unit.write_text("[Service]\nExecStart=/bin/sh old\n")
    sessions = machine.folder / "workspace" / "sessions.json"
    sessions.parent.mkdir()
    sessions.write_text("{}")
    listing = 'case "$1" in list) echo "ag2-agent-connect 0.2.1" ;; esac\n'
    pipx = (machine.bin / "pipx").read_text()
    machine.program("pipx", pipx.replace('[ "$1" = install ]', f'{listing}[ "$1" = install ]'))
    ok(machine.install())
    settings = machine.settings()
    assert "gemini" == settings["AGENT_CONNECT_ACP_AGENT"]
    assert "7" == settings["AGENT_CONNECT_SESSION_TURNS"]
    assert str(repo) == settings["AGENT_CONNECT_REPO"]
    assert "pipx uninstall ag2-agent-connect" in machine.calls()
    assert "sparrow" not in machine.launcher.read_text().partition("exec ")[2]
    assert "Type=notify" in machine.unit.read_text()
    assert "{}" == sessions.read_text()


def test_a_command_of_ones_own(machine: Machine) -> None:
    """It is an agent named custom, without a bridge; kept by a re-run, cleared by a named agent."""
    ok(machine.install("--token", TOKEN, "--adapter", "acp", "--acp-command", "my-agent --acp"))
    assert [] == machine.calls("npm")
    assert "custom" == machine.settings()["AGENT_CONNECT_ACP_AGENT"]
    ok(machine.install())
    assert "my-agent --acp" == machine.settings()["AGENT_CONNECT_ACP_COMMAND"]
    assert "custom" == machine.settings()["AGENT_CONNECT_ACP_AGENT"]
    ok(machine.install("--acp-command", "other", "--acp-agent", "mine"))
    assert "mine" == machine.settings()["AGENT_CONNECT_ACP_AGENT"]
    said = ok(machine.install("--acp-agent", "gemini"))
    assert "AGENT_CONNECT_ACP_COMMAND is taken out" in said
    assert "AGENT_CONNECT_ACP_COMMAND" not in machine.settings()


def test_an_agent_that_is_dialled(machine: Machine) -> None:
    """URL and token go together; no bridge; the extra that dials is installed."""
    first = ("--acp-url", "ws://127.0.0.1:9/a", "--acp-token", "door-1")
    ok(machine.install("--token", TOKEN, "--adapter", "acp", *first))
    assert [] == machine.calls("npm")
    assert ["pipx install --force agentconnect[dial]"] == machine.calls("pipx install")
    ok(machine.install("--acp-token", "door-2"))
    settings = machine.settings()
    assert "ws://127.0.0.1:9/a" == settings["AGENT_CONNECT_ACP_URL"]
    assert "door-2" == settings["AGENT_CONNECT_ACP_TOKEN"]
    assert "pipx install --force agentconnect[dial]" == machine.calls("pipx install")[-1]
    ok(machine.install("--acp-url", "ws://127.0.0.1:10/b"))
    assert "AGENT_CONNECT_ACP_TOKEN" not in machine.settings()
    said = ok(machine.install("--acp-agent", "claude"))
    assert "AGENT_CONNECT_ACP_URL and its token are taken out" in said
    assert "AGENT_CONNECT_ACP_URL" not in machine.settings()


def test_another_adapter_leaves_the_acp_settings_alone(machine: Machine) -> None:
    """They are kept, and that is said; what was named for them is ignored aloud."""
    ok(machine.install("--token", TOKEN, "--adapter", "acp", "--acp-command", "my-agent"))
    said = ok(machine.install("--adapter", "codex", "--acp-agent", "gemini"))
    assert "ignored: the adapter is codex" in said
    assert "the stored acp settings stay" in said
    settings = machine.settings()
    assert "codex" == settings["AGENT_CONNECT_ADAPTER"]
    assert "my-agent" == settings["AGENT_CONNECT_ACP_COMMAND"]
    assert "custom" == settings["AGENT_CONNECT_ACP_AGENT"]


def test_a_file_that_the_worker_cannot_read_is_left_alone(machine: Machine) -> None:
    """Said, with the command that tells why; nothing is overwritten."""
    machine.folder.mkdir()
    machine.config.write_bytes(b'AGENT_CONNECT_TOKEN="\xff"\n')
    done = machine.install("--token", TOKEN)
    assert 1 == done.returncode
    assert "--export-config says why" in done.stderr
    assert b'AGENT_CONNECT_TOKEN="\xff"\n' == machine.config.read_bytes()
    assert [machine.config.name] == [path.name for path in machine.folder.iterdir()]


def test_a_value_that_would_be_read_otherwise_is_not_written(machine: Machine) -> None:
    """What the worker reads back is compared before the old file is replaced."""
    ok(machine.install("--token", TOKEN, *ACP))
    before = machine.config.read_bytes()
    lone = "my-agent \udcff"  # a byte that is no UTF-8
    done = machine.install("--adapter", "acp", "--acp-command", lone)
    assert 1 == done.returncode
    assert before == machine.config.read_bytes()
