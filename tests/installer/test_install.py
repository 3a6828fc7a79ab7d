"""scripts/install.sh, offline: fake pipx, npm and systemctl on PATH, a home of the test (§17.5)."""

import fcntl
import os
import pty
import re
import stat
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from agentconnect.acp import PRESETS
from agentconnect.acp.presets import ACP_BRIDGE_SPEC
from tests.installer.rig import INSTALL, PIPX, ROOT, SHELLS, TOKEN, Machine

SCRIPTS = [
    INSTALL,
    ROOT / "scripts" / "run-agent.sh",
    ROOT / "agentconnect" / "service" / "launcher.sh",
]
ACP = ("--adapter", "acp", "--acp-agent", "claude")


def ok(done: subprocess.CompletedProcess[str]) -> str:
    """All it said; it must have gone well, and the token is in none of it."""
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert TOKEN not in said
    assert "s3cr3t" not in said
    return said


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_the_scripts_are_well_formed(script: Path, shell: str) -> None:
    """Every shell that is here can read them."""
    done = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        ((), "token"),
        (("--tokn", TOKEN), "unknown flag: --tokn"),
        (("--token",), "--token needs a value"),
        (("--token", "--no-start"), "--token needs a value"),
        (("--token=",), "--token needs a value"),
        (("--token", TOKEN, "--repo"), "--repo needs a value"),
        (("--token", TOKEN, "--adapter", "copilot"), "unknown adapter: copilot"),
        (("--token", TOKEN, "--sutando-workspace", "/x"), "--sutando-workspace is retired"),
        (("--token", TOKEN, "--sutando-workspace=/x"), "--sutando-workspace is retired"),
        (("--token", TOKEN, "--acp-url", "ws://x", "--acp-command", "y"), "exclude each other"),
        *(
            (("--token", TOKEN, flag, f"a{end}b"), "line break")
            for flag in ("--adapter", "--acp-agent", "--acp-command", "--acp-url", "--acp-token",
                         "--repo")
            for end in ("\n", "\r")
        ),
        (("--token", "a\nb"), "line break"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_refused_before_anything_is_done(
    machine: Machine, flags: tuple[str, ...], word: str
) -> None:
    """Exit 2, one sentence, nothing installed and nothing written."""
    done = machine.install(*flags)
    assert 2 == done.returncode
    assert word in done.stderr
    assert [] == machine.calls()
    assert [] == [path.name for path in machine.home.iterdir()]


def test_a_retired_variable_is_refused_with_what_to_do(machine: Machine) -> None:
    """The flag is named, that it is retired, and what there is instead."""
    done = machine.install("--token", TOKEN, AGENT_CONNECT_SUTANDO_WORKSPACE="/x")
    assert 2 == done.returncode
    assert "--sutando-workspace is retired" in done.stderr
    assert "AGENT_CONNECT_WORKSPACE" in done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_a_first_installation(machine: Machine, shell: str) -> None:
    """The worker and nothing else is installed; settings, launcher, unit; started by systemd."""
    repo = machine.home / "work here"
    said = ok(machine.install("--token", TOKEN, "--repo", str(repo), *ACP, shell=shell))
    assert ["pipx list --short", "pipx install --force agentconnect"] == machine.calls("pipx")
    assert [f"npm install -g {ACP_BRIDGE_SPEC}"] == machine.calls("npm")
    assert 0o600 == stat.S_IMODE(machine.config.stat().st_mode)
    lines = [line for line in machine.config.read_text().splitlines() if not line.startswith("#")]
    assert [
        f'AGENT_CONNECT_TOKEN="{TOKEN}"',
        'AGENT_CONNECT_ADAPTER="acp"',
        f'AGENT_CONNECT_REPO="{repo}"',
        'AGENT_CONNECT_ACP_AGENT="claude"',
    ] == lines
    assert f"the agent works in {repo}: this directory was made now" in said
    assert "WARNING" not in said
    assert repo.is_dir()
    assert [
        "systemctl --user daemon-reload",
        "systemctl --user enable agent-connect.service",
        "systemctl --user restart agent-connect.service",
    ] == machine.calls("systemctl")
    assert "loginctl enable-linger" in said
    unit = machine.unit.read_text()
    assert f"AGENT_CONNECT_CONFIG={machine.config}" in unit
    assert "TOKEN" not in unit


def test_the_launcher_is_what_it_should_be(machine: Machine) -> None:
    """Executable, no secret, no background, one ``exec`` of the worker, no parser of its own."""
    ok(machine.install("--token", TOKEN, "--no-start"))
    text = machine.launcher.read_text()
    assert machine.launcher.stat().st_mode & stat.S_IXUSR
    for shell in SHELLS:
        subprocess.run([shell, "-n", str(machine.launcher)], check=True)
    code = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    assert [f"exec '{machine.home}/.local/bin/agent-connect'"] == [
        line for line in code if re.search(r"\bexec\b", line)
    ]
    bare = re.sub(r"&&|[0-9]?>&[0-9]", "", "\n".join(code))
    assert "&" not in bare
    assert "--export-config" in text
    assert "while read" not in text
    assert "s3cr3t" not in text
    for retired in ("TASK_DIR", "RESULT_DIR", "STATE_DIR", "OUTGOING_MAX_BYTES", "SUTANDO"):
        assert retired not in text


def test_no_start_writes_everything_and_starts_nothing(machine: Machine) -> None:
    """The run command is printed, with the path and never the token."""
    said = ok(machine.install("--token", TOKEN, "--no-start"))
    assert f"sh '{machine.launcher}'" in said
    assert str(machine.config) in said
    assert machine.unit.is_file()
    assert [] == machine.calls("systemctl")


def test_the_default_directory_is_made_and_named(machine: Machine) -> None:
    """``~/agents``, open as the person's other folders are, and no warning."""
    said = ok(machine.install("--token", TOKEN, "--no-start"))
    assert f"the agent works in {machine.home}/agents: this directory was made now" in said
    assert "some systems guard" not in said
    assert 0o755 == stat.S_IMODE((machine.home / "agents").stat().st_mode)


@pytest.mark.parametrize("name", ["Documents", "Desktop", "Downloads"])
def test_a_guarded_directory_is_warned_about(machine: Machine, name: str) -> None:
    """macOS asks at the screen before a program may read these."""
    repo = str(machine.home / name / "x")
    assert "some systems guard" in ok(
        machine.install("--token", TOKEN, "--no-start", "--repo", repo)
    )


def test_the_bridge_is_pinned_equally_in_both_places() -> None:
    """One spec, exact, never the package's old name nor its latest version."""
    text = INSTALL.read_text()
    assert [ACP_BRIDGE_SPEC] == re.findall(r'^ACP_BRIDGE_SPEC="(.*)"$', text, re.MULTILINE)
    assert "@zed-industries/claude" not in text
    assert "@latest" not in text
    assert ACP_BRIDGE_SPEC == PRESETS["claude"].package


@pytest.mark.parametrize("agent", ["gemini", "codex"])
def test_another_agent_is_not_installed(machine: Machine, agent: str) -> None:
    """It is said, and that logging in is the person's."""
    said = ok(
        machine.install("--token", TOKEN, "--no-start", "--adapter=acp", f"--acp-agent={agent}")
    )
    assert [] == machine.calls("npm")
    assert f"the agent {agent} is not installed by this" in said
    assert "log in to the agent yourself" in said


@pytest.mark.parametrize("missing", [True, False])
def test_a_bridge_that_cannot_be_installed_is_no_end(machine: Machine, missing: bool) -> None:
    """npm missing or failing: a warning with the line to run, and on."""
    if missing:
        (machine.bin / "npm").unlink()
    said = ok(machine.install("--token", TOKEN, "--no-start", *ACP, FAKE_NPM_FAILS="1"))
    assert f"npm install -g {ACP_BRIDGE_SPEC}" in said
    assert "WARNING" in said
    assert machine.config.is_file()


@pytest.mark.parametrize("shell", SHELLS)
def test_values_arrive_byte_for_byte(machine: Machine, shell: str) -> None:
    """Backslashes, quotes, dollars and other alphabets survive every shell."""
    command = r"""my-agent --re '\n\t\\d $HOME `id` "q" % é*' """ + "\\"
    repo = machine.home / r"a\nb $x é"
    flags = ["--token", TOKEN, "--no-start", "--adapter", "acp", "--repo", str(repo)]
    ok(machine.install(*flags, "--acp-command", command[:-1].strip(), shell=shell))
    settings = machine.settings()
    assert command[:-1].strip() == settings["AGENT_CONNECT_ACP_COMMAND"]
    assert str(repo) == settings["AGENT_CONNECT_REPO"]
    assert repo.is_dir()


def test_the_token_by_variable_or_stdin(machine: Machine) -> None:
    """Neither is on a command line."""
    ok(machine.install("--no-start", AGENT_CONNECT_TOKEN=TOKEN))
    assert TOKEN == machine.settings()["AGENT_CONNECT_TOKEN"]
    other = TOKEN + "-2"
    ok(machine.install("--no-start", "--token", "-", stdin=other + "\n"))
    assert other == machine.settings()["AGENT_CONNECT_TOKEN"]


def test_it_runs_from_a_pipe_and_asks_at_the_terminal(machine: Machine) -> None:
    """As behind ``curl … | sh -s --``: stdin is the script, the token is typed and not shown."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["sh", "-s", "--", "--no-start"],
        env=machine.environment(),
        cwd=machine.home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(theirs, termios.TIOCSCTTY, 0),
    )
    shown = b""
    try:
        assert process.stdin is not None
        process.stdin.write(INSTALL.read_bytes())
        process.stdin.close()
        process.stdin = None
        while b"(it is not shown): " not in shown:
            shown += os.read(ours, 4096)
        while termios.tcgetattr(ours)[3] & termios.ECHO:
            time.sleep(0.01)
        os.write(ours, TOKEN.encode() + b"\n")
        said, _ = process.communicate(timeout=60)
        shown += os.read(ours, 4096)
        assert termios.tcgetattr(ours)[3] & termios.ECHO
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)
    assert (0, b"s3cr3t" in shown + said) == (process.returncode, False), said
    assert TOKEN == machine.settings()["AGENT_CONNECT_TOKEN"]


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.999])
def test_a_download_that_was_cut_short_does_nothing(machine: Machine, share: float) -> None:
    """The script runs whole or not at all."""
    text = INSTALL.read_text()
    done = machine.run("sh", "-s", "--", "--token", TOKEN, stdin=text[: int(len(text) * share)])
    assert 0 != done.returncode or not done.stdout
    assert [] == machine.calls()
    assert [] == list(machine.home.iterdir())


def test_no_program_is_started_with_the_token(machine: Machine) -> None:
    """Not in its arguments and not in its environment."""
    for name in ("npm", "systemctl"):
        machine.program(name, f'#!/bin/sh\necho "{name} $*" >>"$CALLS"\nenv >>"$CALLS"\n')
    ok(machine.install(*ACP, AGENT_CONNECT_TOKEN=TOKEN))
    assert machine.calls("npm")
    assert "s3cr3t" not in "\n".join(machine.calls())


def test_an_old_python_is_refused(machine: Machine) -> None:
    """Checked and not only mentioned."""
    machine.program("python3", "#!/bin/sh\nexit 1\n")
    done = machine.install("--token", TOKEN)
    assert 1 == done.returncode
    assert "Python 3.11 or newer" in done.stderr
    assert not machine.config.exists()


def test_a_worker_that_cannot_be_run_is_refused(machine: Machine) -> None:
    """pipx said yes, and there is nothing."""
    machine.program("pipx", "#!/bin/sh\nexit 0\n")
    done = machine.install("--token", TOKEN)
    assert 1 == done.returncode
    assert "cannot be run" in done.stderr


VENV_PYTHON = """#!/bin/sh
case "$*" in
  "-m venv --clear "*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
  "-m pip install"*)
    echo "$*" >>"$CALLS"
    unset FAKE_PIPX_FAILS
    CALLS=/dev/null sh "$FAKE_PIPX" install
    mv "$HOME/.local/bin/agent-connect" "$(dirname "$0")/agent-connect"
    ;;
  *) exec REAL "$@" ;;
esac
"""


@pytest.mark.parametrize("broken", [True, False])
def test_without_pipx_a_virtualenv_is_made(machine: Machine, tmp_path: Path, broken: bool) -> None:
    """In ~/.agent-connect/venv; also where pipx is there and fails."""
    fake = tmp_path / "fake-pipx"
    fake.write_text(PIPX)
    if not broken:
        (machine.bin / "pipx").unlink()
    machine.program("python3", VENV_PYTHON.replace("REAL", sys.executable))
    done = machine.install(
        "--token",
        TOKEN,
        "--no-start",
        FAKE_PIPX=str(fake),
        FAKE_PIPX_FAILS="1" if broken else "",
    )
    ok(done)
    assert ["-m pip install -q --upgrade agentconnect"] == machine.calls("-m")
    assert f"exec '{machine.folder}/venv/bin/agent-connect'" in machine.launcher.read_text()
    full_name = f"{machine.folder}/venv/bin/agent-connect"
    assert f"not on your PATH: by its full name it is {full_name}" in done.stdout


def test_a_command_that_the_shell_finds_needs_no_full_name(machine: Machine) -> None:
    """Nothing is said of PATH then."""
    done = machine.install("--token", TOKEN, "--no-start")
    ok(done)
    assert "not on your PATH" not in done.stdout


def test_a_checkout_can_be_installed(machine: Machine) -> None:
    """AGENT_CONNECT_PIP_SPEC is handed on as it is."""
    ok(machine.install("--token", TOKEN, "--no-start", AGENT_CONNECT_PIP_SPEC="/a checkout"))
    assert ["pipx install --force /a checkout"] == machine.calls("pipx install")


def test_systemd_out_of_reach_is_no_end(machine: Machine) -> None:
    """The worker is started in the background; what ended it is told."""
    done = machine.install(
        "--token", TOKEN, "--adapter", "acp", "--acp-command", "/no/such", FAKE_NO_BUS="1"
    )
    assert 1 == done.returncode
    assert "user manager cannot be reached" in done.stdout
    assert "the worker ended with exit code 3" in done.stdout
    assert machine.config.is_file()


def test_the_docs_name_what_is_retired_and_set_none_of_it() -> None:
    """Nobody copies a variable that does nothing."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    text = "\n".join(page.read_text() for page in pages)
    for name in ("TASK_DIR", "RESULT_DIR", "STATE_DIR", "OUTGOING_MAX_BYTES"):
        assert f"AGENT_CONNECT_{name}" in text
        assert f"AGENT_CONNECT_{name}=" not in text
