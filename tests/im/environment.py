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
    # pip from outside: Debian's Python may come without the means to put pip into it
    venv.create(_FOLDER, with_pip=False, symlinks=True)
    python = str(_FOLDER / "bin" / "python")
    uv = shutil.which("uv")
    if uv:
        failed = _run([uv, "pip", "install", "-q", "-p", python, PACKAGE])
    else:
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q"]
        failed = _run([*pip, "--disable-pip-version-check", PACKAGE])
    if failed:
        return f"Synapse cannot be installed: {failed}"
    (_FOLDER / "ready").touch()
    return ""


def _run(command: list[str]) -> str:
    """``""`` for success, else the last line of what the command said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    if done.returncode == 0:
        return ""
    lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
    return lines[-1][:200]
