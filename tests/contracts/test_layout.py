"""The shape of the program: who may import whom, and how long a module may be."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.optional import optional


def run(repo_root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=repo_root, capture_output=True, text=True, check=False, timeout=60
    )


def test_the_import_contracts_hold(repo_root: Path) -> None:
    """Imports point down, core does no I/O, each library has one door."""
    optional("importlinter")
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = run(repo_root, sys.executable, "-c", code)
    assert 0 == done.returncode, done.stdout[-3000:]


def test_modules_stay_readable(repo_root: Path) -> None:
    """No module is above its limit of lines, the map least of all."""
    done = run(repo_root, sys.executable, "scripts/check_sizes.py")
    assert "" == done.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--version"], 0),
        (["--help"], 0),
        (["--export-config"], 0),
        (["status"], 3),
        (["status", "--json", "/no/such/file"], 3),
        (["bogus"], 2),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, list) else None,
)
def test_short_commands_load_neither_trio_nor_httpx(
    repo_root: Path, arguments: list[str], code: int
) -> None:
    """Launchers and supervisors run these often, so they load nothing that runs a worker."""
    program = (
        "import sys\n"
        "from agentconnect.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    status = end.code or 0\n"
        "heavy = {'trio', 'httpx', 'acp', 'asyncio', 'starlette', 'hypercorn', 'sqlite3'}\n"
        "print(status, sorted(heavy.intersection(sys.modules)), file=sys.stderr)\n"
    )
    done = run(repo_root, sys.executable, "-c", program, *arguments)
    assert f"{code} []" == done.stderr.splitlines()[-1]
