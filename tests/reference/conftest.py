"""The reference environment as a fixture, built at most once per run."""

from pathlib import Path

import pytest

from tests.reference.environment import reference_python


@pytest.fixture(scope="session")
def reference() -> Path:
    """The interpreter that has the reference packages."""
    return reference_python()
