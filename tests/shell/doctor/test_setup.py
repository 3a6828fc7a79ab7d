"""doctor and the config file: what it says that a start would not."""

from pathlib import Path

import pytest

from agentconnect.core.doctor import Finding, Level
from agentconnect.doctor import setup


def look(home: Path, *lines: str) -> dict[str, Finding]:
    """The first lines, by check, where the config file has these."""
    config = home / ".agent-connect" / "config.env"
    config.parent.mkdir(exist_ok=True)
    config.write_text("".join(f"{line}\n" for line in lines))
    config.chmod(0o600)
    return {finding.check: finding for finding in setup.look(None, {"HOME": str(home)}).findings}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("AGENT_CONNECT_WORKSPACE=state", True),
        ("AGENT_CONNECT_EGRESS_ROOTS=/a:b", True),
        ("AGENT_CONNECT_EGRESS_ROOTS=/a: :~/b", False),
        ("AGENT_CONNECT_WORKSPACE=~/state", False),
        ("AGENT_CONNECT_WORKSPACE=", False),
        ("AGENT_CONNECT_ACP_MODE=state", False),
    ],
)
def test_a_relative_path_in_the_config_file_is_a_warning(
    home: Path, line: str, named: bool
) -> None:
    """A service starts in the home directory, a person anywhere."""
    found = look(home, line).get("settings.relative")
    assert named == (found is not None)
    assert found is None or (Level.WARNING, True) == (found.level, line.split("=")[0] in found.text)
