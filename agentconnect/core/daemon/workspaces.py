"""Which workspace a request means, and what one is (§3, §5). Paths are resolved by the caller."""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec

from agentconnect.core.daemon.prompts import MAX_PENDING
from agentconnect.core.daemon.refusals import (
    RUNTIME_UNAVAILABLE,
    UNTRUSTED,
    Refusal,
    delivery_refusal,
    workspace_mismatch,
)
from agentconnect.core.destination import Code

PRIMARY_ID = "main"
CAPABILITY = "channel_delivery"

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Workspace(msgspec.Struct, frozen=True, kw_only=True):
    """One project directory; ``cwd`` is its canonical path."""

    id: str
    cwd: str
    trusted: bool = False
    primary: bool = False

    def as_object(self) -> dict[str, Any]:
        """Its entry in the answer to ``GET /capabilities``."""
        return {"id": self.id, "cwd": self.cwd, "primary": self.primary, "trusted": self.trusted}


class Life(StrEnum):
    """Where a workspace is in its life; only a running one takes work."""

    BOOTSTRAPPING = "bootstrapping"
    RUNNING = "running"
    DRAINING = "draining"
    STOPPED = "stopped"


class PathAsked(msgspec.Struct, frozen=True, kw_only=True):
    """The request named an absolute path: find what it really is, then ask ``by_path``."""

    path: str


class Registry:
    """The registered workspaces; the primary one is always among them."""

    def __init__(self, workspaces: Iterable[Workspace]) -> None:
        self._by_id = {each.id: each for each in workspaces}
        self._by_path = {each.cwd: each for each in self._by_id.values()}
        (self.primary,) = (each for each in self._by_id.values() if each.primary)

    def all(self) -> tuple[Workspace, ...]:
        """In the order in which they were registered."""
        return tuple(self._by_id.values())

    def by_segment(self, raw: bytes) -> Workspace | PathAsked | Refusal:
        """The workspace of one undecoded segment of the request's path."""
        try:
            name = unquote_to_bytes(raw).decode()
        except UnicodeDecodeError:
            return workspace_mismatch()
        return self.by_name(name)

    def by_name(self, name: str) -> Workspace | PathAsked | Refusal:
        """The workspace of an id or an absolute path."""
        known = self._by_id.get(name)
        if known is not None:
            return _if_trusted(known)
        if not name.startswith("/") or "\0" in name:
            return workspace_mismatch()
        return PathAsked(path=name)

    def by_path(self, real: str) -> Workspace | Refusal:
        """The workspace whose canonical path is ``real``."""
        known = self._by_path.get(real)
        return workspace_mismatch(len(self._by_id)) if known is None else _if_trusted(known)

    def get(self, workspace_id: str) -> Workspace | None:
        """The workspace of that id, trusted or not."""
        return self._by_id.get(workspace_id)


def is_workspace_id(text: str) -> bool:
    """Whether ``text`` may be the id of a workspace."""
    return _ID.fullmatch(text) is not None


def check_life(life: Life, *, notify: bool) -> Refusal | None:
    """503 unless it runs: of the worker for Notify, of the runtime for prompts and tasks."""
    if life is Life.RUNNING:
        return None
    return delivery_refusal(Code.UNAVAILABLE) if notify else RUNTIME_UNAVAILABLE


def capabilities(registry: Registry) -> dict[str, Any]:
    """The answer to ``GET /capabilities``: what the protocol offers, not how anything is."""
    return {
        "v": 1,
        "features": [CAPABILITY],
        "workspaceCwd": registry.primary.cwd,
        "workspaces": [each.as_object() for each in registry.all()],
        "limits": {"maxPendingPromptsPerSession": MAX_PENDING},
    }


def _if_trusted(workspace: Workspace) -> Workspace | Refusal:
    return workspace if workspace.trusted else UNTRUSTED
