"""The demonstration agent behind the worker's own ACP adapter: the two agree."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agentconnect.adapters.acp import AcpAdapter, AcpSettings
from agentconnect.adapters.contract import TurnContext
from agentconnect.core.task import Attachment, SessionKey, Task, TaskId, Tier
from agentconnect.core.turns.events import (
    Action,
    Done,
    Event,
    MessageChunk,
    Notice,
    PermissionAsked,
    Reason,
    ToolStarted,
)
from agentconnect.store.sessions import SessionStore
from tests.core.demo.test_pictures import PNG
from tests.support.adapters import running

KEY = SessionKey(room="!room:test", tier=Tier.OWNER)


@asynccontextmanager
async def _adapter(work: Path, state: Path) -> AsyncIterator[AcpAdapter]:
    state.mkdir(exist_ok=True)  # noqa: ASYNC240 - before anything runs
    store = SessionStore(state / "sessions.json")
    store.load(wall_now=1_800_000_000.0, prune=False)
    adapter = AcpAdapter(
        AcpSettings(cwd=str(work), command=(sys.executable, "-m", "agentconnect.demo")),
        environment={**os.environ, "AGENT_CONNECT_DEMO_HOME": str(state / "demo")},
        store=store,
        wall_clock=lambda: 1_800_000_000.0,
    )
    async with running(adapter):
        yield adapter


async def _turn(
    adapter: AcpAdapter, work: Path, text: str, *files: Attachment
) -> tuple[str, list[Event], Done]:
    task = Task(
        id=TaskId("t1"), body=text, room_id=KEY.room, access_tier="owner", sender_name="Ada",
        room_name="Lab [1]", attachments=files,
    )  # fmt: skip
    ctx = TurnContext(task=task, prompt=text, tier=Tier.OWNER, key=KEY, cwd=str(work))
    events: list[Event] = []
    async with adapter.session(KEY) as session:
        done = await session.turn(ctx, events.append)
    said = "".join(event.text for event in events if isinstance(event, MessageChunk))
    return said, events, done


async def test_turns_through_the_adapter(work: Path, state: Path, tmp_path: Path) -> None:
    """Framing, steps, permission, a picture with its name, and memory over a restart."""
    picture = tmp_path / "0-cat.png"
    picture.write_bytes(PNG)
    cat = Attachment(path=str(picture), mime="image/png", name="cat.png", size=len(PNG), ok=True)
    async with _adapter(work, state) as adapter:
        assert "acp: agentconnect demonstration agent" in await adapter.preflight()
        text, events, done = await _turn(adapter, work, "count the words in notes.txt")
        assert Reason.COMPLETED == done.reason
        assert text.startswith("`notes.txt` has 2 lines, 5 words")
        assert "demonstration agent" in text
        assert [Action.READ] == [e.action for e in events if isinstance(e, ToolStarted)]

        text, _, _ = await _turn(adapter, work, "what is this?", cat)
        assert "I got a PNG picture `cat.png`, 640 x 480 pixels" in text

        text, events, _ = await _turn(adapter, work, "write a report about penguins")
        assert [True] == [e.allowed for e in events if isinstance(e, PermissionAsked)]
        assert "[file: penguins.md]" in text.splitlines()
        assert (work / "penguins.md").exists()

    async with _adapter(work, state) as adapter:
        text, events, done = await _turn(adapter, work, "what did I ask before?")
        assert Reason.COMPLETED == done.reason
        assert not [event for event in events if isinstance(event, Notice)]
        assert "Before this you said `write a report about penguins`." in text
        assert "working directory" not in text
