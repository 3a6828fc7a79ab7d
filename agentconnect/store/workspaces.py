"""``workspaces.json``: which folders the daemon serves beside its own (channel-delivery.md §5).

Class: the owner's. Read at start. An entry that cannot be used is left out with one sentence, the
others serve; the primary workspace is always there.
"""

import os
from pathlib import Path
from typing import Any

import msgspec

from agentconnect.core.daemon.workspaces import PRIMARY_ID, Workspace, is_workspace_id
from agentconnect.store.owners import read_owners


class FoundWorkspaces(msgspec.Struct, frozen=True, kw_only=True):
    """The primary workspace first, then the others; a sentence for everything left out."""

    workspaces: tuple[Workspace, ...]
    problems: tuple[str, ...] = ()


def read_workspaces(path: Path, primary: Path) -> FoundWorkspaces:
    """The workspaces of a start; ``primary`` is AGENT_CONNECT_REPO. Blocking. Never raises."""
    first = Workspace(id=PRIMARY_ID, cwd=os.path.realpath(primary), trusted=True, primary=True)
    found = [first]
    problems: list[str] = []
    try:
        entries = _entries(path)
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        sentence = f"{path} is not used: {why or 'it cannot be read'}."
        return FoundWorkspaces(workspaces=(first,), problems=(sentence,))
    for number, entry in enumerate(entries, start=1):
        try:
            found.append(_workspace(entry, found))
        except ValueError as error:
            problems.append(f"Entry {number} of {path} is left out: {error}.")
    return FoundWorkspaces(workspaces=tuple(found), problems=tuple(problems))


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    cwd: str
    trusted: bool = False


class _File(msgspec.Struct, forbid_unknown_fields=True):
    v: int
    workspaces: list[Any]


def _entries(path: Path) -> list[Any]:
    data = read_owners(path, private=True)
    if data is None:
        return []
    try:
        found = msgspec.json.decode(data, type=_File)
    except msgspec.MsgspecError as error:
        raise ValueError(f'it needs {{"v":1,"workspaces":[…]}} ({error})') from error
    if found.v != 1:
        raise ValueError(f"it is of version {found.v}, this program reads 1")
    return found.workspaces


def _workspace(value: object, known: list[Workspace]) -> Workspace:
    try:
        entry = msgspec.convert(value, _Entry)
    except msgspec.ValidationError as error:
        raise ValueError(f"it needs an id, a cwd and perhaps trusted ({error})") from error
    if not is_workspace_id(entry.id):
        raise ValueError("its id must be 1 to 64 letters, digits, - or _")
    if any(each.id == entry.id for each in known):
        raise ValueError(f"the id {entry.id} is taken")
    if not entry.cwd.startswith("/") or "\0" in entry.cwd:
        raise ValueError("its cwd must be an absolute path")
    real = os.path.realpath(entry.cwd)
    if not Path(real).is_dir():
        raise ValueError("its cwd is not an existing folder")
    if any(each.cwd == real for each in known):
        raise ValueError("its cwd is that of another workspace")
    return Workspace(id=entry.id, cwd=real, trusted=entry.trusted)
