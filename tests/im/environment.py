"""The environment that holds Synapse, built once and kept in ``.cache``: it pins much.

``AGENTCONNECT_SYNAPSE_PYTHON`` names an interpreter that has it already.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

PACKAGE = "matrix-synapse==1.163.2"
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
    venv.create(_FOLDER, with_pip=False, symlinks=True)
    python = str(_FOLDER / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q"]
    try:
        done = subprocess.run(
            [*pip, "--disable-pip-version-check", PACKAGE],
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"Synapse cannot be installed: {type(error).__name__}"
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no output"]
        return f"Synapse cannot be installed: {lines[-1][:200]}"
    (_FOLDER / "ready").touch()
    return ""
