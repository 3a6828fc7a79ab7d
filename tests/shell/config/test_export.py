"""``--export-config``: what a shell makes of its lines."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentconnect.config import export
from agentconnect.core.errors import SettingsError
from tests.support.cases.config_env import shells

_VALUE = st.text(st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"]), max_size=30)


def evaluated(shell: str, lines: tuple[str, ...], name: str) -> str:
    script = "set -f\n" + "\n".join(lines) + f'\nprintf "%s" "${name}"'
    done = subprocess.run(
        [shell, "-c", script], env={}, capture_output=True, check=True, timeout=60
    )
    assert b"" == done.stderr
    return done.stdout.decode()


@settings(max_examples=20)
@given(_VALUE)
def test_a_shell_reads_exactly_the_value(value: str) -> None:
    """Quotes, dollars, backticks, backslashes, dashes and globs arrive as they were."""
    lines = export.lines({"AGENT_CONNECT_TOKEN": value}, {})
    for shell in shells():
        assert value == evaluated(shell, lines, "AGENT_CONNECT_TOKEN")


def test_no_file_gives_nothing(home: Path) -> None:
    """Without a config file there is nothing to print and nothing to say."""
    assert ((), ()) == export.export_config(None, {"HOME": str(home)})


def test_a_named_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    """A launcher must not start a worker without the file it was given."""
    with pytest.raises(SettingsError):
        export.export_config(str(tmp_path / "gone.env"), {})


def test_warnings_come_beside_the_lines_without_values(tmp_path: Path) -> None:
    """The lines are for stdout, the warnings for stderr; no warning holds a value."""
    path = tmp_path / "c.env"
    path.write_text("AGENT_CONNECT_TOKEN=s3cret\nAGENT_CONNECT_TOKEN=s3cret2\nPATH=/evil\n")
    path.chmod(0o644)
    lines, warnings = export.export_config(str(path), {})
    assert ("export AGENT_CONNECT_TOKEN=s3cret2",) == lines
    assert 3 == len(warnings)
    assert not any("s3cret" in warning or "/evil" in warning for warning in warnings)
