"""Recorded real agents, played again: what we send is what was sent, and nothing they said is lost.

What a recording shows is read off it here with plain JSON, by other code than the product's.
"""

from pathlib import Path
from typing import Any

import pytest
import trio

from agentconnect.adapters.acp_pool import AgentPool, Limits
from agentconnect.adapters.acp_session import AcpSession
from agentconnect.adapters.acp_shared import SessionSettings, Shared
from agentconnect.adapters.contract import TurnContext
from agentconnect.core.task import SessionId, Task, TaskId, Tier
from agentconnect.core.turns.events import Event, PermissionAsked, Reason, ToolStarted
from agentconnect.core.turns.session import SessionRecord
from agentconnect.store.sessions import SessionStore
from tests.shell.acp.rig import ROOM, Outcome
from tests.support.recorded import FOLDER, Player, Recording

NAMES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))
CWD = "/w/project"
STOPS = {"end_turn": Reason.COMPLETED, "cancelled": Reason.CANCELLED}

Json = dict[str, Any]


def updates(turn: list[Json]) -> list[Json]:
    """The updates of one recorded turn."""
    return [m["params"]["update"] for m in turn if m.get("method") == "session/update"]


def text_of(turn: list[Json]) -> str:
    """All that the agent said as its answer, without white space."""
    said = (
        update["content"].get("text", "")
        for update in updates(turn)
        if update["sessionUpdate"] == "agent_message_chunk"
    )
    return "".join("".join(said).split())


def tools_of(turn: list[Json]) -> set[str]:
    """The steps that the agent reported."""
    kinds = ("tool_call", "tool_call_update")
    return {u["toolCallId"] for u in updates(turn) if u["sessionUpdate"] in kinds}


def asked_of(turn: list[Json]) -> int:
    """How many permission requests there were."""
    asked = [m for m in turn if m.get("method") == "session/request_permission"]
    return len(asked)


async def played(name: str, tmp_path: Path) -> tuple[Player, list[Outcome]]:
    """Every turn of a recording through one conversation of ours."""
    player = Player(Recording(name))
    store = SessionStore(tmp_path / "sessions.json")
    store.load(wall_now=0.0, prune=False)
    if name.endswith("-load"):
        params = next(
            line["msg"]["params"]
            for line in player.recording.lines
            if line["msg"].get("method") == "session/load"
        )
        known = SessionId(params["sessionId"])
        await store.put(SessionRecord(key=ROOM, session_id=known, cwd=CWD, turns=1))
    pool = AgentPool(player, Limits(spare=0), None)
    session = AcpSession(
        ROOM,
        settings=SessionSettings(
            cwd=CWD,
            asking_mode="" if name.startswith("codex") else "default",
            execute_allowed=not name.endswith("-reject"),
        ),
        pool=pool,
        store=store,
        shared=Shared(wall_clock=lambda: 0.0, resume_broken=True),
    )
    outcomes = []
    with trio.fail_after(60):
        async with trio.open_nursery() as agents:
            await agents.start(pool.run)
            for number, prompt in enumerate(player.recording.prompts()):
                outcomes.append(await one(session, player, number, prompt))
            await player.finished.wait()
            agents.cancel_scope.cancel()
    return player, outcomes


async def one(session: AcpSession, player: Player, number: int, prompt: Json) -> Outcome:
    """One turn, interrupted where the recorded client did."""
    events: list[Event] = []
    text = prompt["params"]["prompt"][0]["text"]
    task = Task(id=TaskId(f"t{number}"), body=text, room_id=ROOM.room)
    ctx = TurnContext(task=task, prompt=text, tier=Tier.OWNER, key=ROOM, cwd=CWD)

    async def interrupt() -> None:
        await player.cancel_due.wait()
        player.cancel_due = trio.Event()
        await session.interrupt()

    async with trio.open_nursery() as beside:
        beside.start_soon(interrupt)
        done = await session.turn(ctx, events.append)
        beside.cancel_scope.cancel()
    return Outcome(done, events)


@pytest.mark.parametrize("name", NAMES)
async def test_a_recording_is_lived_through(name: str, tmp_path: Path) -> None:
    """Ours sends what was recorded; text, steps, requests and endings are all told."""
    player, outcomes = await played(name, tmp_path)
    assert [] == player.differences
    for prompt, outcome in zip(player.recording.prompts(), outcomes, strict=True):
        turn = player.recording.turn(prompt["id"])
        first = prompt is player.recording.prompts()[0]
        cancelled = first and name.endswith("cancel")
        assert text_of(turn) == "".join(outcome.answer.split())
        started = [e.tool_id for e in outcome.events if isinstance(e, ToolStarted)]
        assert len(started) == len(set(started))
        assert tools_of(turn) == set(started)
        asked = [e for e in outcome.events if isinstance(e, PermissionAsked)]
        reported = 0 if name.endswith("permcancel") else asked_of(turn)
        assert reported == len(asked)
        check_ending(turn[-1], outcome, cancelled=cancelled)


def check_ending(answer: Json, outcome: Outcome, *, cancelled: bool) -> None:
    """The stop reason, or the useful part of the error."""
    if "result" in answer:
        assert STOPS[answer["result"]["stopReason"]] is outcome.done.reason
        own = outcome.done.reason is Reason.CANCELLED and not cancelled
        assert own == ("stopped early" in outcome.done.note)
    else:
        assert Reason.FAILED is outcome.done.reason
        assert "error" in outcome.done.note
        useful = ("Incomplete response", "bad thing", "nope", "network error", "terminated")
        assert any(word in outcome.done.note for word in useful), outcome.done.note
        assert "{" not in outcome.done.note
    assert [] == outcome.notices


def test_there_are_recordings_of_every_agent_and_case() -> None:
    """The table above is not empty by accident."""
    assert {"claude-0.64.2", "codex-acp-0.16.0", "gemini-0.61.0"} == {
        name.rpartition("-")[0] for name in NAMES
    }
    assert 16 == len(NAMES)
