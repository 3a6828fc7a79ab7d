"""The environment that holds the reference packages, built once and kept in ``.cache``."""

import fcntl
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

PACKAGES = ("ag2-relay-client==0.1.0", "ag2-agent-connect==0.2.1")
_CACHE = Path(__file__).parents[2] / ".cache"
_FOLDER = _CACHE / "reference-venv"


def reference_python() -> Path:
    """The interpreter of that environment; skips the test where it cannot be built.

    In CI a missing reference is a failure: it is what keeps the relay honest.
    """
    _CACHE.mkdir(exist_ok=True)
    with (_CACHE / "reference-venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        reason = "" if _is_ready() else _build()
    if reason:
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return _python()


def _python() -> Path:
    return _FOLDER / "bin" / "python"


def _is_ready() -> bool:
    probe = "import importlib.metadata as m; " + "; ".join(
        "assert m.version({!r}) == {!r}".format(*package.split("==")) for package in PACKAGES
    )
    return _python().exists() and _run([str(_python()), "-I", "-c", probe]) == ""


def _build() -> str:
    shutil.rmtree(_FOLDER, ignore_errors=True)
    uv = shutil.which("uv")
    if uv and not _run([uv, "venv", "-q", "-p", sys.executable, str(_FOLDER)]):
        install = [uv, "pip", "install", "-q", "--compile-bytecode", "-p", str(_python())]
        if not _run([*install, *PACKAGES]):
            return ""
    shutil.rmtree(_FOLDER, ignore_errors=True)
    # pip from outside: Debian's Python may come without the means to put pip into it
    venv.create(_FOLDER, with_pip=False, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(_python()), "install", "-q"]
    failed = _run([*pip, "--disable-pip-version-check", *PACKAGES])
    if not failed:
        return ""
    shutil.rmtree(_FOLDER, ignore_errors=True)
    return f"the reference packages cannot be installed: {failed}"


def _run(command: list[str]) -> str:
    """``""`` for success, else the last line of what the command said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    if done.returncode == 0:
        return ""
    lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
    return lines[-1][:200]
