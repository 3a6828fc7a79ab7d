"""Conversations on disk, so that they survive the process: one JSON file each, 0600, atomic.

Convenience data: an unreadable file is an unknown conversation, never a crash. A turn is stored
when it starts and again when it ends, so that a killed process still knows what was asked.
"""

import json
import os
import re
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from agentconnect.demo import intents
from agentconnect.demo.followups import Past
from agentconnect.demo.prompt import Attached

MAX_TURNS = 200
MAX_SAID = 4000
MAX_ANSWER = 20_000
MAX_CONVERSATIONS = 500
_ID = re.compile(r"demo-[0-9a-f]{32}")


@dataclass(slots=True, kw_only=True)
class Turn:
    """One message and what was answered; ``answer`` is empty while it runs."""

    said: str
    answer: str = ""
    got: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Conversation:
    """What one ACP session remembers."""

    id: str
    cwd: str
    turns: list[Turn] = field(default_factory=list)
    count: int = 0
    last: intents.Intent | None = None
    last_file: str = ""
    used: list[str] = field(default_factory=list)
    asked: bool = False
    always: bool = False
    name: str = ""
    notes: list[str] = field(default_factory=list)
    kept: tuple[Attached, ...] = ()  # the last attachments; only while this process runs

    def past(self) -> Past:
        """What a follow-up can refer to."""
        return Past(
            last=self.last, last_file=self.last_file, used=tuple(self.used), asked=self.asked
        )

    def touched(self, name: str) -> None:
        """A file came up."""
        self.last_file = name
        if name not in self.used:
            self.used = [*self.used[-199:], name]


class Memory:
    """The folder of conversations."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "sessions"

    def new(self, cwd: str) -> Conversation:
        """A fresh conversation, stored at once so that it can be loaded before its first turn."""
        self._prune()
        conversation = Conversation(id=f"demo-{uuid.uuid4().hex}", cwd=cwd)
        self.save(conversation)
        return conversation

    def load(self, session_id: str) -> Conversation | None:
        """The conversation, or None where it is unknown or unreadable."""
        if _ID.fullmatch(session_id) is None:
            return None
        try:
            raw = json.loads((self._folder / f"{session_id}.json").read_bytes())
            return _decode(session_id, raw)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def save(self, conversation: Conversation) -> None:
        """Store it. A full disk costs the memory, not the turn."""
        conversation.turns = conversation.turns[-MAX_TURNS:]
        data = json.dumps(_encode(conversation), ensure_ascii=True).encode()
        target = self._folder / f"{conversation.id}.json"
        temp = self._folder / f".{conversation.id}.{os.getpid()}.tmp"
        try:
            self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with os.fdopen(os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as f:
                f.write(data)
            temp.replace(target)
        except OSError:
            temp.unlink(missing_ok=True)

    def _prune(self) -> None:
        """Keep the newest conversations; the oldest make room."""
        try:
            files = list(self._folder.glob("demo-*.json"))
            if len(files) < MAX_CONVERSATIONS:
                return
            files.sort(key=lambda path: path.stat().st_mtime)
            for path in files[: len(files) - MAX_CONVERSATIONS + 1]:
                path.unlink(missing_ok=True)
        except OSError:
            return


def home_of(environ: dict[str, str]) -> Path:
    """Where the demonstration keeps its state."""
    named = environ.get("AGENT_CONNECT_DEMO_HOME", "").strip()
    return Path(named).expanduser() if named else Path.home() / ".agent-connect" / "demo"


def _encode(conversation: Conversation) -> dict[str, object]:
    return {
        "version": 1,
        "cwd": conversation.cwd,
        "saved": int(time.time()),
        "count": conversation.count,
        "last": intents.as_json(conversation.last) if conversation.last else None,
        "last_file": conversation.last_file,
        "used": conversation.used,
        "asked": conversation.asked,
        "always": conversation.always,
        "name": conversation.name,
        "notes": conversation.notes[-50:],
        "turns": [
            {"said": turn.said[:MAX_SAID], "answer": turn.answer[:MAX_ANSWER], "got": turn.got}
            for turn in conversation.turns
        ],
    }


def _decode(session_id: str, raw: dict[str, object]) -> Conversation:
    turns = raw["turns"]
    if not isinstance(turns, list):
        raise TypeError("turns")
    return Conversation(
        id=session_id,
        cwd=str(raw["cwd"]),
        turns=[
            Turn(said=str(t["said"]), answer=str(t["answer"]), got=_strings(t.get("got")))
            for t in turns
        ],
        count=int(str(raw.get("count", len(turns)))),
        last=intents.from_json(raw.get("last")),
        last_file=str(raw.get("last_file", "")),
        used=_strings(raw.get("used")),
        asked=raw.get("asked") is True,
        always=raw.get("always") is True,
        name=str(raw.get("name", "")),
        notes=_strings(raw.get("notes")),
    )


def _strings(raw: object) -> list[str]:
    return [str(item) for item in raw] if isinstance(raw, list) else []
