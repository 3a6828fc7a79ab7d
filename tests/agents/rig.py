"""How each real agent is set up offline, and one turn of it through our adapter."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from agentconnect.adapters.acp import AcpAdapter
from agentconnect.adapters.contract import TurnContext
from agentconnect.core.task import SessionKey, Task, TaskId, Tier
from agentconnect.core.turns.events import (
    BlockSuperseded,
    Done,
    Event,
    MessageChunk,
    Notice,
    PermissionAsked,
    ToolFinished,
    ToolStarted,
)
from agentconnect.core.turns.session import SessionRecord
from agentconnect.store.sessions import SessionStore

PACKAGES = {
    "claude": "@agentclientprotocol/claude-agent-acp@0.64.2",
    "codex": "@zed-industries/codex-acp@0.16.0",
    "gemini": "@google/gemini-cli@0.61.0",
    # command-line programs, not presets: tests/agents/test_command_lines.py
    "codex-cli": "@openai/codex@0.171.0",
    "cline-cli": "cline@3.0.65",
}
BINARIES = {
    "claude": ("claude-agent-acp",),
    "codex": ("codex-acp",),
    "gemini": ("gemini", "--acp"),
}
KEY = SessionKey(room="!room:test", tier=Tier.OWNER)
OTHER = SessionKey(room="!other:test", tier=Tier.OWNER)

_CODEX = """
model = "fake-model"
model_provider = "fake"
approval_policy = "untrusted"
sandbox_mode = "read-only"
[model_providers.fake]
name = "Fake"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
"""

EventT = TypeVar("EventT", bound=Event)


@dataclass(frozen=True)
class Rig:
    """The folders of one agent."""

    work: Path
    home: Path
    sessions: Path

    def record(self) -> SessionRecord | None:
        """What the worker remembers of the room's conversation."""
        store = SessionStore(self.sessions)
        store.load(wall_now=1_800_000_000.0, prune=False)
        return store.get(KEY)

    def age(self) -> None:
        """Let gemini's records be of another minute.

        It names them by the minute, and one that is loaded in the minute of its making is lost.
        """
        for chat in self.home.glob(".gemini/tmp/*/chats/session-20*"):
            chat.rename(chat.with_name(chat.name.replace("session-20", "session-19", 1)))

    def environment(
        self, preset: str, port: int, path: str, *, credentials: bool
    ) -> dict[str, str]:
        """A home without anybody's credentials, pointed at the scripted model."""
        common = {
            "HOME": str(self.home),
            "PATH": path,
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "NO_PROXY": "127.0.0.1,localhost",
        }
        if preset == "codex":
            (self.home / ".codex").mkdir(exist_ok=True)
            (self.home / ".codex" / "config.toml").write_text(_CODEX.format(port=port))
            return {**common, "FAKE_KEY": "fake", "OPENAI_API_KEY": "fake"}
        if preset == "gemini":
            return {
                **common,
                "GEMINI_API_KEY": "fake",
                "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{port}",
                "GEMINI_CLI_NO_RELAUNCH": "true",
                "GEMINI_TELEMETRY_ENABLED": "false",
            }
        keys = {"ANTHROPIC_API_KEY": "sk-fake"} if credentials else {}
        return {
            **common,
            **keys,
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
        }

    def context(self, prompt: str, *, number: int = 1, key: SessionKey = KEY) -> TurnContext:
        """An owner's message in the room."""
        task = Task(id=TaskId(f"t{number}"), body=prompt, room_id=key.room, access_tier="owner")
        return TurnContext(task=task, prompt=prompt, tier=Tier.OWNER, key=key, cwd=str(self.work))


@dataclass
class Heard:
    """What one turn emitted."""

    events: list[Event] = field(default_factory=list)
    done: Done | None = None
    on_event: Callable[[Event], None] = lambda _: None

    def emit(self, event: Event) -> None:
        self.events.append(event)
        self.on_event(event)

    def all(self, kind: type[EventT]) -> list[EventT]:
        """The events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def text(self) -> str:
        """The answer: blocks by a blank line, superseded ones left out."""
        gone = {event.block for event in self.all(BlockSuperseded)}
        blocks: dict[int, str] = {}
        for chunk in self.all(MessageChunk):
            if chunk.block not in gone:
                blocks[chunk.block] = blocks.get(chunk.block, "") + chunk.text
        return "\n\n".join(text.strip() for text in blocks.values() if text.strip())

    @property
    def asked(self) -> list[PermissionAsked]:
        return self.all(PermissionAsked)

    @property
    def notices(self) -> list[str]:
        return [notice.text for notice in self.all(Notice)]

    def finished(self) -> list[ToolFinished]:
        """The steps that ended."""
        return self.all(ToolFinished)

    @property
    def steps(self) -> tuple[int, int]:
        """How many steps started and how many ended."""
        return len(self.all(ToolStarted)), len(self.all(ToolFinished))


async def turn(
    adapter: AcpAdapter,
    rig: Rig,
    prompt: str,
    heard: Heard | None = None,
    *,
    key: SessionKey = KEY,
) -> Heard:
    """One whole turn through our adapter."""
    heard = heard or Heard()
    async with adapter.session(key) as session:
        heard.done = await session.turn(rig.context(prompt, key=key), heard.emit)
    return heard
