"""Conversations that continue, are reopened, or end: each ending is announced."""

import json
from pathlib import Path

import pytest
import trio

from agentconnect.adapters.acp_session import AcpSession
from agentconnect.core.task import SessionKey, Tier
from agentconnect.core.turns.events import Event, Reason
from tests.shell.acp.rig import ROOM, alive, number_in, running, until


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"late_replay": 0.1},
        {"resume": True},
        {"resume": "broken"},
        {"resume": True, "load": False},
    ],
    ids=["load", "late replay", "resume", "resume that lies", "resume only"],
)
async def test_a_restart_continues_and_says_nothing_old(
    options: dict[str, object], tmp_path: Path
) -> None:
    """Whatever the agent replays, early or late, none of it is an answer."""
    async with running(tmp_path, options) as rig:
        assert "one" == (await rig.turn("#say one")).answer
    async with running(tmp_path, options) as rig:
        outcome = await rig.turn("#say two\n#history")
    assert "two[turns 2]" == outcome.answer
    assert [] == outcome.notices
    assert 2 == len(outcome.events)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"load_error": [-32603, "Internal error"]}, "gone"),
        ({"load_empty": True}, "no longer has"),
        ({"load": False}, "cannot reopen"),
    ],
    ids=["refused", "nothing came back", "not offered"],
)
async def test_a_conversation_that_cannot_be_reopened_is_announced(
    options: dict[str, object], words: str, tmp_path: Path
) -> None:
    """And a fresh one answers in the same turn."""
    async with running(tmp_path) as rig:
        await rig.turn("#say one")
    async with running(tmp_path, options) as rig:
        outcome = await rig.turn("#say two\n#history")
        (notice,) = outcome.notices
        assert words in notice
        assert "fresh conversation" in notice
        assert "two[turns 1]" == outcome.answer
        assert [] == (await rig.turn("#say three")).notices


async def test_an_agent_that_dies_while_loading_keeps_the_record(tmp_path: Path) -> None:
    """That is a failed turn, not a lost conversation."""
    async with running(tmp_path) as rig:
        await rig.turn("#say one")
    async with running(tmp_path, {"crash_on": "session/load"}) as rig:
        outcome = await rig.turn("#say two")
        assert Reason.FAILED is outcome.done.reason
        assert "exit code 9" in outcome.done.note
    async with running(tmp_path) as rig:
        assert 2 == number_in((await rig.turn("#history")).answer, "turns")


async def test_the_record_is_written_before_the_prompt(tmp_path: Path) -> None:
    """A turn that crashes has been counted."""
    async with running(tmp_path) as rig:
        await rig.turn("#crash 1")
        stored = json.loads((rig.state / "sessions.json").read_text(encoding="utf-8"))
    (entry,) = stored["sessions"]
    assert (1, 1, "owner") == (stored["version"], entry["turns"], entry["access_tier"])
    assert str(rig.work) == entry["cwd"]


async def test_budget_and_silence_end_a_conversation(tmp_path: Path) -> None:
    """With the number, with the time; the process goes too."""
    async with running(tmp_path, session_turns=2, session_idle_s=3600.0) as rig:
        pid = number_in((await rig.turn("#pid")).answer, "pid")
        await rig.turn("#say two")
        third = await rig.turn("#history\n#pid")
        assert 1 == len(third.notices)
        assert "2 turns" in third.notices[0]
        assert 1 == number_in(third.answer, "turns")
        assert pid != number_in(third.answer, "pid")
        await until(lambda: not alive(pid))
        start = rig.now()
        rig.now = lambda: start + 7200
        fourth = await rig.turn("#history")
        assert "2.0h" in fourth.notices[0]


async def test_another_working_directory_ends_a_conversation(tmp_path: Path) -> None:
    """The agent keeps conversations by folder."""
    async with running(tmp_path) as rig:
        await rig.turn("#say one")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with running(tmp_path, cwd=str(elsewhere)) as rig:
        outcome = await rig.turn("#history")
        assert "working directory has changed" in outcome.notices[0]
        assert 1 == number_in(outcome.answer, "turns")


async def test_without_memory_every_task_is_alone(tmp_path: Path) -> None:
    """Nothing is read or written, and the process ends with the turn."""
    async with running(tmp_path, session_memory=False) as rig:
        pid = number_in((await rig.turn("#pid")).answer, "pid")
        await until(lambda: not alive(pid))
        second = await rig.turn("#history")
        assert 1 == number_in(second.answer, "turns")
        assert [] == second.notices
        assert not (rig.state / "sessions.json").exists()


async def test_a_task_without_a_room_leaves_no_record(tmp_path: Path) -> None:
    """Its key never comes again."""
    key = SessionKey(room="task:t1", tier=Tier.OWNER)
    async with running(tmp_path) as rig:
        pid = number_in((await rig.turn("#pid", key)).answer, "pid")
        await until(lambda: not alive(pid))
        stored = json.loads((rig.state / "sessions.json").read_text(encoding="utf-8"))
        assert [] == stored["sessions"]


async def test_turns_of_one_conversation_never_overlap(tmp_path: Path) -> None:
    """Two at once would be answered by one of them only."""
    order: list[str] = []

    async def second(session: AcpSession, events: list[Event]) -> None:
        await until(lambda: events)
        done = await session.turn(rig.context("#say b"), lambda event: order.append("b"))
        order.append(done.reason.value)

    events: list[Event] = []
    async with (
        running(tmp_path) as rig,
        rig.adapter.session(ROOM) as session,
        trio.open_nursery() as beside,
    ):
        beside.start_soon(second, session, events)
        await session.turn(rig.context("#say a\n#sleep 0.2"), events.append)
        order.append("a ended")
    assert ["a ended", "b", "completed"] == order
