"""What several tests of channels need."""

import socket

import pytest


@pytest.fixture
def free_port() -> int:
    """A port of loopback that nobody had a moment ago."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
