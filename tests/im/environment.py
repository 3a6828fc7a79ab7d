"""The environment that holds Synapse, built once and kept in ``.cache``: it pins much.

``AGENTCONNECT_SYNAPSE_PYTHON`` names an interpreter that has it already.
"""

import fcntl
import os
import shutil
import sys
import venv
from pathlib import Path

import pytest

from tests.support.venvs import failure_of

PACKAGE = "matrix-synapse==1.163.2"
_LIMIT_S = 900.0
_CACHE = Path(__file__).parents[2] / ".cache"
_FOLDER = _CACHE / "synapse-venv"


def synapse_python() -> Path:
    """That interpreter; skips the test where there is none and it cannot be built."""
    named = os.environ.get("AGENTCONNECT_SYNAPSE_PYTHON")
    if named:
        return Path(named)
    _CACHE.mkdir(exist_ok=True)
    with (_CACHE / "synapse-venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        reason = "" if (_FOLDER / "ready").exists() else _build()
    if reason:
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return _FOLDER / "bin" / "python"


def _build() -> str:
    shutil.rmtree(_FOLDER, ignore_errors=True)
    # pip from outside: Debian's Python may come without the means to put pip into it
    venv.create(_FOLDER, with_pip=False, symlinks=True)
    python = str(_FOLDER / "bin" / "python")
    uv = shutil.which("uv")
    if uv:
        failed = failure_of([uv, "pip", "install", "-q", "-p", python, PACKAGE], _LIMIT_S)
    else:
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q"]
        failed = failure_of([*pip, "--disable-pip-version-check", PACKAGE], _LIMIT_S)
    if failed:
        return f"Synapse cannot be installed: {failed}"
    (_FOLDER / "ready").touch()
    return ""
