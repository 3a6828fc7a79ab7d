"""Where a program is, as a child of ours would find it."""

import os
import shutil
from collections.abc import Mapping


def find(word: str, environment: Mapping[str, str], cwd: str) -> str | None:
    """The program's path; None where a child started in ``cwd`` would not find it."""
    if "/" in word:
        path = os.path.join(cwd, word)  # noqa: PTH118 - absolute paths win
        return path if os.path.isfile(path) and os.access(path, os.X_OK) else None  # noqa: PTH113
    return shutil.which(word, path=environment.get("PATH", os.defpath))
