"""The desk: queue, deadlines, stop, take-up after a restart, guests, failures."""

import logging
from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock as Clock

from agentconnect.adapters.contract import Emit, TurnContext
from agentconnect.core.outcomes import OpResult, Progress
from agentconnect.core.task import Attachment, SessionKey, TaskId
from agentconnect.core.turns.events import Done, MessageChunk, Reason, ToolStarted
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

T1 = TaskId("t1")


async def talks_until_stopped(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
    """Says half a sentence and ends as cancelled when it is asked to stop."""
    emit(MessageChunk(text="half a"))
    await agent.interrupted.wait()
    return Done(reason=Reason.CANCELLED)


async def silent_until_stopped(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
    """Says nothing and ends as cancelled when it is asked to stop."""
    await agent.interrupted.wait()
    return Done(reason=Reason.CANCELLED)


async def deaf(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
    """Says half a sentence and never ends by itself."""
    emit(MessageChunk(text="half a"))
    await trio.sleep_forever()
    raise AssertionError


# --- what is run


async def test_files_without_words_make_a_prompt(autojump_clock: Clock, world: World) -> None:
    """A blank message with files is run on a sentence that names them."""
    files = (Attachment(name="a\n.png", ok=True), Attachment(path="/m/b.txt", ok=True))
    adapter = await run_tasks(world, says("ok"), task(body=" ", attachments=files))
    assert ["(Shared files without a message: a .png, b.txt)"] == adapter.prompts


async def test_empty_task_is_rejected(autojump_clock: Clock, world: World) -> None:
    """A blank message without files is no turn, and nothing is said in the room."""
    adapter = FakeAdapter(says("no"))
    async with open_desk(world, adapter) as desk:
        desk.submit(task(body=" \n"))
        while not world.rejected:
            await trio.sleep(1)
    assert world.rejected == {"t1": "EMPTY_TASK"}
    assert ["reject: EMPTY_TASK"] == world.did()
    assert adapter.entered == []


async def test_same_task_twice_is_run_once(autojump_clock: Clock, world: World) -> None:
    """A task in hand is not taken a second time."""
    adapter = await run_tasks(world, says("hi", after_s=1), task(), task())
    assert len(adapter.prompts) == 1


async def test_roomless_tasks_share_no_session(autojump_clock: Clock, world: World) -> None:
    """Each task without a room has a session of its own."""
    adapter = await run_tasks(world, says("hi"), task(1, room=""), task(2, room=""))
    assert {"task:t1", "task:t2"} == {key.room for key in adapter.entered}


# --- queue


async def test_second_message_waits_aloud_and_in_order(autojump_clock: Clock, world: World) -> None:
    """Queue messages come before their placeholders; answers come in the order of arrival."""
    tasks = [task(number, body=f"m{number}") for number in (1, 2, 3)]
    adapter = await run_tasks(world, says("hi", after_s=5), *tasks)
    assert ["m1", "m2", "m3"] == adapter.prompts
    posts = world.did("message")
    assert posts[0] == f"message: {PLACEHOLDER}"
    assert "comes next" in posts[1]
    assert "2 earlier messages" in posts[2]
    assert posts[3:] == [f"message: {PLACEHOLDER}"] * 2
    assert ["t1", "t2", "t3"] == list(world.results)


async def test_rooms_run_side_by_side(autojump_clock: Clock, world: World) -> None:
    """A busy room holds up nobody else, and nobody there is told to wait."""
    tasks = [task(number, room=f"!r{number}:x") for number in range(20)]
    start = trio.current_time()
    await run_tasks(world, says("hi", after_s=5), *tasks)
    assert trio.current_time() - start < 6
    assert len(world.results) == 20
    assert [f"message: {PLACEHOLDER}"] * 20 == world.did("message")


async def test_failed_queue_message_is_dropped(autojump_clock: Clock, world: World) -> None:
    """A queue message that cannot be posted neither holds the turn nor joins the answer."""
    world.message_outcomes = [0, OpResult(ok=False, status=500)]
    await run_tasks(world, says("hi", after_s=5), task(1), task(2))
    assert len(world.did("message failed")) == 1
    assert world.results["t2"] == "[REPLIED]\n\nhi"


async def test_slow_queue_message_still_precedes_the_placeholder(
    autojump_clock: Clock, world: World
) -> None:
    """A queue message under way when its turn comes is waited for."""
    world.message_outcomes = [0, 4]
    await run_tasks(world, says("hi", after_s=2), task(1), task(2))
    posts = world.did("message")
    assert "comes next" in posts[1]
    assert posts[2] == f"message: {PLACEHOLDER}"


async def test_session_ends_with_its_queue(autojump_clock: Clock, world: World) -> None:
    """A silent room costs no task and no session."""
    adapter = FakeAdapter(says("hi"))
    async with open_desk(world, adapter) as desk:
        desk.submit(task())
        assert (desk.load(), desk.doing()) == ((1, 0.0), "running")
        await desk.wait_idle()
        assert (desk.load(), desk.doing()) == ((0, 0.0), "idle")
        assert "sessions=0" in repr(desk)
        assert adapter.left == 1


# --- guests


async def test_guest_is_refused_without_the_adapter(autojump_clock: Clock, world: World) -> None:
    """A guest reads a refusal in the placeholder; no session is touched."""
    guest = task(access_tier="guest", user_id="@bob:example.org")
    adapter = await run_tasks(world, says("no"), guest)
    text = world.texts["$e1"]
    assert adapter.entered == []
    assert "`trust @bob:example.org`" in text
    assert "`@sutando-concierge:example.org`" in text
    assert "refused to go on" not in text
    assert world.results["t1"].startswith("[REPLIED]")


async def test_guest_runs_where_the_adapter_serves_guests(
    autojump_clock: Clock, world: World
) -> None:
    """An adapter with a confinement of its own serves guests, on a session of their own."""
    adapter = FakeAdapter(says("hi"))
    adapter.serves_guests = True
    async with open_desk(world, adapter) as desk:
        desk.submit(task(access_tier="guest"))
    assert [SessionKey(room="!r:x", tier="guest")] == adapter.entered  # type: ignore[arg-type]


# --- deadlines


async def test_timeout_keeps_the_partial_answer(autojump_clock: Clock, world: World) -> None:
    """At the deadline the agent is asked to stop; what it said stays and is called partial."""
    adapter = await run_tasks(world, talks_until_stopped, task(), turn_timeout_s=60)
    text = world.texts["$e1"]
    assert text.startswith("half a\n\n")
    assert "60 s" in text
    assert "partial" in text
    assert adapter.kills == []


async def test_deaf_agent_is_ended_after_its_grace(autojump_clock: Clock, world: World) -> None:
    """Fifteen seconds after being asked its process is ended; the session goes on."""
    adapter = await run_tasks(world, deaf, task(1), turn_timeout_s=60)
    assert adapter.kills[0] - adapter.interrupts[0] == pytest.approx(15, abs=0.5)
    assert "within 15 s" in world.texts["$e1"]


async def test_timeout_with_nothing_leaves_it_to_the_broker(
    autojump_clock: Clock, world: World
) -> None:
    """A turn that timed out without a word ends as [no-send]."""
    await run_tasks(world, silent_until_stopped, task(), turn_timeout_s=60)
    assert world.results["t1"].startswith("[no-send] ")
    assert "reason: timeout" in world.results["t1"]
    assert world.texts == {"$e1": PLACEHOLDER}


async def test_finishing_after_the_deadline_is_an_answer(
    autojump_clock: Clock, world: World
) -> None:
    """An agent that ends in order when asked to stop has answered."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        await agent.interrupted.wait()
        return Done(reason=Reason.COMPLETED, text="done anyway")

    await run_tasks(world, script, task(), turn_timeout_s=60)
    assert world.texts["$e1"] == "done anyway"


async def test_no_deadline_means_none(autojump_clock: Clock, world: World) -> None:
    """A timeout of 0 lets a turn run for days."""
    await run_tasks(world, says("hi", after_s=200_000), task(), turn_timeout_s=0)
    assert world.texts["$e1"] == "hi"


async def test_queue_time_does_not_count(autojump_clock: Clock, world: World) -> None:
    """The deadline starts with the turn."""
    await run_tasks(world, says("hi", after_s=50), task(1), task(2), turn_timeout_s=60)
    assert ["[REPLIED]\n\nhi"] * 2 == list(world.results.values())


# --- failures


async def test_broken_turn_becomes_its_answer(
    autojump_clock: Clock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception reads as a sentence, without a class name, and hurts nobody else."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        if ctx.task.id == "t1":
            raise ExceptionGroup("many", [ValueError("the disk is [file: x] full")])
        await trio.sleep(5)
        return Done(reason=Reason.COMPLETED, text="hi")

    await run_tasks(world, script, task(1), task(2), task(3, room="!other:x"))
    said = world.results["t1"]
    assert "error while it ran this message: the disk is (file: x] full" in said
    assert "ValueError" not in said
    assert said.removeprefix("[REPLIED]\n\n") in world.texts.values()
    assert world.results["t2"] == world.results["t3"] == "[REPLIED]\n\nhi"


async def test_adapter_that_returns_no_ending_fails_one_turn(
    autojump_clock: Clock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """What was said stays, and the note names the adapter."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        emit(MessageChunk(text="so far"))
        return None  # type: ignore[return-value]

    await run_tasks(world, script, task())
    assert world.texts["$e1"].startswith("so far\n\n(The adapter acp ended this turn without")


async def test_adapter_that_cannot_open_fails_one_turn(autojump_clock: Clock, world: World) -> None:
    """A session that does not open is an answer too."""

    class Broken(FakeAdapter):
        def session(self, key: SessionKey) -> object:  # type: ignore[override]
            raise RuntimeError("no room left")

    adapter = Broken(says("no"))
    async with open_desk(world, adapter) as desk:
        desk.submit(task())
    assert "no room left" in world.texts["$e1"]


async def test_failed_complete_does_not_end_the_worker(
    autojump_clock: Clock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """A result that cannot be handed out is logged with its id; the next task runs."""
    world.complete_fails = True
    adapter = await run_tasks(world, says("hi"), task(1), task(2))
    assert len(adapter.prompts) == 2
    assert "task=t1 the result could not be handed out" in caplog.text


async def test_unrecordable_answer_goes_out_as_the_result(
    autojump_clock: Clock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """An answer that cannot be recorded is not edited in, but it is not lost either."""

    async def fail(task_id: TaskId, answer: str, files: Sequence[str] = ()) -> None:
        raise OSError("no space")

    world.answered = fail  # type: ignore[method-assign]
    await run_tasks(world, says("hi"), task())
    assert world.results["t1"] == "hi"
    assert world.texts == {"$e1": PLACEHOLDER}


async def test_one_log_line_per_task_and_one_per_turn_without_content(
    autojump_clock: Clock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Ids, room, tier, seconds, reason; never what was said."""
    caplog.set_level(logging.INFO, "agentconnect")
    await run_tasks(world, says("classified", after_s=2), task(body="classified"))
    taken, line = [r.getMessage() for r in caplog.records if r.levelname == "INFO"]
    assert "taken task=t1 room=!r:x tier=owner ahead=0 files=0" == taken
    assert "task=t1 room=!r:x tier=owner adapter=acp" in line
    assert "reason=completed" in line
    assert "classified" not in caplog.text


async def test_late_events_reach_nobody(autojump_clock: Clock, world: World) -> None:
    """What an agent says after its turn is not in the next answer."""
    kept: list[Emit] = []

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        for old in kept:
            old(MessageChunk(text="from yesterday"))
        kept.append(emit)
        emit(MessageChunk(text="today"))
        await trio.sleep(1)
        return Done(reason=Reason.COMPLETED)

    await run_tasks(world, script, task(1), task(2))
    assert ["[REPLIED]\n\ntoday"] * 2 == list(world.results.values())


# --- stop


async def test_stop_answers_with_what_there_is(autojump_clock: Clock, world: World) -> None:
    """An open turn ends through its own deadline; its text is answered with the reason."""
    adapter = FakeAdapter(talks_until_stopped)
    async with open_desk(world, adapter) as desk:
        desk.submit(task())
        await trio.sleep(5)
        await desk.stop(10)
    assert world.texts["$e1"].startswith("half a\n\n(The worker was stopped")
    assert world.results["t1"].startswith("[REPLIED]\n\nhalf a")


async def test_stop_leaves_silent_and_waiting_turns(autojump_clock: Clock, world: World) -> None:
    """Turns with nothing to show and waiting ones get no result; the room is told of the re-run."""
    adapter = FakeAdapter(silent_until_stopped)
    async with open_desk(world, adapter) as desk:
        desk.submit(task(1))
        await trio.sleep(1)
        desk.submit(task(2))
        await trio.sleep(5)
        await desk.stop(10)
        desk.submit(task(3))
        assert desk.load() == (0, 0.0)
    assert world.results == {}
    assert "run again" in world.texts["$e1"]
    assert len(adapter.prompts) == 1


async def test_a_stop_before_the_agent_is_asked_asks_it_nothing(
    autojump_clock: Clock, world: World
) -> None:
    """A task that was taken up is written down first: what comes meanwhile is not lost on it."""
    adapter = FakeAdapter(deaf)
    world.prompted_s = 1.0
    async with open_desk(world, adapter) as desk:
        desk.submit(task())
        await trio.sleep(0.5)
        start = trio.current_time()
        await desk.stop(10)
        assert trio.current_time() - start < 2
    assert [] == adapter.prompts
    assert world.results == {}
    assert "run again" in world.texts["$e1"]


async def test_stop_ends_deaf_agents_within_its_budget(autojump_clock: Clock, world: World) -> None:
    """Twenty deaf agents are ended side by side after the grace."""
    adapter = FakeAdapter(deaf)
    async with open_desk(world, adapter) as desk:
        for number in range(20):
            desk.submit(task(number, room=f"!r{number}:x"))
        await trio.sleep(5)
        start = trio.current_time()
        await desk.stop(10)
        assert trio.current_time() - start < 12
    assert len(adapter.kills) == len(world.results) == 20


async def test_stop_of_a_dead_room_is_bounded(autojump_clock: Clock, world: World) -> None:
    """Farewells and last edits that hang do not hold the stop."""
    adapter = FakeAdapter(silent_until_stopped)
    async with open_desk(world, adapter) as desk:
        desk.submit(task())
        await trio.sleep(5)
        world.edit_outcomes = [600.0]
        start = trio.current_time()
        await desk.stop(10)
        assert trio.current_time() - start < 5
    assert world.results == {}


@pytest.mark.parametrize("edits", [[600.0], [OpResult(ok=False, status=500)] * 9])
async def test_stop_cuts_the_window_of_a_turn_that_has_ended(
    autojump_clock: Clock, world: World, edits: list[OpResult | float]
) -> None:
    """Its last edit hangs or fails: ten seconds otherwise, two now; its answer goes out."""
    async with open_desk(world, FakeAdapter(says("hi"))) as desk:
        world.edit_outcomes = list(edits)
        desk.submit(task())
        await trio.sleep(1)
        start = trio.current_time()
        await desk.stop(10)
        assert trio.current_time() - start <= 3
    assert "hi" in world.results["t1"]


async def test_idle_stop_is_immediate(autojump_clock: Clock, world: World) -> None:
    """Nothing in hand, nothing to wait for."""
    async with open_desk(world, FakeAdapter(says("hi"))) as desk:
        start = trio.current_time()
        await desk.stop(10)
        assert trio.current_time() - start < 0.1


async def test_stop_during_the_grace_shortens_it(autojump_clock: Clock, world: World) -> None:
    """A turn that has already met its deadline is not given another ten seconds and more."""
    adapter = FakeAdapter(deaf)
    async with open_desk(world, adapter, turn_timeout_s=60) as desk:
        desk.submit(task())
        await trio.sleep(62)
        await desk.stop(3)
    assert adapter.kills[0] - adapter.interrupts[0] == pytest.approx(5, abs=0.5)
    assert "60 s" in world.texts["$e1"]


# --- restart


async def test_recorded_answer_is_not_run_again(autojump_clock: Clock, world: World) -> None:
    """Killed between record and edit: the edit is repeated and the task closed, without a run."""
    world.texts["$old"] = PLACEHOLDER
    world.progress_of[T1] = Progress(
        placeholder="$old", prompted=True, answered=True, answer="from before"
    )
    adapter = await run_tasks(world, says("no"), task())
    assert adapter.entered == []
    assert world.texts == {"$old": "from before"}
    assert world.results["t1"] == "[REPLIED]\n\nfrom before"


async def test_recorded_answer_with_files_goes_out_as_the_result(
    autojump_clock: Clock, world: World
) -> None:
    """The recorded body is read for markers again: its files are still to be sent."""
    world.progress_of[T1] = Progress(placeholder="$old", answered=True, answer="see [file: a]")
    await run_tasks(world, says("no"), task())
    assert world.results["t1"] == "see [file: a]"
    assert "a file" in world.texts["$old"]


async def test_edited_answer_only_needs_its_result(autojump_clock: Clock, world: World) -> None:
    """Killed between the edit and the result: only the result is written."""
    world.progress_of[T1] = Progress(
        placeholder="$old", prompted=True, answered=True, answer="from before", edited=True
    )
    adapter = await run_tasks(world, says("no"), task())
    assert adapter.entered == []
    assert ["result: [REPLIED]\n\nfrom before"] == world.did()


async def test_prompted_task_is_run_again_in_its_message(
    autojump_clock: Clock, world: World
) -> None:
    """Killed in mid-turn: one more run, under the placeholder that is there."""
    world.texts["$old"] = "⏸ The worker is restarting"
    world.progress_of[T1] = Progress(placeholder="$old", prompted=True)
    adapter = await run_tasks(world, says("hi", after_s=1), task())
    assert ["hello"] == adapter.prompts
    assert [f"edit: {PLACEHOLDER}", "edit: hi"] == world.did("message", "edit")
    assert world.results["t1"] == "[REPLIED]\n\nhi"


async def test_taken_up_task_with_a_placeholder_is_not_queued_aloud(
    autojump_clock: Clock, world: World
) -> None:
    """A task whose own message is in the room already needs no queue message."""
    world.progress_of[TaskId("t2")] = Progress(placeholder="$old", prompted=True)
    await run_tasks(world, says("hi", after_s=1), task(1), task(2))
    assert [f"message: {PLACEHOLDER}"] == world.did("message")


async def test_rerun_posts_the_same_message_under_the_same_key(
    autojump_clock: Clock, world: World
) -> None:
    """A placeholder whose record was lost is found again by its key."""
    await run_tasks(world, says("hi"), task())
    world.progress_of.clear()
    world.results.clear()
    await run_tasks(world, says("hi"), task())
    assert list(world.texts) == ["$e1"]


async def test_cancelled_work_leaves_the_journal_as_it_was(
    autojump_clock: Clock, world: World
) -> None:
    """A hard end completes nothing and rejects nothing."""
    adapter = FakeAdapter(deaf)
    with trio.move_on_after(20):
        async with open_desk(world, adapter) as desk:
            desk.submit(task())
    assert world.results == {}
    assert world.progress_of[T1] == Progress(placeholder="$e1", prompted=True)
    assert adapter.left == 1


async def test_flood_of_chunks_costs_no_room_op(autojump_clock: Clock, world: World) -> None:
    """50,000 chunks are one answer and one edit."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        await trio.sleep(1)
        emit(ToolStarted(tool_id="1", title="count"))
        for _ in range(50_000):
            emit(MessageChunk(text="x"))
        return Done(reason=Reason.COMPLETED)

    await run_tasks(world, script, task())
    assert world.results["t1"].startswith("x" * 50_000)
    assert len(world.did("edit")) <= 2


async def test_a_task_that_ends_the_worker_each_time_is_given_up_aloud(
    autojump_clock: Clock, world: World
) -> None:
    """Three runs took the process with them: the agent is not asked again, and the room reads why.

    Two are not enough for that.
    """
    world.texts["$old"] = PLACEHOLDER
    world.progress_of[T1] = Progress(placeholder="$old", starts=3)
    adapter = await run_tasks(world, says("no"), task())
    assert adapter.entered == []
    assert "3 times" in world.texts["$old"]
    assert world.results["t1"].startswith("[REPLIED]")
    world.progress_of[TaskId("t2")] = Progress(starts=2)
    adapter = await run_tasks(world, says("yes"), task(2))
    assert ["hello"] == adapter.prompts


async def test_an_owed_placeholder_is_recorded_before_the_answer_and_until_it_is_paid(
    autojump_clock: Clock, world: World
) -> None:
    """The answer goes out as the result; a restart in between would still know the old message."""
    world.edit_outcomes = [OpResult(ok=False, status=500)] * 8
    async with open_desk(world, FakeAdapter(says("the answer"))) as desk:
        desk.submit(task())
        await desk.wait_idle()
        with trio.fail_after(900):
            while world.debts:
                await trio.sleep(1)
    kinds = [op.what for op in world.ops if op.what in ("owes", "result", "paid")]
    assert ["owes", "result", "paid"] == kinds
    assert world.debts == {}


async def test_a_stop_leaves_the_debt_for_the_next_start(
    autojump_clock: Clock, world: World
) -> None:
    """The reporter is given up; what its message is owed stays on record."""
    world.edit_outcomes = [OpResult(ok=False, status=500)] * 500
    async with open_desk(world, FakeAdapter(says("the answer"))) as desk:
        desk.submit(task())
        await desk.wait_idle()
        await desk.stop(1.0)
    assert list(world.debts) == ["$e1"]
    assert "follows below" in world.debts["$e1"][1]
