"""Whole turns of real agents through our adapter, offline: write, command, cancel, restart."""

import os
import signal
from functools import partial
from pathlib import Path

import pytest
import trio

from agentconnect.core.turns.events import (
    Action,
    Event,
    MessageChunk,
    PermissionAsked,
    Reason,
    ToolStarted,
)
from agentconnect.turns.deadline import Cause, Deadline
from tests.agents.conftest import Start
from tests.agents.rig import KEY, OTHER, Heard, Rig, turn

pytestmark = [pytest.mark.agents, pytest.mark.timeout(700)]  # the first one may have to install

ALL = pytest.mark.parametrize("preset", ["codex", "claude", "gemini"])


def _whole(work: Path) -> str:
    return (
        "#narrate I will write a file.\n"
        f"#write {work / 'hello.txt'} hello world\n"
        "#run touch ran.txt && echo ran-it\n"
        "#say all finished"
    )


@ALL
async def test_a_whole_turn_with_commands_allowed(start: Start, rig: Rig, preset: str) -> None:
    """With commands allowed by the owner the file is written and the command runs."""
    async with start(preset, execute="allow") as adapter:
        described = await adapter.preflight()
        heard = await turn(adapter, rig, _whole(rig.work))

    assert described.startswith("acp: ")
    assert heard.done is not None
    assert (Reason.COMPLETED, "") == (heard.done.reason, heard.done.note)
    assert "hello world" == (rig.work / "hello.txt").read_text().strip()
    assert (rig.work / "ran.txt").exists()
    assert "I will write a file.\n\nall finished" in heard.text
    assert 2 == len(heard.asked)
    assert all(event.allowed for event in heard.asked)
    assert (2, 2) == heard.steps
    assert not heard.notices


@pytest.mark.parametrize("preset", ["claude", "gemini"])
async def test_a_refused_command_does_not_end_the_turn(start: Start, rig: Rig, preset: str) -> None:
    """By default a write under the working directory is allowed and a command is refused."""
    async with start(preset) as adapter:
        heard = await turn(adapter, rig, _whole(rig.work))

    assert heard.done is not None
    assert Reason.COMPLETED == heard.done.reason
    assert (rig.work / "hello.txt").exists()
    assert not (rig.work / "ran.txt").exists()
    assert [True, False] == [event.allowed for event in heard.asked]
    assert "AGENT_CONNECT_ACP_EXECUTE" in heard.asked[1].reason
    assert "all finished" in heard.text
    if preset == "claude":  # gemini reports no step that was not run
        assert [Action.EDIT, Action.EXECUTE] == [e.action for e in heard.all(ToolStarted)]
        assert [False, True] == [step.failed for step in heard.finished()]


async def test_codex_stops_after_a_refused_command(start: Start, rig: Rig) -> None:
    """Codex ends its turn when a command is refused; the text so far and the reason are kept."""
    async with start("codex") as adapter:
        heard = await turn(adapter, rig, _whole(rig.work))
        after = await turn(adapter, rig, "#say still here")

    assert heard.done is not None
    assert Reason.CANCELLED == heard.done.reason
    assert "stopped early" in heard.done.note
    assert "I will write a file." in heard.text
    assert [False] == [event.allowed for event in heard.asked]
    assert not (rig.work / "hello.txt").exists()
    assert "still here" in after.text


@pytest.mark.parametrize("preset", ["claude", "gemini"])
@pytest.mark.parametrize("inside", [True, False], ids=["inside", "outside"])
async def test_writes_only_inside(
    start: Start, rig: Rig, tmp_path: Path, preset: str, *, inside: bool
) -> None:
    """A write outside the working directory is refused and named."""
    target = (rig.work if inside else tmp_path) / "x.txt"
    async with start(preset) as adapter:
        heard = await turn(adapter, rig, f"#write {target} words\n#say done")

    assert inside == target.exists()
    assert heard.done is not None
    assert Reason.COMPLETED == heard.done.reason
    if preset == "gemini" and not inside:
        assert [] == heard.asked  # it refuses by itself, without asking
        return
    assert [inside] == [event.allowed for event in heard.asked]
    if not inside:
        assert str(target) in heard.asked[0].reason


@ALL
async def test_cancel_mid_answer(start: Start, rig: Rig, preset: str) -> None:
    """An interrupt ends the turn quickly, keeps what was said, and the next turn works."""
    begun = trio.Event()
    heard = Heard()

    def on_event(event: Event) -> None:
        if isinstance(event, MessageChunk) and "chunk 3" in heard.text:
            begun.set()

    heard.on_event = on_event
    async with start(preset) as adapter, adapter.session(KEY) as session:
        async with trio.open_nursery() as both:

            async def run() -> None:
                heard.done = await session.turn(rig.context("#slow 600 0.1"), heard.emit)

            both.start_soon(run)
            await begun.wait()
            with trio.fail_after(60):
                await session.interrupt()
        assert heard.done is not None
        assert Reason.CANCELLED == heard.done.reason
        assert "chunk 3" in heard.text
        again = Heard()
        again.done = await session.turn(rig.context("#say next one", number=2), again.emit)

    assert "next one" in again.text
    assert "chunk" not in again.text.replace("next one", "")


@ALL
async def test_cancel_mid_tool(start: Start, rig: Rig, preset: str) -> None:
    """A command that runs is no reason to wait; what it would have done is not done."""
    begun = trio.Event()
    heard = Heard(on_event=lambda e: begun.set() if isinstance(e, PermissionAsked) else None)
    async with start(preset, execute="allow") as adapter, adapter.session(KEY) as session:
        prompt = f"#run echo $$ > {rig.work / 'pid'}; sleep 60; touch {rig.work / 'late'}\n#say no"
        async with trio.open_nursery() as both:

            async def run() -> None:
                heard.done = await session.turn(rig.context(prompt), heard.emit)

            both.start_soon(run)
            await begun.wait()
            with trio.fail_after(60):
                while not (rig.work / "pid").exists():
                    await trio.sleep(0.05)
            with trio.fail_after(60):
                await session.interrupt()
                both_done = heard
        assert both_done.done is not None
        assert Reason.CANCELLED == both_done.done.reason
        assert "no" not in heard.text.split()
        again = await turn(adapter, rig, "#say after it")
    assert "after it" in again.text
    assert not (rig.work / "late").exists()


@ALL
async def test_a_turn_over_its_deadline(start: Start, rig: Rig, preset: str) -> None:
    """The deadline cancels it in the agent; the text so far is kept and the process stays."""
    deadline = Deadline(8.0, 15.0)
    heard = Heard()
    async with start(preset) as adapter, adapter.session(KEY) as session:
        await turn(adapter, rig, "#say warm")
        pid = session.pid
        with trio.CancelScope() as wait:
            async with trio.open_nursery() as both:
                both.start_soon(deadline.watch, session, wait)
                context = rig.context("#slow 600 0.1", number=2)
                heard.done = await session.turn(context, heard.emit)
                both.cancel_scope.cancel()
        assert not deadline.killed
        assert pid == session.pid
        again = await turn(adapter, rig, "#say in time")

    assert Cause.TIMEOUT == deadline.cause
    assert heard.done is not None
    assert Reason.CANCELLED == heard.done.reason
    assert "chunk 3" in heard.text
    assert "in time" in again.text
    assert "chunk" not in again.text


@ALL
async def test_two_rooms_at_once(start: Start, rig: Rig, preset: str) -> None:
    """Each conversation has its own process and hears only its own answer."""
    heard = {KEY: Heard(), OTHER: Heard()}
    async with start(preset) as adapter, trio.open_nursery() as rooms:
        for key, words in ((KEY, "first room"), (OTHER, "second room")):
            prompt = f"#slow 20 0.1\n#say {words}"
            rooms.start_soon(partial(turn, adapter, rig, prompt, heard[key], key=key))

    assert [Reason.COMPLETED] * 2 == [each.done.reason for each in heard.values() if each.done]
    assert "chunk 20" in heard[KEY].text
    assert "chunk 20" in heard[OTHER].text


@pytest.mark.parametrize(
    ("preset", "resume"),
    [
        ("codex", True),
        ("codex", False),
        ("claude", True),
        ("claude", False),
        ("gemini", True),  # it has only load
    ],
    ids=["codex-resume", "codex-load", "claude-resume", "claude-load", "gemini-load"],
)
async def test_conversation_survives_a_restart(
    start: Start, rig: Rig, preset: str, *, resume: bool
) -> None:
    """After a restart the conversation goes on, and nothing old is in the new answer."""
    async with start(preset, execute="allow", resume=resume) as adapter:
        first = await turn(adapter, rig, _whole(rig.work))
    before = rig.record()
    rig.age()
    async with start(preset, execute="allow", resume=resume) as adapter:
        second = await turn(adapter, rig, "#say second answer")
    after = rig.record()

    assert "all finished" in first.text
    assert second.done is not None
    assert Reason.COMPLETED == second.done.reason
    assert not second.notices
    assert not second.asked
    assert (0, 0) == second.steps
    assert "all finished" not in second.text
    assert second.text.endswith("second answer")
    assert before is not None
    assert after is not None
    assert (before.session_id, 2) == (after.session_id, after.turns)


@ALL
async def test_killed_agent_costs_one_turn(start: Start, rig: Rig, preset: str) -> None:
    """``kill -9`` of the agent mid-turn keeps the partial answer; the next turn continues."""
    begun = trio.Event()
    heard = Heard(on_event=lambda event: begun.set() if isinstance(event, MessageChunk) else None)
    async with start(preset) as adapter, adapter.session(KEY) as session:
        async with trio.open_nursery() as both:

            async def run() -> None:
                heard.done = await session.turn(rig.context("#slow 600 0.1"), heard.emit)

            both.start_soon(run)
            await begun.wait()
            os.killpg(session.pid, signal.SIGKILL)
        assert heard.done is not None
        assert Reason.FAILED == heard.done.reason
        assert "process" in heard.done.note
        again = Heard()
        again.done = await session.turn(rig.context("#say back again", number=2), again.emit)

    assert Reason.COMPLETED == again.done.reason
    assert "back again" in again.text


async def test_claude_without_a_login(start: Start, rig: Rig) -> None:
    """Without credentials the prompt is where it shows, and the answer says how to log in."""
    async with start("claude", credentials=False) as adapter:
        await adapter.preflight()
        heard = await turn(adapter, rig, "#say hello")

    assert heard.done is not None
    assert Reason.FAILED == heard.done.reason
    assert "not logged in" in heard.done.note
    assert "/login" in heard.done.note
