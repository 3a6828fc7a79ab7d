"""What a room saw go wrong with the reference worker, each as a test (worker.md §22, D12, D18).

``tests/contracts/test_worker_symptoms.py`` says which symptom is tried where.
"""

import gc
import logging
import tracemalloc

import pytest
import trio
from trio.testing import MockClock as Clock

from agentconnect.adapters.contract import Emit, TurnContext
from agentconnect.core.outcomes import OpResult, Progress
from agentconnect.core.task import TaskId
from agentconnect.core.turns.events import (
    Action,
    Done,
    FileOffered,
    MessageChunk,
    PermissionAsked,
    Reason,
    ToolFinished,
    ToolRetitled,
    ToolStarted,
)
from agentconnect.turns.reporter import Reporter
from agentconnect.turns.session import Session
from agentconnect.turns.turn import Ticket, Turn
from tests.shell.turns.fakes import (
    PLACEHOLDER,
    FakeAdapter,
    FakeAgent,
    World,
    open_desk,
    run_tasks,
    says,
    task,
)


async def test_progress_shows_the_wrong_step_for_the_whole_of_a_long_tool(
    autojump_clock: Clock, world: World
) -> None:
    """A long step that began within the throttle is on show while it runs, not the one before."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        await trio.sleep(1)
        emit(ToolStarted(tool_id="1", title="Read a"))
        await trio.sleep(0.5)
        emit(ToolStarted(tool_id="2", title="Run the tests"))
        await trio.sleep(300)
        assert "Run the tests" in world.texts["$e1"]
        return Done(reason=Reason.COMPLETED, text="ok")

    await run_tasks(world, script, task())


async def test_a_failed_progress_edit_abandons_the_placeholder_for_ever(
    autojump_clock: Clock, world: World
) -> None:
    """The next step and the answer go into the same message all the same."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        for number in range(3):
            await trio.sleep(5)
            emit(ToolStarted(tool_id=str(number), title=f"Step {number}"))
        await trio.sleep(5)
        return Done(reason=Reason.COMPLETED, text="ok")

    world.edit_outcomes = [OpResult(ok=False, status=503)]
    await run_tasks(world, script, task())
    assert {"$e1": "ok\n\n— did: Step 0 · Step 1 · Step 2"} == world.texts
    assert any("Step 1" in text for text in world.did("edit"))


async def test_summaries_full_of_other_with_failures_unmarked(
    autojump_clock: Clock, world: World
) -> None:
    """Later updates of a step are joined by its id: its title comes late, its failure shows."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        emit(ToolStarted(tool_id="1", title=""))
        emit(ToolRetitled(tool_id="1", title="Read notes", action=Action.READ))
        emit(ToolFinished(tool_id="1", title=""))
        emit(ToolStarted(tool_id="2", title="", action=Action.EDIT))
        emit(ToolFinished(tool_id="2", title="", failed=True))
        return Done(reason=Reason.COMPLETED, text="ok")

    await run_tasks(world, script, task())
    assert "ok\n\n— did: Read notes · edit (failed)" == world.texts["$e1"]


@pytest.mark.parametrize("answer", ["[channel: !b:x]\nfor b only", "[dm-only] for you only"])
async def test_directed_answers_are_published_into_the_asking_room(
    autojump_clock: Clock, world: World, answer: str
) -> None:
    """Neither by edit nor in a pointer: the room reads that it went elsewhere."""
    await run_tasks(world, says(answer), task())
    assert not any("only" in op.body for op in world.ops if op.what in ("edit", "message"))
    assert answer == world.results["t1"]


async def test_an_agents_own_no_send_swallows_a_reply(autojump_clock: Clock, world: World) -> None:
    """An answer about the marker is an answer."""
    await run_tasks(world, says("[no-send] is a marker that keeps a reply back."), task())
    assert "`[no-send]` is a marker that keeps a reply back." == world.texts["$e1"]


async def test_files_an_agent_offers_vanish_silently(autojump_clock: Clock, world: World) -> None:
    """An offered file goes with the result, even where the answer has no words."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        emit(FileOffered(path="/w/plot.png"))
        return Done(reason=Reason.COMPLETED)

    await run_tasks(world, script, task())
    assert ("/w/plot.png",) == world.sent["t1"]


async def test_a_restart_leaves_a_second_placeholder(autojump_clock: Clock, world: World) -> None:
    """The run that takes a task up goes on in the message that is there."""
    world.texts["$old"] = PLACEHOLDER
    world.progress_of[TaskId("t1")] = Progress(placeholder="$old", prompted=True)
    await run_tasks(world, says("hi", after_s=1), task())
    assert {"$old": "hi"} == world.texts


async def test_a_placeholder_stays_at_on_it_for_ever(autojump_clock: Clock, world: World) -> None:
    """A room that was closed for an hour gets its pointer when it opens."""
    world.edit_outcomes = [OpResult(ok=False, status=503)] * 12
    adapter = FakeAdapter(says("hi", after_s=1))
    async with open_desk(world, adapter) as desk:
        desk.submit(task())
        await desk.wait_idle()
        assert PLACEHOLDER == world.texts["$e1"]
        assert "hi" == world.results["t1"]
        await trio.sleep(7200)
        assert "Done" in world.texts["$e1"]


async def test_log_lines_say_nothing_of_a_task(
    autojump_clock: Clock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """One line per task and turn, with ids, room, tier, adapter, seconds, reason; no content."""
    caplog.set_level(logging.INFO, "agentconnect")
    await run_tasks(world, says("the answer", after_s=3), task(body="the question"))
    _, line = [record.getMessage() for record in caplog.records]
    words = ("task=t1", "room=!r:x", "tier=owner", "adapter=acp", "seconds=3", "reason=completed")
    assert [] == [word for word in words if word not in line]
    assert "answer" not in caplog.text
    assert "question" not in caplog.text


@pytest.mark.parametrize("tag", ["[file: secret.txt]", "[channel: !evil:x]", "[dm-only]"])
async def test_a_tool_titled_like_a_file_marker_uploads_the_file(
    autojump_clock: Clock, world: World, tag: str
) -> None:
    """Titles, reasons and notes are made prose wherever they stand in the answer."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        emit(ToolStarted(tool_id="1", title=f"cat {tag}"))
        emit(PermissionAsked(title=f"rm {tag}", allowed=False, reason=f"no {tag}"))
        return Done(reason=Reason.FAILED, text="x" * 5000, note=f"broke at {tag}")

    await run_tasks(world, script, task())
    assert tag not in world.results["t1"]
    assert 4 == world.results["t1"].count(tag.replace("[", "("))


async def test_an_answer_above_the_platforms_limit_vanishes(
    autojump_clock: Clock, world: World
) -> None:
    """4,000 characters are edited in; one more, or wide ones, leave a pointer and go out whole."""
    for number, text in enumerate(("x" * 4000, "x" * 4001, "😀" * 2001), start=1):
        await run_tasks(world, says(text), task(number))
        fits = number == 1
        assert (world.texts[f"$e{number}"] == text) is fits
        assert (text if not fits else f"[REPLIED]\n\n{text}") == world.results[f"t{number}"]


async def test_a_stop_waits_in_the_queue_behind_the_run_it_should_stop(
    autojump_clock: Clock, world: World
) -> None:
    """The cancel goes out at once, through the turn's own deadline; what there is, stays."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        emit(MessageChunk(text="half"))
        await agent.interrupted.wait()
        return Done(reason=Reason.CANCELLED)

    adapter = FakeAdapter(script)
    async with open_desk(world, adapter) as desk:
        for number in (1, 2, 3):
            desk.submit(task(number))
        await trio.sleep(30)
        start = trio.current_time()
        await desk.stop(10)
    assert adapter.interrupts[0] - start < 1
    assert world.texts["$e1"].startswith("half\n\n")
    assert ["t1"] == list(world.results)  # those that waited are left to the next start


async def test_three_hundred_turns_over_fifty_rooms_leave_something_behind(
    autojump_clock: Clock, world: World
) -> None:
    """No session, ticket, turn, reporter or task is left, and the memory is what it was."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        emit(ToolStarted(tool_id="1", title="work"))
        await trio.sleep(1 + int(ctx.task.id[1:]) % 7)
        if ctx.task.id.endswith("3"):
            raise RuntimeError("broke")
        return Done(reason=Reason.COMPLETED, text="done " * 200)

    logging.getLogger("agentconnect.turns").disabled = True
    adapter = FakeAdapter(script)
    try:
        async with trio.open_nursery() as work:
            async with open_desk(world, adapter) as desk:
                sizes = []
                for wave in range(3):
                    for number in range(100):
                        one = wave * 100 + number
                        desk.submit(task(one, room=f"!r{one % 50}:x"))
                    await desk.wait_idle()
                    await trio.sleep(1000)  # past the deadlines that Trio keeps listed
                    gc.collect()
                    sizes.append(left_behind())
                assert (0, 0.0) == desk.load()
                assert "sessions=0 tasks=0" in repr(desk)
            work.cancel_scope.cancel()
    finally:
        logging.getLogger("agentconnect.turns").disabled = False
    assert 300 == len(world.results) == adapter.left
    assert [sizes[0]] * 3 == sizes
    assert {} == {key: count for key, count in adapter.open_turns.items() if count}


def left_behind() -> dict[str, int]:
    """How many objects of one task's making are alive."""
    kinds = (Session, Ticket, Turn, Reporter, trio.Nursery, trio.CancelScope)
    return {
        kind.__name__: sum(isinstance(item, kind) for item in gc.get_objects()) for kind in kinds
    }


async def test_the_thousandth_turn_costs_what_the_first_did(
    autojump_clock: Clock, world: World
) -> None:
    """What the desk itself holds does not grow with the tasks it has seen."""
    adapter = FakeAdapter(says("hi"))
    async with open_desk(world, adapter) as desk:

        async def burst(first: int) -> None:
            for number in range(first, first + 100):
                desk.submit(task(number, room=f"!r{number}:x"))
            await desk.wait_idle()
            await trio.sleep(1000)
            forget(world, adapter)

        await burst(0)
        tracemalloc.start()
        try:
            await burst(100)
            gc.collect()
            before = tracemalloc.take_snapshot()
            for start in range(200, 1000, 100):
                await burst(start)
            gc.collect()
            grown = tracemalloc.take_snapshot().compare_to(before, "filename")
        finally:
            tracemalloc.stop()
    ours = sum(stat.size_diff for stat in grown if "/agentconnect/" in stat.traceback[0].filename)
    assert ours < 40_000  # 50 bytes a turn: one number kept in a set needs more


def forget(world: World, adapter: FakeAdapter) -> None:
    """Drop what the fakes noted."""
    for kept in (world.ops, world.texts, world.keys, world.results, world.inspects, world.sent):
        kept.clear()
    for noted in (world.mentioned, world.progress_of, adapter.open_turns):
        noted.clear()
    for listed in (adapter.entered, adapter.prompts, adapter.contexts):
        listed.clear()
