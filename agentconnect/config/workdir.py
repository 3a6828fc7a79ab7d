"""The working directory at start (worker.md §3, ``AGENT_CONNECT_REPO``; §4, step 6).

It is the one folder that the agent may change, so a wrong one is refused and never guessed.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agentconnect.config.envfile import expand_home
from agentconnect.core.errors import SettingsError

DEFAULT_REPO = "~/agents"
_GUARDED_BY_SYSTEM = ("Documents", "Desktop", "Downloads")


class WorkingDirectory(msgspec.Struct, frozen=True, kw_only=True):
    """The directory, resolved; ``announcement`` is for stdout, ``warning`` for stderr."""

    path: Path
    announcement: str = ""
    warning: str = ""


def prepare(repo: Path | None, env: Mapping[str, str]) -> WorkingDirectory:
    """Make the default working directory, or check the one that was named.

    Raises: SettingsError when it is no directory or cannot be made.
    """
    if sentence := problem(repo, env):
        raise SettingsError(sentence)
    announcement = ""
    if repo is None:
        repo = Path(expand_home(DEFAULT_REPO, env))
        if not repo.is_dir():
            _make(repo)
            announcement = f"working directory {repo} made (AGENT_CONNECT_REPO names another)"
    resolved = repo.resolve()
    return WorkingDirectory(
        path=resolved, announcement=announcement, warning=guarded(resolved, env)
    )


def problem(repo: Path | None, env: Mapping[str, str]) -> str:
    """Why the agent cannot work there, as a sentence; "" where it can. Makes nothing."""
    named = repo is not None
    path = Path(expand_home(DEFAULT_REPO, env)) if repo is None else repo
    try:
        found = path.stat()
        if not stat.S_ISDIR(found.st_mode):
            why = "is not a directory"
        elif not os.access(path, os.R_OK | os.X_OK):
            why = "may not be read by this user"
        else:
            return ""
    except FileNotFoundError:
        if not named:
            return ""
        why = "does not exist"
    except OSError as error:
        why = f"cannot be used ({error.strerror})"
    if named:
        return (
            f"AGENT_CONNECT_REPO is {path}, which {why}: the agent works there, so please make it "
            "or name another directory."
        )
    return f"the working directory {path} {why}. AGENT_CONNECT_REPO names another."


def _make(repo: Path) -> None:
    try:
        repo.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"the working directory {repo} cannot be made: {error.strerror}. "
            "AGENT_CONNECT_REPO names another."
        ) from error


def guarded(resolved: Path, env: Mapping[str, str]) -> str:
    """Some systems ask at the screen before a program may read these; a service waits for ever."""
    home = Path(expand_home("~", env)).resolve()
    try:
        first = resolved.relative_to(home).parts[:1]
    except ValueError:
        return ""
    if not first or first[0] not in _GUARDED_BY_SYSTEM:
        return ""
    return (
        f"the working directory {resolved} lies in {home / first[0]}, which some systems guard: "
        "the agent may be refused there, or wait for a question on the screen. "
        "AGENT_CONNECT_REPO names another directory."
    )
