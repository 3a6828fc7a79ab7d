"""The environment that holds the reference packages, built once and kept in ``.cache``."""

import fcntl
import os
import shutil
import sys
import venv
from pathlib import Path

import pytest

from tests.support.venvs import failure_of

PACKAGES = ("ag2-relay-client==0.1.0", "ag2-agent-connect==0.2.1")
_LIMIT_S = 240.0
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
    return _python().exists() and failure_of([str(_python()), "-I", "-c", probe], _LIMIT_S) == ""


def _build() -> str:
    shutil.rmtree(_FOLDER, ignore_errors=True)
    uv = shutil.which("uv")
    if uv and not failure_of([uv, "venv", "-q", "-p", sys.executable, str(_FOLDER)], _LIMIT_S):
        install = [uv, "pip", "install", "-q", "--compile-bytecode", "-p", str(_python())]
        if not failure_of([*install, *PACKAGES], _LIMIT_S):
            return ""
    shutil.rmtree(_FOLDER, ignore_errors=True)
    # pip from outside: Debian's Python may come without the means to put pip into it
    venv.create(_FOLDER, with_pip=False, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(_python()), "install", "-q"]
    failed = failure_of([*pip, "--disable-pip-version-check", *PACKAGES], _LIMIT_S)
    if not failed:
        return ""
    shutil.rmtree(_FOLDER, ignore_errors=True)
    return f"the reference packages cannot be installed: {failed}"
