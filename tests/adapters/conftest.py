"""A bench for each test of the adapters."""

from pathlib import Path

import pytest

from tests.adapters.rig import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Folders and a PATH of this test's own."""
    return Bench(tmp_path)
