"""Conversations that continue, are reopened, or end: each ending is announced."""

import json
from pathlib import Path
from typing import Any

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


async def test_resuming_is_tried_first_and_not_again_where_it_lies(tmp_path: Path) -> None:
    """It replays nothing; an agent that has it in words only is asked once in a run."""
    log = tmp_path / "log"
    asked = {}
    for how in (True, "broken"):
        folder = tmp_path / str(how)
        folder.mkdir()
        options = {"resume": how, "log": str(log)}
        for _ in range(2):
            log.unlink(missing_ok=True)
            async with running(folder, options, keepalive_s=0.0) as rig:
                await rig.turn("#say one")
                await rig.turn("#say two")
        methods = [json.loads(line)["method"] for line in log.read_text().splitlines()]
        asked[how] = [m for m in methods if m in ("session/resume", "session/load")]
    assert {
        True: ["session/resume", "session/resume"],
        "broken": ["session/resume", "session/load", "session/load"],
    } == asked


async def test_silence_counts_from_the_end_of_a_turn(tmp_path: Path) -> None:
    """A turn that ran for long has not used up the time of the next message."""
    async with running(tmp_path, session_idle_s=3600.0) as rig:
        start = rig.now()

        async def an_hour_passes(session: AcpSession, events: list[Event]) -> None:
            await until(lambda: events)
            rig.now = lambda: start + 4000
            await session.interrupt()

        await rig.turn("#hang", during=an_hour_passes)
        rig.now = lambda: start + 5000
        assert [] == (await rig.turn("#say on")).notices


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


async def test_a_missing_login_while_loading_keeps_the_record(tmp_path: Path) -> None:
    """Nothing is lost by it, so nothing is announced as lost."""
    async with running(tmp_path) as rig:
        await rig.turn("#say one")
    async with running(tmp_path, {"load_error": [-32000, "Authentication required"]}) as rig:
        outcome = await rig.turn("#say two")
        assert Reason.FAILED is outcome.done.reason
        assert "not logged in" in outcome.done.note
        assert [] == outcome.notices
    async with running(tmp_path) as rig:
        assert 2 == number_in((await rig.turn("#history")).answer, "turns")


@pytest.mark.parametrize(
    ("settings", "script", "closed"),
    [
        ({"session_turns": 1}, "", 1),
        ({"session_memory": False}, "", 2),
        ({}, "", 0),
        ({}, "\n#error -32000 log in", 0),
    ],
    ids=["retired", "without memory", "goes on", "goes on in another process"],
)
async def test_a_conversation_that_is_over_is_closed(
    settings: dict[str, Any], script: str, closed: int, tmp_path: Path
) -> None:
    """Where the agent offers ``session/close``; never one that may be continued."""
    log = tmp_path / "log"
    async with running(tmp_path, {"close": True, "log": str(log)}, **settings) as rig:
        pids = [number_in((await rig.turn(f"#pid{script}")).answer, "pid") for _ in range(2)]
        over = pids if script else pids[:closed]
        await until(lambda: not any(map(alive, over)))
    asked = [json.loads(line) for line in log.read_text().splitlines()]
    prompted, closings = (
        [each["params"]["sessionId"] for each in asked if each["method"] == method]
        for method in ("session/prompt", "session/close")
    )
    assert prompted[:closed] == closings


async def test_one_that_does_not_offer_it_is_not_asked_to_close(tmp_path: Path) -> None:
    """It ends all the same."""
    log = tmp_path / "log"
    async with running(tmp_path, {"log": str(log)}, session_memory=False) as rig:
        pid = number_in((await rig.turn("#pid")).answer, "pid")
        await until(lambda: not alive(pid))
    assert "session/close" not in log.read_text()


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
