"""Collaborators at the desk: sessions of their own, and the guard over what they get."""

import msgspec
import pytest
import trio
from trio.testing import MockClock as Clock

from agentconnect.adapters.contract import Emit, TurnContext
from agentconnect.core.outcomes import Progress
from agentconnect.core.task import SessionKey, Task, TaskId, Tier
from agentconnect.core.turns.access import Admission, Rank, admission
from agentconnect.core.turns.events import (
    Done,
    FileOffered,
    MessageChunk,
    Notice,
    PermissionAsked,
    Reason,
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

SECRET = "sk-" + "a1B2c3D4" * 4


def admit(one: Task) -> Admission:
    return admission(one, Rank.OWNER, frozenset({"@carl:x", "@dora:x"}))


def theirs(number: int = 1, user: str = "@carl:x", **more: object) -> Task:
    """A collaborator's task."""
    fields = {
        "user_id": user,
        "access_tier": "guest",
        "requested_access_tier": "team",
        "collaborator": True,
        **more,
    }
    return task(number, **fields)  # type: ignore[arg-type]


async def leaks(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
    """Shows a secret in every way there is."""
    await trio.sleep(1)
    emit(Notice(text=f"notice {SECRET}"))
    emit(ToolStarted(tool_id="1", title=f"echo {SECRET}"))
    emit(PermissionAsked(title=f"cat {SECRET}", allowed=False, reason=f"outside: /{SECRET}"))
    emit(FileOffered(path=f"/w/{SECRET}"))
    await trio.sleep(10)
    emit(MessageChunk(text=f"It is {SECRET[:10]}"))
    emit(MessageChunk(text=f"{SECRET[10:]} [file: {SECRET}.txt]"))
    return Done(reason=Reason.FAILED, note=f"(It ended: {SECRET})")


def everything(world: World) -> str:
    """All that ever left the machine."""
    return "\n".join([*(op.body for op in world.ops), *world.texts.values()])


async def test_collaborators_run_side_by_side_each_on_its_own(
    autojump_clock: Clock, world: World
) -> None:
    """Owner and two collaborators of one room: three sessions, none waits for another."""
    tasks = [task(1), theirs(2), theirs(3, "@dora:x"), theirs(4)]
    adapter = await run_tasks(world, says("hi", after_s=5), *tasks, admit=admit)
    assert {
        SessionKey(room="!r:x", tier=Tier.OWNER),
        SessionKey(room="!r:x", tier=Tier.GUEST, sender="@carl:x"),
        SessionKey(room="!r:x", tier=Tier.GUEST, sender="@dora:x"),
    } == set(adapter.entered)
    assert 1 == len([op for op in world.ops if "comes next" in op.body])
    assert 4 == len(world.results)


async def test_who_is_not_attested_is_told_to_the_deliveries(
    autojump_clock: Clock, world: World
) -> None:
    """Every task that is no collaborator's, a listed sender's among them; before its turn ends."""
    heard: list[tuple[str, str]] = []

    async def unattested(room: str, sender: str) -> None:
        heard.append((room, sender))

    adapter = FakeAdapter(says("hi", after_s=1))
    async with open_desk(world, adapter, admit=admit, unattested=unattested) as desk:
        desk.submit(theirs(1))
        desk.submit(theirs(2, collaborator=False))
        desk.submit(theirs(3, "@dora:x", requested_access_tier=""))
    assert {("!r:x", "@carl:x"), ("!r:x", "@dora:x")} == set(heard)
    assert 2 == len(heard)


async def test_the_adapter_is_told_whose_turn_it_is(autojump_clock: Clock, world: World) -> None:
    """The context says collaborator through its key; the tier stays guest."""
    adapter = await run_tasks(world, says("hi"), theirs(1), task(2), admit=admit)
    said = {ctx.task.id: (ctx.tier, ctx.key.collaborator) for ctx in adapter.contexts}
    assert {"t1": (Tier.GUEST, True), "t2": (Tier.OWNER, False)} == said


async def test_a_sender_the_relay_no_longer_attests_is_a_guest(
    autojump_clock: Clock, world: World
) -> None:
    """That turn is refused aloud and touches no session."""
    adapter = await run_tasks(world, says("no"), theirs(collaborator=False), admit=admit)
    assert [] == adapter.entered
    assert "only answer my owner" in world.texts["$e1"]


async def test_nothing_of_a_secret_leaves_a_collaborators_turn(
    autojump_clock: Clock, world: World
) -> None:
    """Live steps, notices, answer, ending, summary, file names: withheld, and the room is told."""
    await run_tasks(world, leaks, theirs(), admit=admit)
    assert SECRET not in everything(world)
    assert SECRET[:10] not in everything(world)
    assert any("A notice of this turn was withheld" in text for text in world.texts.values())
    assert any("A file of this turn was withheld" in text for text in world.texts.values())
    final = world.texts["$e1"]
    assert "The answer of this turn was withheld" in final
    assert "The ending of this turn was withheld" in final
    assert "its title is withheld" in final
    assert any("its title is withheld" in op.body for op in world.ops if op.what == "edit")


@pytest.mark.parametrize("why", ["owner", "room", "opt-out"])
async def test_where_nobody_asked_for_it_nothing_is_withheld(
    autojump_clock: Clock, world: World, why: str
) -> None:
    """The owner's own turns, rooms without the filter, and the owner's opt-out on this machine."""
    one = {
        "owner": task(),
        "room": theirs(sensitive_data_filter=False),
        "opt-out": theirs(),
    }[why]
    await run_tasks(
        world, says(SECRET), one, admit=admit, unchecked_collaborators=(why == "opt-out")
    )
    assert SECRET == world.texts["$e1"]
    assert world.inspects["t1"] is None


async def test_a_secret_put_together_by_the_ending_is_withheld_too(
    autojump_clock: Clock, world: World
) -> None:
    """The body as a whole is looked at, not only its parts."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        text = "-----BEGIN PRIVATE KEY-----"
        return Done(reason=Reason.FAILED, text=text, note="MIIE" * 20)

    await run_tasks(world, script, theirs(), admit=admit)
    assert "BEGIN" not in everything(world)


async def test_a_broken_turns_error_is_looked_at(
    autojump_clock: Clock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception's words reach the room, so they are judged like any answer."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        raise RuntimeError(f"cannot log in with {SECRET}")

    await run_tasks(world, script, theirs(), admit=admit)
    assert SECRET not in everything(world)
    assert "withheld" in world.texts["$e1"]


async def test_files_are_looked_at_as_they_are_sent(autojump_clock: Clock, world: World) -> None:
    """The relay is handed the guard, since it alone holds the bytes that go out."""
    await run_tasks(world, says("see [file: a.txt]"), theirs(), admit=admit)
    inspect = world.inspects["t1"]
    assert inspect is not None
    assert "" == inspect("/w/a.txt", b"honest")
    assert "withheld" in inspect("/w/a.txt", SECRET.encode())
    assert "withheld" in inspect("/w/a.png", b"\x89PNG\x00")


async def test_an_answer_left_by_an_earlier_run_keeps_its_guard(
    autojump_clock: Clock, world: World
) -> None:
    """Its files are judged after a restart too, even where its sender has lost the standing."""
    for number, user in ((1, "@carl:x"), (2, "@gone:x")):
        world.progress_of[TaskId(f"t{number}")] = Progress(
            placeholder=f"$old{number}", answered=True, answer="see [file: a]"
        )
        await run_tasks(world, says("no"), theirs(number, user), admit=admit)
        assert world.inspects[f"t{number}"] is not None


async def test_a_withheld_answer_asks_for_nothing(autojump_clock: Clock, world: World) -> None:
    """Its markers go with it: no file, no other room."""
    text = f"[channel: !other:x]\n{SECRET} [file: a.txt]"
    await run_tasks(world, says(text), theirs(), admit=admit)
    body = world.results["t1"]
    assert body.startswith("[REPLIED]")
    assert "[file:" not in body
    assert "!other:x" not in everything(world)


async def test_the_placeholder_and_the_queue_message_are_as_for_everybody(
    autojump_clock: Clock, world: World
) -> None:
    """What is ours passes the guard unchanged."""
    await run_tasks(world, says("hi", after_s=2), theirs(1), theirs(2), admit=admit)
    assert 2 == len([op for op in world.ops if op.body == PLACEHOLDER and op.what == "message"])
    assert ["[REPLIED]\n\nhi"] * 2 == list(world.results.values())


async def test_an_answer_mentions_the_members_it_names(autojump_clock: Clock, world: World) -> None:
    """Full ids in the final edit and in notices are mentions; a step's title never is."""

    async def script(agent: FakeAgent, ctx: TurnContext, emit: Emit) -> Done:
        await trio.sleep(1)
        emit(Notice(text="careful, @eve:x"))
        emit(ToolStarted(tool_id="1", title="mail @bob:x"))
        await trio.sleep(5)
        return Done(reason=Reason.COMPLETED, text="@bob:x, what do you say? And @carl, @zoe:x?")

    one = msgspec.structs.replace(
        task(), room_members=("@bob:x", "@eve:x", "@owner:x"), room_member_count=3
    )
    await run_tasks(world, script, one)
    assert {("@bob:x",), ("@eve:x",), ()} == set(world.mentioned.values())
    assert ("@bob:x",) == world.mentioned[world.texts["$e1"]]
    steps = [whom for body, whom in world.mentioned.items() if body.startswith(PLACEHOLDER)]
    assert {()} == set(steps)
