"""Modules that only tests and checks need."""

import importlib
import os
from typing import Any

import pytest


def optional(name: str) -> Any:
    """That module; skips where it is not installed. In CI, which installs all, it has to be."""
    return importlib.import_module(name) if os.environ.get("CI") else pytest.importorskip(name)
