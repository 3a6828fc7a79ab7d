"""Conversations on disk, so that they survive the process: one file of JSON lines each, 0600.

A turn is a line when it starts and a line when it ends, so a killed process still knows what was
asked, and a turn costs the same however long the conversation is. A line cut short is ignored;
a file grown too long is written anew and renamed into place. Convenience data: an unreadable file
is an unknown conversation, never a crash.
"""

import contextlib
import json
import os
import re
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
MAX_LINES = 3 * MAX_TURNS
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
    lines: int = 0  # how many lines its file has

    def past(self) -> Past:
        """What a follow-up can refer to."""
        return Past(
            last=self.last, last_file=self.last_file, used=tuple(self.used), asked=self.asked
        )

    def touched(self, name: str) -> None:
        """A file came up."""
        self.last_file = name
        if name not in self.used:
            self.used = [*self.used[-99:], name]


class Memory:
    """The folder of conversations."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "sessions"

    def new(self, cwd: str) -> Conversation:
        """A fresh conversation, stored at once so that it can be loaded before its first turn."""
        self._prune()
        conversation = Conversation(id=f"demo-{uuid.uuid4().hex}", cwd=cwd)
        self._rewrite(conversation)
        return conversation

    def load(self, session_id: str) -> Conversation | None:
        """The conversation, or None where it is unknown or unreadable."""
        if _ID.fullmatch(session_id) is None:
            return None
        try:
            data = self._file(session_id).read_bytes()
            conversation = _decode(session_id, data.splitlines())
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None
        if not data.endswith(b"\n"):  # the next line must not be glued to one cut short
            self._rewrite(conversation)
        return conversation

    def begin(self, conversation: Conversation, turn: Turn) -> None:
        """A turn starts. A full disk costs the memory, not the turn."""
        conversation.turns = [*conversation.turns[-MAX_TURNS + 1 :], turn]
        conversation.count += 1
        self._append(conversation, {"said": turn.said[:MAX_SAID], "got": turn.got})

    def end(self, conversation: Conversation) -> None:
        """The last turn ended; what the conversation knows now is stored with its answer."""
        answer = conversation.turns[-1].answer[:MAX_ANSWER]
        self._append(conversation, {"answer": answer, "state": _state(conversation)})
        if conversation.lines > MAX_LINES:
            self._rewrite(conversation)

    def _file(self, session_id: str) -> Path:
        return self._folder / f"{session_id}.jsonl"

    def _append(self, conversation: Conversation, line: dict[str, object]) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        with contextlib.suppress(OSError):
            handle = os.open(self._file(conversation.id), flags)
            try:
                os.write(handle, _line(line))
            finally:
                os.close(handle)
        conversation.lines += 1

    def _rewrite(self, conversation: Conversation) -> None:
        """The whole file, atomically."""
        lines: list[dict[str, object]] = [{"version": 1, "cwd": conversation.cwd}]
        for turn in conversation.turns:
            lines.append({"said": turn.said[:MAX_SAID], "got": turn.got})
            lines.append({"answer": turn.answer[:MAX_ANSWER]})
        lines.append({"state": _state(conversation)})
        temp = self._folder / f".{conversation.id}.{os.getpid()}.tmp"
        try:
            self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with os.fdopen(os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as f:
                f.writelines(map(_line, lines))
            temp.replace(self._file(conversation.id))
        except OSError:
            with contextlib.suppress(OSError):
                temp.unlink()
        conversation.lines = len(lines)

    def _prune(self) -> None:
        """Keep the newest conversations; the oldest make room."""
        try:
            files = list(self._folder.glob("demo-*.jsonl"))
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


def _line(content: dict[str, object]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def _state(conversation: Conversation) -> dict[str, object]:
    return {
        "count": conversation.count,
        "last": intents.as_json(conversation.last) if conversation.last else None,
        "last_file": conversation.last_file,
        "used": conversation.used,
        "asked": conversation.asked,
        "always": conversation.always,
        "name": conversation.name,
        "notes": conversation.notes,
    }


def _decode(session_id: str, raw: list[bytes]) -> Conversation:
    conversation = Conversation(id=session_id, cwd=str(json.loads(raw[0])["cwd"]), lines=len(raw))
    for each in raw[1:]:
        try:
            line = json.loads(each)
        except ValueError:  # cut short by a crash
            continue
        if "said" in line:
            conversation.turns.append(Turn(said=str(line["said"]), got=_strings(line["got"])))
            conversation.count += 1
        if "answer" in line and conversation.turns:
            conversation.turns[-1].answer = str(line["answer"])
        if "state" in line:
            _apply(conversation, line["state"])
    conversation.turns = conversation.turns[-MAX_TURNS:]
    return conversation


def _apply(conversation: Conversation, state: dict[str, object]) -> None:
    conversation.count = int(str(state["count"]))
    conversation.last = intents.from_json(state["last"])
    conversation.last_file = str(state["last_file"])
    conversation.used = _strings(state["used"])
    conversation.asked = state["asked"] is True
    conversation.always = state["always"] is True
    conversation.name = str(state["name"])
    conversation.notes = _strings(state["notes"])


def _strings(raw: object) -> list[str]:
    return [str(item) for item in raw] if isinstance(raw, list) else []
