"""Where a command keeps its state, where it listens, and for whom."""

import getpass
import re
from pathlib import Path

from agentconnect.cli.options import printable
from agentconnect.core.errors import SettingsError


def folder(named: str | None, name: str) -> Path:
    folder = Path(named).expanduser() if named else Path.home() / ".agent-connect" / name
    return folder.absolute()


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
