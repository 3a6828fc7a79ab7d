"""doctor and the agent: programs that are old, broken, not logged in, elsewhere."""

import json
import sys
from pathlib import Path

import pytest

from agentconnect.config import settings
from agentconnect.core.doctor import Finding, Level
from agentconnect.doctor import agent
from agentconnect.store.layout import Layout
from tests.support.remote_agent import remote_agent

FAKE = Path(__file__).parents[2] / "support" / "fake_agent.py"


def program(folder: Path, name: str, script: str) -> Path:
    """An executable of this name."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


async def look(tmp_path: Path, **values: str) -> dict[str, Finding]:
    """The lines about the agent of these settings, by check."""
    (tmp_path / "repo").mkdir(exist_ok=True)
    environment = {
        "HOME": str(tmp_path),
        "PATH": str(tmp_path),
        "AGENT_CONNECT_REPO": str(tmp_path / "repo"),
        "AGENT_CONNECT_TOKEN": "https://relay.example|s3cret-s3cret",
        **values,
    }
    loaded = settings.load(environment, {})
    found = await agent.look(loaded, Layout(state_dir=loaded.settings.workspace), None)
    assert not (tmp_path / ".agent-connect").exists()
    return {finding.check: finding for finding in found}


def acp(tmp_path: Path, options: dict[str, object]) -> str:
    """A command line for the scripted agent."""
    return f"{sys.executable} {FAKE} '{json.dumps(options)}'"


async def test_an_agent_over_acp_is_only_asked_who_it_is(tmp_path: Path) -> None:
    """``initialize`` and nothing else: no session, no prompt."""
    log = tmp_path / "log"
    command = acp(tmp_path, {"log": str(log)})
    found = await look(
        tmp_path, AGENT_CONNECT_ADAPTER="acp", AGENT_CONNECT_ACP_COMMAND=command, PATH="/usr/bin"
    )
    assert Level.OK == found["agent.start"].level
    asked = [json.loads(line) for line in log.read_text().splitlines()]
    assert ["initialize"] == [message["method"] for message in asked if "method" in message]


async def test_npx_fetches_nothing_for_doctor(tmp_path: Path) -> None:
    """What is not there yet is a warning with its install line."""
    program(
        tmp_path,
        "npx",
        f'echo "$npm_config_offline" > {tmp_path}/seen; echo "error code ENOTCACHED" >&2; exit 1',
    )
    program(tmp_path, "node", "echo v22.0.0")
    found = await look(tmp_path, AGENT_CONNECT_ADAPTER="acp", AGENT_CONNECT_ACP_AGENT="gemini")
    assert "true\n" == (tmp_path / "seen").read_text()
    assert Level.WARNING == found["agent.start"].level
    assert "npm install -g @google/gemini-cli" in found["agent.start"].mend
    assert Level.OK == found["agent.node"].level


@pytest.mark.parametrize(("version", "level"), [("v16.20.2", Level.FAILURE), ("v18.0.0", Level.OK)])
async def test_node_must_be_new_enough(version: str, level: Level, tmp_path: Path) -> None:
    """And must be there at all for a script that asks for it."""
    (tmp_path / "codex").write_text("#!/usr/bin/env node\n")
    (tmp_path / "codex").chmod(0o755)
    found = await look(tmp_path, AGENT_CONNECT_ADAPTER="codex")
    assert "not on PATH" in found["agent.node"].text
    program(tmp_path, "node", f"echo {version}")
    found = await look(tmp_path, AGENT_CONNECT_ADAPTER="codex")
    assert level == found["agent.node"].level


async def test_an_agent_that_nobody_is_logged_in_to(tmp_path: Path) -> None:
    """The preset's own login line."""
    options = json.dumps({"auth": ["claude-login"]})
    program(tmp_path, "claude-agent-acp", f"exec {sys.executable} {FAKE} '{options}'")
    found = await look(tmp_path, AGENT_CONNECT_ADAPTER="acp", AGENT_CONNECT_ACP_AGENT="claude")
    assert Level.FAILURE == found["agent.login"].level
    assert "claude setup-token" in found["agent.login"].mend


async def test_a_dialled_agent_is_dialled_with_its_token(tmp_path: Path) -> None:
    """A door that is closed is a failure; an address that may not be dialled is said elsewhere."""
    async with remote_agent() as there:
        there.bearer = "a-bearer"
        values = {"AGENT_CONNECT_ADAPTER": "acp", "AGENT_CONNECT_ACP_URL": there.url}
        found = await look(tmp_path, **values, AGENT_CONNECT_ACP_TOKEN="a-bearer")
        assert Level.OK == found["agent.start"].level
        found = await look(tmp_path, **values, AGENT_CONNECT_ACP_TOKEN="wrong")
        assert Level.FAILURE == found["agent.start"].level
        assert "AGENT_CONNECT_ACP_TOKEN" in found["agent.start"].text
    found = await look(
        tmp_path, AGENT_CONNECT_ADAPTER="acp", AGENT_CONNECT_ACP_URL="ftp://elsewhere"
    )
    assert "a setting about it is wrong" in found["agent"].text
    found = await look(tmp_path, AGENT_CONNECT_ADAPTER="acp", AGENT_CONNECT_ACP_COMMAND="'open")
    assert "a setting about it is wrong" in found["agent"].text


async def test_ollama_without_a_server(tmp_path: Path) -> None:
    """Start it, and fetch the model."""
    found = await look(tmp_path, AGENT_CONNECT_ADAPTER="ollama", OLLAMA_HOST="127.0.0.1:9")
    assert Level.FAILURE == found["agent.start"].level
    assert "ollama pull qwen2.5:3b" in found["agent.start"].mend


@pytest.mark.parametrize(
    ("script", "level", "said"),
    [
        ("echo codex-cli 0.98.0", Level.OK, "codex-cli 0.98.0"),
        ("echo broken >&2; exit 3", Level.WARNING, "ended with code 3: broken"),
        ("while :; do echo y; done", Level.OK, "codex, y"),
        ('echo "given: $AGENT_CONNECT_TOKEN."', Level.OK, "given: ."),
    ],
)
async def test_a_known_program_is_asked_for_its_version(
    script: str, level: Level, said: str, tmp_path: Path
) -> None:
    """Bounded in what it says, and without our token."""
    program(tmp_path, "codex", script)
    found = await look(tmp_path, AGENT_CONNECT_ADAPTER="codex", PATH=f"{tmp_path}:/usr/bin:/bin")
    assert level == found["agent.program"].level
    assert said in found["agent.program"].text


async def test_a_program_that_cannot_be_run(tmp_path: Path) -> None:
    """Executable, and nothing that the kernel knows."""
    path = program(tmp_path, "codex", "")
    path.write_bytes(b"#!/no/such/interpreter\n")
    found = await look(tmp_path, AGENT_CONNECT_ADAPTER="codex")
    assert Level.FAILURE == found["agent.program"].level
    assert "cannot be run" in found["agent.program"].text


async def test_a_program_by_its_path_is_not_sought_on_path(tmp_path: Path) -> None:
    """It is there, and the kernel would not run it."""
    there = tmp_path / "there"
    there.write_text("no program")
    found = await look(tmp_path, AGENT_CONNECT_ADAPTER="acp", AGENT_CONNECT_ACP_COMMAND=str(there))
    assert "may not be executed (chmod +x)" in found["agent.program"].text
    assert "on PATH" not in found["agent.program"].text
