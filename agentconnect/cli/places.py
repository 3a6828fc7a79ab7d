"""Where a command keeps its state, where it listens, and for whom."""

import getpass
import os
import re
from pathlib import Path

from agentconnect.cli.options import printable
from agentconnect.config import envfile
from agentconnect.core.errors import AgentConnectError, SettingsError


def made_folder(named: str | None, name: str) -> Path:
    """The folder of ``--dir``, or its default. Raises: AgentConnectError where it cannot be."""
    folder = Path(envfile.expand_home(named or f"~/.agent-connect/{name}", os.environ)).absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        what = "exists and is no folder" if folder.exists() else f"cannot be made: {error.strerror}"
        raise AgentConnectError(
            f"the folder {printable(str(folder), 4096)} {what}. Name another with --dir"
        ) from error
    return folder


def listen_at(text: str | None, default: tuple[str, int]) -> tuple[str, int]:
    if text is None:
        return default
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:]+)\]|([A-Za-z0-9.-]+)):([0-9]{1,5})", text.strip())
    if found is None or int(found[3]) > 65535:
        raise SettingsError(f'--listen is "{printable(text)}", not HOST:PORT')
    return found[1] or found[2], int(found[3])


def user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "owner"
