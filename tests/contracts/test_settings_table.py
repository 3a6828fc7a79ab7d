"""One table of settings: the code reads what it lists, the docs show what it says."""

import re
import subprocess
import sys
from pathlib import Path

from agentconnect.adapters.childenv import child_environment
from agentconnect.config.settings import Settings, secret_names
from agentconnect.config.table import INSTALLER, NAMES, RETIRED, TABLE

_NAME = re.compile(r"\b(?:AGENT_CONNECT_[A-Z_]+|REMOTE_TASK_[A-Z_]+|OLLAMA_HOST)\b")
#: Named in the code and not read: the families of the config file, and secrets of later settings,
#: which an agent's environment must not hold even today.
_NOT_READ = frozenset(
    {
        "AGENT_CONNECT_",
        "REMOTE_TASK_",
        "OLLAMA_HOST",
        "AGENT_CONNECT_ACP_TOKEN",
        "AGENT_CONNECT_DAEMON_TOKEN",
    }
)


def test_the_fields_are_those_of_the_table() -> None:
    """Every row has its field and every field its row, each once."""
    fields = [setting.field for setting in TABLE]
    assert sorted(Settings.__struct_fields__) == sorted(fields)
    assert len(TABLE) + len(INSTALLER) == len(NAMES)


def test_the_docs_show_the_table_as_it_is(repo_root: Path) -> None:
    """docs/settings.md is what scripts/gen-docs makes of the table."""
    done = subprocess.run(
        [sys.executable, "scripts/gen_docs.py", "--check"],
        cwd=repo_root,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "" == done.stderr
    assert 0 == done.returncode


def test_every_setting_named_in_the_code_is_in_the_table(repo_root: Path) -> None:
    """A variable that code names and the table does not list would be unknown to its reader."""
    known = NAMES | _NOT_READ | set(RETIRED)
    for path in sorted((repo_root / "agentconnect").rglob("*.py")):
        named = set(_NAME.findall(path.read_text(encoding="utf-8")))
        assert set() == named - known, path


def test_only_config_and_the_command_line_read_the_environment(repo_root: Path) -> None:
    """Settings come in as values; the bundled agent is a program of its own."""
    readers = {
        path.relative_to(repo_root / "agentconnect").parts[0]
        for path in (repo_root / "agentconnect").rglob("*.py")
        if re.search(r"\bos\.environ\b|\bgetenv\(", path.read_text(encoding="utf-8"))
    }
    assert readers <= {"cli", "config", "demo"}


def test_the_readme_leads_to_the_settings(repo_root: Path) -> None:
    """A reader of the README finds the table."""
    assert "docs/settings.md" in (repo_root / "README.md").read_text(encoding="utf-8")


def test_no_secret_setting_reaches_an_agent() -> None:
    """What the table calls secret is cut from the environment of every child."""
    given = {**dict.fromkeys(secret_names(), "s3cret"), "PATH": "/bin"}
    assert {"PATH": "/bin"} == child_environment(given)
