"""scripts/_setup on machines that have one tool and lack another (fake tools on PATH)."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

#: Stands for python3 and for the python inside a virtualenv; writes down what it is asked.
FAKE_PYTHON = f"""#!/bin/sh
case "${{2:-}}" in
  *sys.executable*) echo "$0"; exit 0 ;;
  *version_info*) [ -z "${{FAKE_OLD:-}}" ]; exit ;;
esac
if [ "$1" = -c ]; then exec {sys.executable} "$@"; fi
echo "$(basename "$0") $*" >>"$CALLS"
shift
case "$1" in
  venv)
    shift
    if [ "$1" = --without-pip ]; then shift; bare=yes; else bare=""; fi
    if [ -z "$bare" ] && [ -n "${{FAKE_NO_ENSUREPIP:-}}" ]; then exit 1; fi
    mkdir -p "$1/bin" && cp "$0" "$1/bin/python"
    [ -n "$bare" ] || touch "$1/has-pip"
    ;;
  pip)
    case "$0" in */bin/python) [ -f "$(dirname "$0")/../has-pip" ] || exit 1 ;; esac
    [ -z "${{FAKE_NO_PIP:-}}" ] || exit 1
    case "$*" in *install*) [ -z "${{FAKE_OFFLINE:-}}" ] || {{ echo no network; exit 1; }} ;; esac
    ;;
  ensurepip) [ -z "${{FAKE_NO_ENSUREPIP:-}}" ] ;;
esac
"""

FAKE_UV = """#!/bin/sh
echo "uv $*" >>"$CALLS"
case "$1 ${2:-}" in
  "venv "*) for last; do :; done; mkdir -p "$last/bin" && cp "$FAKE_BASE" "$last/bin/python" ;;
  "pip install") [ -z "${FAKE_UV_OFFLINE:-}" ] ;;
esac
"""

TOOLS = (
    "basename",
    "cat",
    "chmod",
    "cksum",
    "cp",
    "dirname",
    "mkdir",
    "rm",
    "sh",
    "sleep",
    "tail",
    "touch",
)


class Machine:
    """A checkout and a PATH of its own."""

    def __init__(self, folder: Path, repo_root: Path) -> None:
        self.checkout = folder / "check out"
        self.tools = folder / "tools"
        self.calls_file = folder / "calls"
        (self.checkout / "scripts").mkdir(parents=True)
        self.tools.mkdir()
        shutil.copy(repo_root / "scripts" / "_setup", self.checkout / "scripts")
        (self.checkout / "pyproject.toml").write_text("[project]\n")
        for name in TOOLS:
            (self.tools / name).symlink_to(shutil.which(name) or "/bin/false")
        self.env = {"PATH": str(self.tools), "CALLS": str(self.calls_file), "HOME": str(folder)}

    def has(self, name: str, text: str) -> None:
        path = self.tools / name
        path.write_text(text)
        path.chmod(0o755)
        self.env["FAKE_BASE"] = str(self.tools / "python3")

    def setup(self, what: str = "run", **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.checkout / "scripts" / "_setup"), what],
            env={**self.env, **env},
            cwd=os.sep,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    @property
    def python(self) -> str:
        return f"{self.checkout}/.venv/bin/python"

    @property
    def calls(self) -> str:
        return self.calls_file.read_text() if self.calls_file.exists() else ""


@pytest.fixture
def machine(tmp_path: Path, repo_root: Path) -> Machine:
    return Machine(tmp_path, repo_root)


def test_with_uv_it_is_uv_that_builds(machine: Machine) -> None:
    """uv is used when there is one, and bytecode is compiled with the installation."""
    machine.has("python3", FAKE_PYTHON)
    machine.has("uv", FAKE_UV)
    done = machine.setup("dev")
    assert (0, f"{machine.python}\n") == (done.returncode, done.stdout), done.stderr
    assert "uv pip install --compile-bytecode" in machine.calls
    assert "-e .[dev]" in machine.calls


def test_a_failing_uv_is_no_reason_to_stop(machine: Machine) -> None:
    """Where uv cannot reach its index, pip (with its own configuration) is tried, aloud."""
    machine.has("python3", FAKE_PYTHON)
    machine.has("uv", FAKE_UV)
    done = machine.setup(FAKE_UV_OFFLINE="1")
    assert 0 == done.returncode, done.stderr
    assert "trying pip" in done.stderr
    assert "-m pip --python" in machine.calls


def test_without_uv_it_is_venv_and_pip(machine: Machine) -> None:
    """The standard library's venv with its pip is enough."""
    machine.has("python3", FAKE_PYTHON)
    done = machine.setup()
    assert (0, f"{machine.python}\n") == (done.returncode, done.stdout), done.stderr
    assert "python -m pip install -e ." in machine.calls


def test_without_ensurepip_the_systems_pip_fills_a_bare_virtualenv(machine: Machine) -> None:
    """Debian without python3-venv but with python3-pip works too."""
    machine.has("python3", FAKE_PYTHON)
    done = machine.setup(FAKE_NO_ENSUREPIP="1")
    assert 0 == done.returncode, done.stderr
    assert "python3 -m venv --without-pip" in machine.calls
    assert f"python3 -m pip --python {machine.python} install -e ." in machine.calls


def test_where_nothing_can_build_one_sentence_names_the_package(machine: Machine) -> None:
    """Neither ensurepip nor pip nor uv: the package to install is named, and nothing is left."""
    machine.has("python3", FAKE_PYTHON)
    done = machine.setup(FAKE_NO_ENSUREPIP="1", FAKE_NO_PIP="1")
    assert (1, "") == (done.returncode, done.stdout)
    assert "python3-venv" in done.stderr.splitlines()[-1]
    assert not (machine.checkout / ".venv").exists()


def test_without_a_recent_python_one_sentence_says_so(machine: Machine) -> None:
    """An old Python or none is told with the version that is needed, before anything is made."""
    for text in ("#!/bin/sh\nexit 127\n", FAKE_PYTHON):
        machine.has("python3", text)
        done = machine.setup(FAKE_OLD="1")
        assert (1, "") == (done.returncode, done.stdout)
        assert 1 == len(done.stderr.splitlines())
        assert "3.11" in done.stderr
    assert not (machine.checkout / ".venv").exists()


def test_a_newer_python_by_its_own_name_is_found(machine: Machine) -> None:
    """python3 may be old while python3.12 stands beside it."""
    machine.has("python3.12", FAKE_PYTHON)
    machine.has("python3", FAKE_PYTHON.replace("#!/bin/sh", "#!/bin/sh\nFAKE_OLD=1", 1))
    assert 0 == machine.setup().returncode
    assert "python3.12 -m venv" in machine.calls


def test_the_second_start_builds_nothing(machine: Machine) -> None:
    """A matching stamp is all that is looked at, and what serves tests serves a run."""
    machine.has("python3", FAKE_PYTHON)
    assert 0 == machine.setup("dev").returncode
    before = machine.calls
    for what in ("dev", "run"):
        done = machine.setup(what)
        assert (0, "", f"{machine.python}\n") == (done.returncode, done.stderr, done.stdout)
    assert before == machine.calls


def test_a_changed_project_file_is_installed_again(machine: Machine) -> None:
    """New dependencies arrive with the next start, in the same virtualenv."""
    machine.has("python3", FAKE_PYTHON)
    assert 0 == machine.setup().returncode
    (machine.checkout / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert 0 == machine.setup().returncode
    assert 2 == machine.calls.count("pip install -e .")
    assert 1 == machine.calls.count("-m venv")


def test_an_installation_that_failed_is_said_and_tried_again(machine: Machine) -> None:
    """No stamp is left by a failure; the cause is shown, and the next start mends it."""
    machine.has("python3", FAKE_PYTHON)
    failed = machine.setup(FAKE_OFFLINE="1")
    assert (1, "") == (failed.returncode, failed.stdout)
    assert "no network" in failed.stderr
    assert 0 == machine.setup().returncode


def test_two_starts_at_once_build_once(machine: Machine) -> None:
    """The second waits for the first and finds everything ready."""
    machine.has("python3", FAKE_PYTHON.replace("  pip)\n", "  pip)\n    sleep 0.3\n"))
    command = [str(machine.checkout / "scripts" / "_setup"), "run"]
    starts = [
        subprocess.Popen(command, env=machine.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    outputs = [start.communicate(timeout=60)[0].decode() for start in starts]
    assert [f"{machine.python}\n"] * 3 == outputs
    assert 1 == machine.calls.count("-m venv")
    assert 1 == machine.calls.count("pip install -e .")


def test_a_named_python_is_taken_as_it_is(machine: Machine) -> None:
    """AGENTCONNECT_PYTHON skips everything."""
    done = machine.setup(AGENTCONNECT_PYTHON="/some/python")
    assert (0, "/some/python\n", "") == (done.returncode, done.stdout, done.stderr)
