"""Whole turns of real agents through our adapter, offline: write, command, cancel, restart."""

import os
import signal
from pathlib import Path

import pytest
import trio

from agentconnect.core.turns.events import Action, Event, MessageChunk, Reason, ToolStarted
from tests.agents.conftest import Start
from tests.agents.rig import KEY, Heard, Rig, turn

pytestmark = [pytest.mark.agents, pytest.mark.timeout(700)]  # the first one may have to install

BOTH = pytest.mark.parametrize("preset", ["codex", "claude"])


def _whole(work: Path) -> str:
    return (
        "#narrate I will write a file.\n"
        f"#write {work / 'hello.txt'} hello world\n"
        "#run touch ran.txt && echo ran-it\n"
        "#say all finished"
    )


@BOTH
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


async def test_claude_goes_on_after_a_refused_command(start: Start, rig: Rig) -> None:
    """By default a write under the working directory is allowed and a command is refused."""
    async with start("claude") as adapter:
        heard = await turn(adapter, rig, _whole(rig.work))

    assert heard.done is not None
    assert Reason.COMPLETED == heard.done.reason
    assert (rig.work / "hello.txt").exists()
    assert not (rig.work / "ran.txt").exists()
    assert [True, False] == [event.allowed for event in heard.asked]
    assert "AGENT_CONNECT_ACP_EXECUTE" in heard.asked[1].reason
    assert "all finished" in heard.text
    assert [Action.EDIT, Action.EXECUTE] == [event.action for event in heard.all(ToolStarted)]
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


@pytest.mark.parametrize("inside", [True, False])
async def test_claude_writes_only_inside(
    start: Start, rig: Rig, tmp_path: Path, *, inside: bool
) -> None:
    """A write outside the working directory is refused and named."""
    target = (rig.work if inside else tmp_path) / "x.txt"
    async with start("claude") as adapter:
        heard = await turn(adapter, rig, f"#write {target} words\n#say done")

    assert inside == target.exists()
    assert [inside] == [event.allowed for event in heard.asked]
    assert heard.done is not None
    assert Reason.COMPLETED == heard.done.reason
    if not inside:
        assert str(target) in heard.asked[0].reason


@BOTH
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
            with trio.fail_after(10):
                await session.interrupt()
        assert heard.done is not None
        assert Reason.CANCELLED == heard.done.reason
        assert "chunk 3" in heard.text
        again = Heard()
        again.done = await session.turn(rig.context("#say next one", number=2), again.emit)

    assert "next one" in again.text
    assert "chunk" not in again.text.replace("next one", "")


@BOTH
@pytest.mark.parametrize("resume", [True, False], ids=["resume", "load"])
async def test_conversation_survives_a_restart(
    start: Start, rig: Rig, preset: str, *, resume: bool
) -> None:
    """After a restart the conversation goes on, and nothing old is in the new answer."""
    async with start(preset, execute="allow", resume=resume) as adapter:
        first = await turn(adapter, rig, _whole(rig.work))
    before = rig.record()
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


@BOTH
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
