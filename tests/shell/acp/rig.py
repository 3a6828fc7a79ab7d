"""The ACP adapter with the scripted agent as a real child process."""

import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import trio

from agentconnect.adapters.acp import AcpAdapter, AcpSettings
from agentconnect.adapters.acp_session import AcpSession
from agentconnect.adapters.contract import TurnContext
from agentconnect.core.task import Attachment, SessionKey, Task, TaskId, Tier
from agentconnect.core.turns.events import (
    BlockSuperseded,
    Done,
    Event,
    MessageChunk,
    Notice,
    PermissionAsked,
)
from agentconnect.store.children import ChildrenFile
from agentconnect.store.sessions import SessionStore

FAKE_AGENT = Path(__file__).parents[2] / "support" / "fake_agent.py"
ROOM = SessionKey(room="!room:test", tier=Tier.OWNER)


def room(number: int) -> SessionKey:
    """Another conversation."""
    return SessionKey(room=f"!room{number}:test", tier=Tier.OWNER)


def fake_command(options: dict[str, Any]) -> tuple[str, ...]:
    """The words that start the scripted agent."""
    return (sys.executable, str(FAKE_AGENT), json.dumps(options))


class Outcome(NamedTuple):
    """What one turn came to."""

    done: Done
    events: list[Event]

    @property
    def answer(self) -> str:
        """The blocks as the room would read them."""
        gone = {event.block for event in self.events if isinstance(event, BlockSuperseded)}
        blocks: dict[int, str] = {}
        for event in self.events:
            if isinstance(event, MessageChunk) and event.block not in gone:
                blocks[event.block] = blocks.get(event.block, "") + event.text
        return "\n\n".join(blocks.values())

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Notice)]

    @property
    def asked(self) -> list[PermissionAsked]:
        return [event for event in self.events if isinstance(event, PermissionAsked)]


class Rig:
    """One adapter in a scratch folder."""

    def __init__(self, folder: Path, options: dict[str, Any], settings: dict[str, Any]) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir(exist_ok=True)
        self.state = folder / "state"
        self.state.mkdir(exist_ok=True)
        options = {"state": str(folder / "agent-sessions.json")} | options
        service = settings.pop("service", None)
        self.environment = dict(os.environ) | settings.pop("environment", {})
        self.now: Callable[[], float] = time.time
        self.store = SessionStore(self.state / "sessions.json")
        self.store.load(wall_now=time.time(), prune=True)
        self.children = ChildrenFile(self.state / "children.json")
        self.problems: list[str] = []
        given: dict[str, Any] = {
            "cwd": str(self.work),
            "command": fake_command(options),
            "spare": 0,
        } | settings
        self.adapter = AcpAdapter(
            AcpSettings(**given),
            environment=self.environment,
            store=self.store,
            wall_clock=lambda: self.now(),
            children=self.children,
            inline_dir=self.state / "inline",
            problem=self.problems.append,
        )
        if service is not None:
            self.adapter.deliver_by(service, service)

    def context(
        self, text: str, key: SessionKey = ROOM, attachments: tuple[Attachment, ...] = ()
    ) -> TurnContext:
        """A task of the owner's."""
        task = Task(
            id=TaskId("t1"),
            body=text,
            room_id=key.room,
            room_name="Den",
            sender_name="Ada",
            attachments=attachments,
        )
        return TurnContext(task=task, prompt=text, tier=Tier.OWNER, key=key, cwd=str(self.work))

    async def turn(
        self,
        text: str,
        key: SessionKey = ROOM,
        *,
        attachments: tuple[Attachment, ...] = (),
        during: Callable[[AcpSession, list[Event]], Any] | None = None,
    ) -> Outcome:
        """Run one turn; ``during`` is an async function that runs beside it."""
        events: list[Event] = []
        async with self.adapter.session(key) as session, trio.open_nursery() as beside:
            if during is not None:
                beside.start_soon(during, session, events)
            done = await session.turn(self.context(text, key, attachments), events.append)
            beside.cancel_scope.cancel()
        return Outcome(done, events)


@asynccontextmanager
async def running(
    folder: Path, options: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Rig]:
    """An adapter that runs; its processes are gone afterwards."""
    rig = Rig(folder, options or {}, settings)
    async with trio.open_nursery() as agents:
        await agents.start(rig.adapter.run)
        yield rig
        agents.cancel_scope.cancel()


async def until(check: Callable[[], object]) -> None:
    """Wait for a state."""
    with trio.fail_after(60):
        while not check():
            await trio.sleep(0.01)


def alive(pid: int) -> bool:
    """Is there such a process, and is it more than a zombie?"""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def number_in(text: str, word: str) -> int:
    """The number in ``[word N]``."""
    return int(text.split(f"[{word} ")[1].split("]")[0])
