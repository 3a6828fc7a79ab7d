"""Every row of the final step, seen from the room and the result (worker.md §11.3)."""

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
    Notice,
    PermissionAsked,
    Reason,
    Thinking,
    ToolFinished,
    ToolStarted,
)
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

FAILED = OpResult(ok=False, status=500, reason="http 500")


async def test_answer_takes_the_placeholder_over(autojump_clock: Clock, world: World) -> None:
    """A short answer is recorded, edited in, recorded as edited, and closed with [REPLIED]."""
    await run_tasks(world, says("hi there", after_s=1), task())
    assert [
        f"message: {PLACEHOLDER}",
        "placed: $e1",
        "answered: hi there",
        "edit: hi there",
        "edited",
        "result: [REPLIED]\n\nhi there",
    ] == world.did("message", "placed", "answered", "edit", "edited", "result")


async def test_placeholder_never_delays_the_agent(autojump_clock: Clock, world: World) -> None:
    """The agent is prompted while the placeholder is still on its way."""
    world.message_outcomes = [5.0]
    await run_tasks(world, says("hi"), task())
    prompted = next(op.at for op in world.ops if op.what == "prompted")
    placed = next(op.at for op in world.ops if op.what == "placed")
    assert placed - prompted == pytest.approx(5.0, abs=0.5)
    assert world.texts == {"$e1": "hi"}


async def test_answer_at_the_ceiling_is_edited_in(autojump_clock: Clock, world: World) -> None:
    """Exactly at the ceiling still edits."""
    await run_tasks(world, says("x" * 40), task(), edit_ceiling=40)
    assert world.texts == {"$e1": "x" * 40}
    assert world.results["t1"] == "[REPLIED]\n\n" + "x" * 40


@pytest.mark.parametrize("ceiling", [4000, 9000])
async def test_long_answer_leaves_a_pointer(
    autojump_clock: Clock, world: World, ceiling: int
) -> None:
    """Over the ceiling, or over what the relay takes, the body goes out in full."""
    body = "x" * 4001
    await run_tasks(world, says(body), task(), edit_ceiling=ceiling)
    assert "follows below" in world.texts["$e1"]
    assert world.results["t1"] == body
    assert world.did("edit", "result")[-1].startswith("result")


async def test_wide_characters_count_twice_for_the_relay(
    autojump_clock: Clock, world: World
) -> None:
    """The relay counts UTF-16 units too: 2,001 of these do not fit an edit."""
    body = "😀" * 2001
    await run_tasks(world, says(body), task())
    assert world.results["t1"] == body
    assert "follows below" in world.texts["$e1"]


async def test_files_leave_a_pointer(autojump_clock: Clock, world: World) -> None:
    """An answer that names files goes out as the result, where the files are sent."""
    await run_tasks(world, says("see [file: a.txt] and [file: b.txt]"), task())
    assert "2 files" in world.texts["$e1"]
    assert world.results["t1"] == "see [file: a.txt] and [file: b.txt]"


async def test_an_agent_elsewhere_names_no_file_of_ours(
    autojump_clock: Clock, world: World
) -> None:
    """Each marker is a refusal where it stands; one shown in code, and nested ones, stay prose."""
    adapter = FakeAdapter(says("see [file: a.txt], [fi[send: b]le: c] and `[file: d]`"))
    adapter.shares_files = False
    async with open_desk(world, adapter) as desk:
        desk.submit(task())
    why = "the agent runs on another machine, so its files are not here"
    shown = (
        f"see [attachment not sent: a.txt ({why})], [fi[attachment not sent: b ({why})]le: c] "
        "and `[file: d]`"
    )
    assert {"$e1": shown} == world.texts
    assert () == world.sent.get("t1", ())


async def test_offered_files_go_with_the_answer(autojump_clock: Clock, world: World) -> None:
    """A file offered by event goes beside the body, whatever its name: no marker is written."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        emit(FileOffered(path="/w/out.png"))
        emit(FileOffered(path="/w/a]b.png"))
        return Done(reason=Reason.COMPLETED, text="here")

    await run_tasks(world, script, task())
    assert "here" == world.results["t1"]
    assert ("/w/out.png", "/w/a]b.png") == world.sent["t1"]
    assert "2 files" in world.texts["$e1"]


async def test_a_file_without_a_word_is_an_answer(autojump_clock: Clock, world: World) -> None:
    """Nothing but a file: the pointer counts it, and the result brings it."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        emit(FileOffered(path="/w/out.png"))
        return Done(reason=Reason.COMPLETED)

    await run_tasks(world, script, task())
    assert ("", ("/w/out.png",)) == (world.results["t1"], world.sent["t1"])
    assert "a file" in world.texts["$e1"]


async def test_offered_files_survive_a_restart(autojump_clock: Clock, world: World) -> None:
    """They are recorded with the answer, and sent by the run that finds it; nothing is run."""
    for number, body in ((1, "here"), (2, "")):
        world.progress_of[TaskId(f"t{number}")] = Progress(
            placeholder="$old", answered=True, answer=body, files=("/w/out.png",)
        )
        adapter = await run_tasks(world, says("no"), task(number))
        assert [] == adapter.entered
        assert (body, ("/w/out.png",)) == (world.results[f"t{number}"], world.sent[f"t{number}"])


@pytest.mark.parametrize("answer", ["[channel: !other:x]\nsecret plan", "[dm-only] secret plan"])
async def test_directed_answer_shows_nothing_here(
    autojump_clock: Clock, world: World, answer: str
) -> None:
    """A redirected or private answer leaves a pointer without content."""
    await run_tasks(world, says(answer), task())
    assert "secret" not in "".join(world.texts.values())
    assert PLACEHOLDER not in world.texts["$e1"]
    assert world.results["t1"] == answer


async def test_redirect_stays_first_when_a_notice_was_not_posted(
    autojump_clock: Clock, world: World
) -> None:
    """An unposted notice must not push the redirect off the body's start."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        emit(Notice(text="fresh conversation"))
        return Done(reason=Reason.COMPLETED, text="[channel: !other:x]\nsecret")

    world.message_outcomes = [0, FAILED]
    await run_tasks(world, script, task())
    assert world.results["t1"].startswith("[channel: !other:x]\nsecret")
    assert "fresh conversation" in world.results["t1"]


async def test_discussed_skip_marker_is_prose(autojump_clock: Clock, world: World) -> None:
    """An agent that talks about [REPLIED] is heard, and its marker shows in backticks."""
    await run_tasks(world, says("[REPLIED] closes a lease"), task())
    assert world.texts["$e1"] == "`[REPLIED]` closes a lease"


async def test_lone_skip_marker_is_an_intended_silence(autojump_clock: Clock, world: World) -> None:
    """[no-send] alone ends as a turn without an answer does."""
    await run_tasks(world, says("[no-send]"), task())
    assert world.texts["$e1"] == "The agent finished without an answer."
    assert world.results["t1"].startswith("[REPLIED]")


async def test_lone_skip_marker_without_a_room_is_silent(
    autojump_clock: Clock, world: World
) -> None:
    """An intended silence with nothing to edit says nothing at all, not even a failure."""
    await run_tasks(world, says("[no-send]"), task(room=""))
    assert world.results["t1"] == "[no-send]"


async def test_unclosed_marker_is_shown_as_the_result_path_would(
    autojump_clock: Clock, world: World
) -> None:
    """The edit shows the body the result path would give the room."""
    await run_tasks(world, says("read this\n[file: a\nlast line"), task())
    assert world.texts["$e1"] == "read this\n\nlast line"


async def test_no_answer_in_order_is_said(autojump_clock: Clock, world: World) -> None:
    """A turn that ends in order without a word edits that in."""
    await run_tasks(world, says(""), task())
    assert world.texts["$e1"] == "The agent finished without an answer."
    assert world.results["t1"].startswith("[REPLIED]")


@pytest.mark.parametrize(
    "reason", [Reason.FAILED, Reason.CANCELLED, Reason.REFUSED, Reason.TOKEN_LIMIT]
)
async def test_no_answer_otherwise_is_the_brokers_to_say(
    autojump_clock: Clock, world: World, reason: Reason
) -> None:
    """Nothing is edited, nothing is posted; the result names the reason and the note."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        return Done(reason=reason, note="the agent is not logged in")

    await run_tasks(world, script, task())
    assert world.texts == {"$e1": PLACEHOLDER}
    assert world.results["t1"].startswith("[no-send] ")
    assert f"reason: {reason.value}" in world.results["t1"]
    assert "not logged in" in world.results["t1"]


async def test_partial_answer_says_how_it_ended(autojump_clock: Clock, world: World) -> None:
    """Text before a failure is kept, with a line that says it is not the whole."""
    await run_tasks(world, says("half of", Reason.TOKEN_LIMIT), task())
    assert world.texts["$e1"].startswith("half of\n\n(")
    assert "token limit" in world.texts["$e1"]


async def test_failed_placeholder_sends_the_result(autojump_clock: Clock, world: World) -> None:
    """No placeholder, no ladder: the answer travels as the result."""
    world.message_outcomes = [FAILED]
    await run_tasks(world, says("hi"), task())
    assert world.texts == {}
    assert world.results["t1"] == "hi"
    assert world.did("answered") == []


async def test_cooling_room_sends_the_result(autojump_clock: Clock, world: World) -> None:
    """While room ops cool down the answer is not held back."""
    world.message_outcomes = [OpResult(ok=False, cooling_s=250)]
    await run_tasks(world, says("hi"), task())
    assert world.results["t1"] == "hi"


async def test_roomless_task_is_answered_by_the_result(autojump_clock: Clock, world: World) -> None:
    """A task without a room climbs no ladder."""
    await run_tasks(world, says("hi"), task(room=""))
    assert world.results["t1"] == "hi"
    assert world.did("message", "edit") == []


async def test_final_edit_is_repeated(autojump_clock: Clock, world: World) -> None:
    """A failed final edit is repeated: one answer, in the placeholder."""
    world.edit_outcomes = [FAILED, OpResult(ok=False, cooling_s=5)]
    await run_tasks(world, says("hi"), task())
    assert world.texts["$e1"] == "hi"
    assert world.results["t1"] == "[REPLIED]\n\nhi"


async def test_final_edit_that_goes_on_failing_sends_the_result(
    autojump_clock: Clock, world: World
) -> None:
    """Ten seconds after the answer the result carries it; the placeholder gets its pointer."""
    world.edit_outcomes = [FAILED] * 7
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_owing, world)
        while world.texts.get("$e1", PLACEHOLDER) == PLACEHOLDER:
            await trio.sleep(1)
        nursery.cancel_scope.cancel()
    ready = next(op.at for op in world.ops if op.what == "answered")
    result = next(op.at for op in world.ops if op.what == "result")
    assert result - ready <= 10
    assert world.results["t1"] == "hi"
    assert "follows below" in world.texts["$e1"]


async def run_owing(world: World) -> None:
    """A desk that is not left while a pointer is owed."""
    async with open_desk(world, FakeAdapter(says("hi"))) as desk:
        desk.submit(task())
        await trio.sleep_forever()


@pytest.mark.parametrize("status", [400, 403, 404, 413])
async def test_refused_final_edit_sends_the_result_at_once(
    autojump_clock: Clock, world: World, status: int
) -> None:
    """An edit refused for good is not repeated for ten seconds."""
    world.edit_outcomes = [OpResult(ok=False, status=status)]
    await run_tasks(world, says("hi", after_s=1), task())
    ready = next(op.at for op in world.ops if op.what == "answered")
    result = next(op.at for op in world.ops if op.what == "result")
    assert result - ready < 1
    assert world.results["t1"] == "hi"


async def test_hanging_placeholder_does_not_hold_the_answer(
    autojump_clock: Clock, world: World
) -> None:
    """A placeholder that takes for ever costs ten seconds, and is closed when it comes."""
    world.message_outcomes = [40.0]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_owing, world)
        while "follows below" not in world.texts.get("$e1", ""):
            await trio.sleep(1)
        nursery.cancel_scope.cancel()
    result = next(op for op in world.ops if op.what == "result")
    prompted = next(op for op in world.ops if op.what == "prompted")
    assert result.at - prompted.at == pytest.approx(10.0, abs=0.5)
    assert result.body == "hi"


async def test_notice_is_its_own_message_before_the_answer(
    autojump_clock: Clock, world: World
) -> None:
    """A notice comes after the placeholder and before the answer; a blank one is nothing."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        emit(Notice(text=" "))
        emit(Notice(text="this is a fresh conversation [file: x]"))
        return Done(reason=Reason.COMPLETED, text="hi")

    await run_tasks(world, script, task())
    assert [
        f"message: {PLACEHOLDER}",
        "message: this is a fresh conversation (file: x]",
        "edit: hi",
    ] == world.did("message", "edit")


async def test_a_message_of_which_only_the_beginning_came_is_told_so(
    autojump_clock: Clock, world: World
) -> None:
    """Whoever wrote it learns how much the agent has read, once, before the answer."""
    await run_tasks(world, says("hi"), task(body="x" * 1234, body_cut=True))
    placeholder, notice, answer = world.did("message", "edit")
    assert (f"message: {PLACEHOLDER}", "edit: hi") == (placeholder, answer)
    assert "only its first 1,234 characters reached the agent" in notice


async def test_unposted_notice_goes_in_front_of_the_answer(
    autojump_clock: Clock, world: World
) -> None:
    """A notice that cannot be posted is not lost."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        emit(Notice(text="fresh conversation"))
        return Done(reason=Reason.COMPLETED, text="hi")

    world.message_outcomes = [0, FAILED]
    await run_tasks(world, script, task())
    assert world.texts["$e1"] == "fresh conversation\n\nhi"


async def test_progress_shows_the_latest_step_and_no_thoughts(
    autojump_clock: Clock, world: World
) -> None:
    """First step at once, then one edit per interval with a trailing one; thoughts never."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        await trio.sleep(0.5)
        emit(Thinking(text="secret thought"))
        emit(MessageChunk(text="partial words"))
        emit(ToolStarted(tool_id="1", title="Read a.py", action=Action.READ))
        await trio.sleep(1)
        emit(ToolFinished(tool_id="1", title="Read a.py"))
        emit(ToolStarted(tool_id="2", title="npm test", action=Action.EXECUTE))
        await trio.sleep(60)
        emit(ToolFinished(tool_id="2", title="", failed=True))
        return Done(reason=Reason.COMPLETED)

    await run_tasks(world, script, task())
    edits = [op for op in world.ops if op.what == "edit"]
    assert [
        f"{PLACEHOLDER}\n\nRead a.py",
        f"{PLACEHOLDER}\n\nnpm test (step 2)",
        "partial words\n\n— did: Read a.py · npm test (failed)",
    ] == [op.body for op in edits]
    assert edits[1].at - edits[0].at == pytest.approx(3.0, abs=0.2)


async def test_failed_progress_edit_only_skips_that_edit(
    autojump_clock: Clock, world: World
) -> None:
    """The ladder goes on after a failed edit, in the same message."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        for number in range(3):
            await trio.sleep(5)
            emit(ToolStarted(tool_id=str(number), title=f"step {number}"))
        return Done(reason=Reason.COMPLETED, text="hi")

    world.edit_outcomes = [FAILED]
    await run_tasks(world, script, task())
    assert len(world.did("edit failed")) == 1
    assert world.texts == {"$e1": "hi\n\n— did: step 0 · step 1 · step 2"}


async def test_live_progress_can_be_off(autojump_clock: Clock, world: World) -> None:
    """Without live progress only the two ends of the ladder are seen."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        emit(ToolStarted(tool_id="1", title="Read"))
        await trio.sleep(10)
        return Done(reason=Reason.COMPLETED, text="hi")

    await run_tasks(world, script, task(), live_progress=False)
    assert len(world.did("edit")) == 1


async def test_summary_carries_no_live_marker(autojump_clock: Clock, world: World) -> None:
    """A tool titled like a file marker uploads nothing; refusals are listed."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        emit(ToolStarted(tool_id="1", title="cat [file: secret.txt]"))
        emit(PermissionAsked(title="rm [dm-only]", allowed=False, reason="outside"))
        emit(PermissionAsked(title="ok", allowed=True, reason="under_root"))
        return Done(reason=Reason.COMPLETED, text="x" * 5000)

    await run_tasks(world, script, task())
    assert "[file:" not in world.results["t1"]
    assert "— refused (1 operation): rm (dm-only] — outside" in world.results["t1"]
