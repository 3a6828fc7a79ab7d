"""The real demonstration agent as a child process, over a small folder."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.acp_client import AcpClient, demo_client


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A working directory with a few files."""
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "notes.txt").write_text("buy milk\nTODO call Bob\n")
    (folder / "other.txt").write_text("a second file\n")
    (folder / "src" / "a.py").write_text("print(1)  # TODO\n")
    (folder / ".env").write_text("KEY=hidden\n")
    return folder


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The agent's own folder, outside the working directory."""
    return tmp_path / "state"


@pytest.fixture
async def agent(work: Path, state: Path) -> AsyncIterator[AcpClient]:
    """The agent, initialised."""
    async with demo_client(work, state) as client:
        yield client
