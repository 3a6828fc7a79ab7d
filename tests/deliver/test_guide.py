"""The guide's example is an agent that works, and stays short."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from agentconnect.deliver import Outbox, declared
from tests.support.acp_client import Json, acp_client

BINDING = "a" * 32 + "." + "b" * 32


@pytest.fixture
def example(repo_root: Path, tmp_path: Path) -> Path:
    """The guide's program in a file."""
    guide = (repo_root / "docs" / "delivering.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", guide, re.S | re.M)
    written = [line for line in code.splitlines() if line.strip()]
    assert len(written) <= 40
    program = tmp_path / "agent.py"
    program.write_text(code)
    return program


async def test_the_example_delivers(example: Path, tmp_path: Path, home: Path) -> None:
    """A turn of the example queues its report, and its listener sends it."""
    command = [sys.executable, str(example)]
    folder = tmp_path / BINDING
    folder.mkdir()
    told = {"ag2/delivery": {"binding": BINDING, "export_dir": str(folder)}}
    async with acp_client(command, cwd=tmp_path) as turn:
        assert declared((await turn.initialize({"ag2/receive": True}))["agentCapabilities"])
        session = await turn.new(tmp_path)
        await turn.turn(session, "build it")
        assert not (home / "my-agent.outbox").exists()
        await turn.turn(session, "build it", meta=told)
        await turn.turn(session, "build it", meta=told)
        assert [] == turn.extensions

    async with acp_client(command, cwd=tmp_path) as listener:
        listener.extend = answer
        await listener.initialize({"ag2/deliver": True})
        await listener.until(lambda: bool(listener.extensions))
    (request,) = listener.extensions
    assert request["method"] == "_ag2/deliver"
    assert request["params"] == {
        "id": "build-4711",
        "binding": BINDING,
        "text": "The build is done.",
        "files": [{"uri": (folder / "report.txt").as_uri()}],
    }
    with Outbox(home / "my-agent.outbox") as outbox:
        assert ["build-4711"] == [entry.id for entry in outbox.entries()]


def answer(_request: Json) -> Json:
    """Delivered."""
    named: list[dict[str, Any]] = [
        {"part": part, "event_id": f"${part}", "status": "created"} for part in range(2)
    ]
    return {"result": {"outcome": "delivered", "delivered": named, "expires_at": None}}
