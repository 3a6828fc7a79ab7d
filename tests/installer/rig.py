"""A machine for the installer: a home, a PATH of its own, fakes that write down their calls."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
INSTALL = ROOT / "scripts" / "install.sh"
TOKEN = "http://127.0.0.1:9/relay|s3cr3t-of-the-test-0123456789"
SHELLS = [name for name in ("sh", "dash", "bash") if shutil.which(name)]

TOOLS = (
    "basename", "cat", "chmod", "cp", "cut", "dirname", "env", "grep", "id", "ls", "mkdir", "mv",
    "ps", "rm", "sed", "sleep", "stty", "tail", "tr", "uname", "bash", "dash", "sh",
)  # fmt: skip

#: "Installs" a real worker: the console script of the package under test.
PIPX = f"""#!/bin/sh
echo "pipx $*" >>"$CALLS"
[ "$1" = install ] || exit 0
[ -z "${{FAKE_PIPX_FAILS:-}}" ] || exit 1
mkdir -p "$HOME/.local/bin"
printf '%s\\n' '#!{sys.executable}' 'from agentconnect.__main__ import main' 'main()' \\
  >"$HOME/.local/bin/agent-connect"
chmod 755 "$HOME/.local/bin/agent-connect"
"""

NPM = """#!/bin/sh
echo "npm $*" >>"$CALLS"
[ -z "${FAKE_NPM_FAILS:-}" ]
"""

#: A user manager that does as it is told; FAKE_NO_BUS is a machine without one.
SYSTEMCTL = """#!/bin/sh
echo "systemctl $*" >>"$CALLS"
if [ -n "${FAKE_NO_BUS:-}" ]; then echo "Failed to connect to bus: No medium found" >&2; exit 1; fi
case "$*" in
  *"show "*) printf '%s\\n' "${FAKE_SHOW:-ActiveState=inactive}" ;;
  *"restart "*) exit "${FAKE_RESTART:-0}" ;;
  *"disable "*) exit "${FAKE_DISABLE:-0}" ;;
  *"is-active"*) echo "${FAKE_ACTIVE:-inactive}" ;;
  *"is-enabled"*) exit "${FAKE_ENABLED:-0}" ;;
esac
"""

LOGINCTL = """#!/bin/sh
echo "loginctl $*" >>"$CALLS"
echo "${FAKE_LINGER:-no}"
"""

LAUNCHCTL = """#!/bin/sh
echo "launchctl $*" >>"$CALLS"
exit "${FAKE_LAUNCHCTL:-0}"
"""


class Machine:
    """One home and the programs that are on it."""

    def __init__(self, folder: Path) -> None:
        self.limit_s = 120.0
        self.home = folder / "home of ann"
        self.bin = folder / "bin"
        self._calls = folder / "calls"
        self.home.mkdir(parents=True)
        self.bin.mkdir()
        self._calls.touch()
        for tool in TOOLS:
            if found := shutil.which(tool, path="/usr/local/bin:/usr/bin:/bin"):
                (self.bin / tool).symlink_to(found)
        self.program("python3", f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        self.program("pipx", PIPX)
        self.program("npm", NPM)
        self.program("systemctl", SYSTEMCTL)
        self.program("loginctl", LOGINCTL)

    def program(self, name: str, text: str) -> None:
        """Put a program on PATH."""
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def environment(self, **variables: str) -> dict[str, str]:
        """What a shell on this machine has."""
        return {
            "HOME": str(self.home),
            "PATH": f"{self.bin}:{self.home}/.local/bin",
            "CALLS": str(self._calls),
            "USER": "ann",
            "LOGNAME": "ann",
            **variables,
        }

    def run(
        self, *words: str, stdin: str = "", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program there, without a terminal."""
        return subprocess.run(
            words,
            env=self.environment(**variables),
            cwd=self.home,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=self.limit_s,
            start_new_session=True,
        )

    def install(
        self, *flags: str, shell: str = "sh", stdin: str = "", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the installer without a terminal."""
        return self.run(shell, str(INSTALL), *flags, stdin=stdin, **variables)

    def worker(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the program under test, as if it was installed here."""
        code = "import sys; from agentconnect.__main__ import main; main()"
        return self.run(sys.executable, "-c", code, *words, **variables)

    @property
    def folder(self) -> Path:
        return self.home / ".agent-connect"

    @property
    def config(self) -> Path:
        return self.folder / "config.env"

    @property
    def launcher(self) -> Path:
        return self.folder / "launch.sh"

    @property
    def unit(self) -> Path:
        return self.home / ".config" / "systemd" / "user" / "agent-connect.service"

    def calls(self, program: str = "") -> list[str]:
        """What the fakes were called with."""
        return [line for line in self._calls.read_text().splitlines() if line.startswith(program)]

    def forget(self) -> None:
        """No calls so far."""
        self._calls.write_text("")

    def settings(self) -> dict[str, str]:
        """The config file as a launcher would have it."""
        exported = self.worker("--export-config")
        assert exported.returncode == 0, exported.stderr
        script = f"{exported.stdout}\nenv -0"
        done = subprocess.run(
            ["sh", "-c", script],
            env={"PATH": os.defpath},
            capture_output=True,
            text=True,
            check=True,
        )
        pairs = (item.partition("=") for item in done.stdout.split("\0") if item)
        return {name: value for name, _, value in pairs if name.startswith("AGENT_CONNECT_")}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine of this test's own."""
    return Machine(tmp_path)
