"""Where a failure stops: each unit's ends at that unit's boundary (docs/architecture.md)."""

from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock as Clock

from agentconnect.adapters.contract import Emit, TurnContext
from agentconnect.core.errors import StoreUnreadableError
from agentconnect.core.outcomes import OpResult, Progress
from agentconnect.core.task import Task, TaskId
from agentconnect.core.turns.events import Done, MessageChunk
from tests.shell.turns.fakes import FakeAdapter, FakeAgent, World, open_desk, run_tasks, says, task

T1 = TaskId("t1")


class Broken(World):
    """One part of the world breaks for the first task; the rest goes on."""

    def __init__(self, part: str) -> None:
        super().__init__()
        self.part = part
        self.lost: list[str] = []

    def fails(self, part: str, task_id: str = "t1") -> None:
        if part == self.part and task_id == "t1":
            raise StoreUnreadableError("the journal is [file: x] full")

    def progress(self, task_id: TaskId) -> Progress:
        if self.part == "progress" and task_id == T1 and self.did("read"):
            raise RuntimeError("the journal is [file: x] full")
        self.note("read")
        return super().progress(task_id)

    async def answered(self, task_id: TaskId, answer: str, files: Sequence[str] = ()) -> None:
        self.fails("answered", task_id)
        await super().answered(task_id, answer, files)

    async def prompted(self, task_id: TaskId) -> None:
        self.fails("prompted", task_id)
        await super().prompted(task_id)

    async def placed(self, task_id: TaskId, event_id: str) -> None:
        self.fails("placed", task_id)
        await super().placed(task_id, event_id)

    async def edited(self, task_id: TaskId) -> None:
        self.fails("edited", task_id)
        await super().edited(task_id)

    async def message(
        self, room_id: str, body: str, *, mentions: Sequence[str] = (), key: str = ""
    ) -> OpResult:
        if "/t1/" in key:
            self.fails("message")
        return await super().message(room_id, body, mentions=mentions, key=key)

    async def reject(self, task: Task, reason: str) -> None:
        self.fails("reject", task.id)
        await super().reject(task, reason)


@pytest.mark.parametrize("part", ["prompted", "placed", "edited"])
async def test_a_record_that_can_be_spared_costs_nothing(
    part: str, autojump_clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Its loss costs a restart a second look; the turn does not notice."""
    world = Broken(part)
    await run_tasks(world, says("hi"), task(1), task(2))
    assert ["[REPLIED]\n\nhi"] * 2 == [world.results[each] for each in ("t1", "t2")]
    assert "hi" in world.texts.values()


async def test_an_answer_that_cannot_be_recorded_still_goes_out(
    autojump_clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """The ladder breaks where it would have shown it; the result carries it."""
    world = Broken("answered")
    await run_tasks(world, says("hi"), task(1), task(2))
    assert ("hi", "[REPLIED]\n\nhi") == (world.results["t1"], world.results["t2"])


async def test_a_room_that_breaks_leaves_the_answer_to_the_result(
    autojump_clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """No placeholder came of it."""
    world = Broken("message")
    await run_tasks(world, says("hi"), task(1), task(2))
    assert ("hi", "[REPLIED]\n\nhi") == (world.results["t1"], world.results["t2"])


@pytest.mark.parametrize("delivered", [True, False])
async def test_a_turn_that_cannot_even_begin_is_answered(
    delivered: bool, autojump_clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """With a sentence, inert; if that cannot go out either, the relay serves it again."""
    world = Broken("progress")
    world.note("read")
    world.complete_fails = not delivered
    adapter = FakeAdapter(says("hi"))
    async with open_desk(world, adapter) as desk:
        desk.submit(task(1))
        await desk.wait_idle()
        world.complete_fails = False
        desk.submit(task(2))
    assert "[REPLIED]\n\nhi" == world.results["t2"]
    if delivered:
        assert "error while it ran this message" in world.results["t1"]
        assert "(file: x] full" in world.results["t1"]
    else:
        assert "t1" not in world.results


async def test_a_rejection_that_fails_hurts_nobody(
    autojump_clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """An empty message whose refusal is lost is served and refused again."""
    world = Broken("reject")
    await run_tasks(world, says("hi"), task(1, body=" "), task(2, body=" "), task(3))
    assert {"t2": "EMPTY_TASK"} == world.rejected
    assert {"t3": "[REPLIED]\n\nhi"} == world.results


async def test_an_agent_that_cannot_be_asked_to_stop_is_ended(
    autojump_clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """At its deadline and after its grace, as one that does not listen."""

    async def deaf(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        async def no() -> None:
            raise OSError("no pipe")

        agent.interrupt = no  # type: ignore[method-assign]
        emit(MessageChunk(text="so far"))
        await trio.sleep_forever()
        raise AssertionError

    world = World()
    adapter = await run_tasks(world, deaf, task(), turn_timeout_s=60)
    assert [75.0] == [round(at) for at in adapter.kills]
    assert world.texts["$e1"].startswith("so far\n\n(This turn reached its deadline of 60 s")
