"""Where agents come from: a command that is started, or an address that is dialled.

Owns what is checked and said before there is an agent; the processes and connections are the
pool's.
"""

import os
import shutil
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from agentconnect.acp import PRESETS, Agent, Preset, Spawner, dialler
from agentconnect.core.acp.endpoint import Endpoint
from agentconnect.core.errors import PreflightError
from agentconnect.core.turns import wording_acp as wording

Token = Callable[[], Awaitable[str]]
"""Reads the bearer for one dial; "" where there is none."""


class Source(Protocol):
    """One way to get an agent."""

    @property
    def umask(self) -> int: ...

    def agent(self, spawner: Spawner) -> Agent:
        """One that is not begun yet. Raises: PreflightError with what to set or to install."""
        ...

    def not_started(self, error: OSError) -> str:
        """What to say when the kernel would not."""
        ...


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """Which agent is started, where and with what. ``command`` wins over ``preset``."""

    cwd: str
    environment: Mapping[str, str]
    command: tuple[str, ...] | None = None
    preset: str = ""
    umask: int = -1

    @property
    def known(self) -> Preset | None:
        """The preset that really runs; None for a command of the owner's."""
        return None if self.command else PRESETS.get(self.preset.strip().lower())

    @property
    def path(self) -> str:
        """Where its executable is looked for."""
        return self.environment.get("PATH", os.defpath)

    def words(self) -> tuple[str, ...]:
        """The command line. Raises: PreflightError with what to set."""
        if self.command:
            return self.command
        if not self.preset.strip():
            raise PreflightError(wording.no_agent(tuple(PRESETS)))
        preset = self.known
        if preset is None:
            raise PreflightError(wording.unknown_preset(self.preset, tuple(PRESETS)))
        return preset.command(self.path)

    def advice(self, word: str) -> str:
        """What to say when ``word`` is not there."""
        preset = self.known
        return wording.not_found(
            word,
            install=preset.install if preset else "",
            own_command=preset is None,
            path=self.path,
        )

    def agent(self, spawner: Spawner) -> Agent:
        """Say what is missing before the kernel does: a missing folder looks the same to it."""
        words = self.words()
        if not Path(self.cwd).is_dir():
            raise PreflightError(wording.cwd_missing(self.cwd))
        if not _executable_found(words[0], path=self.path, cwd=self.cwd):
            raise PreflightError(self.advice(words[0]))
        return Agent(partial(spawner.connect, words, cwd=self.cwd, env=self.environment))

    def not_started(self, error: OSError) -> str:
        """It is there and could not be run."""
        cause = error.strerror or str(error)
        return wording.would_not_start(self.words()[0], cause=cause, stderr="")


class Door:
    """An agent that runs already and is dialled; its cookies live as long as this."""

    umask = -1

    def __init__(self, where: Endpoint, token: Token) -> None:
        """Raises: SettingsError where the optional part for it is missing."""
        self.where = where
        self._connect = dialler(where, token)

    def agent(self, spawner: Spawner) -> Agent:
        """Dialled when it begins."""
        return Agent(self._connect)

    def not_started(self, error: OSError) -> str:
        """Nothing answered."""
        return wording.unreachable(self.where.shown, error.strerror or str(error))


def _executable_found(word: str, *, path: str, cwd: str) -> bool:
    """Is the executable there, as a child started in ``cwd`` would find it?"""
    if "/" in word:
        return os.access(os.path.join(cwd, word), os.X_OK)  # noqa: PTH118 - absolute paths win
    return shutil.which(word, path=path) is not None
