"""What every test of the desk begins with."""

import pytest

from tests.shell.turns.fakes import World


@pytest.fixture
def world() -> World:
    """A room, a journal and results of its own."""
    return World()
