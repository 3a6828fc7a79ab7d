"""An outbox with a clock that the test turns."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentconnect.deliver import Outbox
from tests.deliver.support import Clock


@pytest.fixture
def clock() -> Clock:
    """Wall and process time, standing still until turned."""
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the outbox lies."""
    return tmp_path / "outbox.db"


@pytest.fixture
def outbox(path: Path, clock: Clock) -> Iterator[Outbox]:
    """An open, empty outbox."""
    with Outbox(path, clock=clock) as opened:
        yield opened
