"""Every one-shot adapter under one roof: how it is made, what plays its agent, what it is asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentconnect.adapters.cline import Cline
from agentconnect.adapters.codex import Codex
from agentconnect.adapters.contract import Adapter, TurnContext
from agentconnect.adapters.kilo import Kilo
from agentconnect.adapters.omnigent import Omnigent
from agentconnect.adapters.oneshot import OneShotAdapter, OneShotSettings, Program
from agentconnect.core.task import Attachment, SessionKey, Task, TaskId, Tier
from agentconnect.core.turns.events import Done, Event, Notice
from tests.support.adapters import running
from tests.support.fake_cli import FakeCli, install, path_with

ROOM = "!room:test"
SECRETS = {
    "AGENT_CONNECT_TOKEN": "planted-token",
    "REMOTE_TASK_TOKEN": "planted-old",
    "AG2_REMOTE_TOKEN": "planted-older",
    "AGENT_CONNECT_ACP_TOKEN": "planted-acp",
    "AGENT_CONNECT_DAEMON_TOKEN": "planted-daemon",
    "NOTIFY_SOCKET": "/planted/socket",
    "WATCHDOG_USEC": "1",
    "CHANNEL_SECRET": "planted-channel",
}
PROGRAMS: dict[str, Callable[[], Program]] = {
    "cline": Cline,
    "codex": Codex,
    "kilo": Kilo,
    "omnigent": Omnigent,
}


def context(
    prompt: str,
    *,
    cwd: str,
    tier: Tier = Tier.OWNER,
    attachments: tuple[Attachment, ...] = (),
) -> TurnContext:
    """One message of a person."""
    task = Task(id=TaskId("t1"), body=prompt, room_id=ROOM, attachments=attachments)
    key = SessionKey(room=ROOM, tier=tier)
    return TurnContext(task=task, prompt=prompt, tier=tier, key=key, cwd=cwd)


@dataclass
class Heard:
    """What one turn emitted and how it ended."""

    events: list[Event] = field(default_factory=list)
    done: Done | None = None

    @property
    def ending(self) -> Done:
        assert self.done is not None
        return self.done

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Notice)]


async def turn(adapter: Adapter, ctx: TurnContext) -> Heard:
    """One whole turn."""
    heard = Heard()
    async with adapter.session(ctx.key) as session:
        heard.done = await session.turn(ctx, heard.events.append)
    return heard


class Bench:
    """The folders of one test, and the executables on its PATH."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work dir"
        self.work.mkdir()
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.problems: list[str] = []
        """What the owner's status file would say."""

    def fake(self, name: str, *plans: Mapping[str, Any]) -> FakeCli:
        """Put an executable on PATH."""
        return install(self.bin, name, plans)

    def adapter(self, program: Program, **environment: str) -> OneShotAdapter:
        """The adapter of a program, in an environment with every secret of ours."""
        return OneShotAdapter(
            program,
            OneShotSettings(cwd=str(self.work), umask=0o027, secret_env=("CHANNEL_SECRET",)),
            environment={"PATH": path_with(self.bin), **SECRETS, **environment},
            problem=self.problems.append,
        )

    async def ask(
        self, program: Program, message: str = "what is here?", tier: Tier = Tier.OWNER
    ) -> Heard:
        """One message to a program."""
        async with running(self.adapter(program)) as adapter:
            return await turn(adapter, context(message, cwd=str(self.work), tier=tier))


def spoken(name: str, answer: str) -> str:
    """What the program called ``name`` writes to say ``answer``."""
    if name == "cline":
        return json.dumps({"type": "run_result", "text": answer}) + "\n"
    return answer + "\n"
