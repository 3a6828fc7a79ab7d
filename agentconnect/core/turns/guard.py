"""The result guard: what a collaborator's turn may show while a room filters secrets (§20.5).

Owns what is withheld and the sentence in its place; the shapes are ``core.redaction``'s. It judges
whole texts, before anything is cut to fit: half a secret has no shape. A guess by shape, not a
wall: a secret that was spelt otherwise passes.
"""

import codecs
from collections.abc import Callable

import msgspec

from agentconnect.core.turns import wording
from agentconnect.core.turns.events import (
    Event,
    FileOffered,
    Notice,
    PermissionAsked,
    ToolFinished,
    ToolRetitled,
    ToolStarted,
)

Scan = Callable[[str], tuple[str, ...]]
"""The names of the secret shapes in a text."""
Inspect = Callable[[str, bytes], str]
"""Why a file (its name, its content) is not sent; ``""``: it may be."""

_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\x1b"))
_MARKED = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class ResultGuard:
    """The guard of one turn."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan

    def text(self, what: str, text: str) -> str:
        """``text``, or what stands for it where it holds a secret."""
        found = self._scan(text)
        return wording.withheld(what, found) if found else text

    def event(self, event: Event) -> Event:
        """An event that may be shown: titles and reasons become generic words."""
        match event:
            case Notice(text=text):
                return Notice(text=self.text("A notice", text))
            case ToolStarted() | ToolRetitled() | ToolFinished() if self._scan(event.title):
                return msgspec.structs.replace(event, title=wording.WITHHELD_STEP)
            case PermissionAsked() if self._scan(f"{event.title}\n{event.reason}"):
                return msgspec.structs.replace(
                    event, title=wording.WITHHELD_STEP, reason=wording.WITHHELD_REASON
                )
            case FileOffered() if found := self._scan(f"{event.path}\n{event.name}"):
                return Notice(text=wording.withheld("A file", found))
        return event

    def file(self, name: str, content: bytes) -> str:
        """Why a file is not sent: it holds a secret, or cannot be looked through. Blocking."""
        text = as_text(content)
        if text is None:
            return wording.withheld_file(())
        found = self._scan(f"{name}\n{text}")
        return wording.withheld_file(found) if found else ""


def as_text(content: bytes) -> str | None:
    """The text in a file; None where it is none that can be looked through."""
    if content.startswith(_MARKED):
        encoding = "utf-16"
    elif len(content.translate(None, _CONTROLS)) != len(content):
        return None
    else:
        encoding = "utf-8"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        return content.decode("latin-1") if encoding == "utf-8" else None
