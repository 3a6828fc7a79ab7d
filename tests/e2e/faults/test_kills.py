"""``kill -9`` of the worker at every step of a task: answered exactly once, in one message.

A step is met exactly there: the relay holds the call that follows it (before it is handled, or
handled but unanswered), the process is killed, and only then the call goes on or is cut.
"""

from functools import partial
from pathlib import Path

import trio

from agentconnect.embedded.timing import Timing
from tests.e2e.faults.stand import (
    ACK,
    EDIT,
    PLACE,
    PLACEHOLDER,
    POLL,
    RESULT,
    UPLOAD,
    Log,
    Stand,
    open_rows,
    stand,
    together,
)
from tests.support.worker import until

REQUEST = "echo this back"
SLOW = "wait go and say this"
FILE = "file note.txt"


async def killed_at(
    case: Stand, request: str, path: str, *, applied: bool, late: bool, pending: int = 0
) -> str:
    """Ask, kill the worker inside the first call of ``path``; the message's event id.

    ``late``: the dead worker's call still takes effect, after the kill. ``pending``: how many
    results it owes at that moment, by its own status.
    """
    held = trio.Event()
    fault = case.plan(path, hold=held, drop=applied, cut=not applied and not late)
    await case.start()
    source = await case.relay.say(request)
    with trio.fail_after(60):
        await fault.reached.wait()
    await case.owes(inflight=1, pending=pending)
    await case.kill()
    held.set()
    return source


async def start_again(case: Stand, pending: int) -> None:
    """The next process; a recorded result is owed by its status until the relay has it."""
    if not pending:
        await case.start()
        return
    held = trio.Event()
    fault = case.plan(RESULT, hold=held)
    await case.start()
    with trio.fail_after(60):
        await fault.reached.wait()
    await case.owes(inflight=1, pending=pending)
    held.set()


async def answered_once(case: Stand, source: str, request: str = REQUEST) -> None:
    """One message of the agent's, it is the answer, and nothing is owed."""
    await case.closed(source)
    await case.settled()
    assert await case.texts() == [request]
    assert await case.relay.relay.reactions(source) == [("🫡", case.relay.agent)]


async def text_case(
    folder: Path, path: str, runs: int, *, applied: bool, late: bool, pending: int
) -> None:
    """A text answer; ``runs``: how often the agent may be asked in all."""
    request = SLOW if path == ACK else REQUEST  # acks are beside everything: the turn must wait
    async with stand(folder) as case:
        source = await killed_at(case, request, path, applied=applied, late=late, pending=pending)
        case.let("go")
        await start_again(case, pending)
        await answered_once(case, source, request)
        assert len(case.prompts()) <= runs, case.prompts()


async def at(folder: Path, path: str, runs: int, *, pending: int = 0) -> None:
    """Kill before the call took effect, after it, and with the call taking effect late."""
    ways = {"before": (False, False), "after": (True, False), "late": (False, True)}
    await together(
        *(
            partial(
                text_case, folder / name, path, runs, applied=applied, late=late, pending=pending
            )
            for name, (applied, late) in ways.items()
        )
    )


async def test_killed_between_acceptance_and_ack(tmp_path: Path) -> None:
    """The task is in the journal, its ack is on the wire: taken up again, answered once."""
    await at(tmp_path, ACK, 2)


async def test_killed_around_the_placeholder(tmp_path: Path) -> None:
    """No placeholder stays for ever and no second one comes, whether the post arrived or not."""
    await at(tmp_path, PLACE, 2)


async def test_killed_around_the_final_edit_is_not_answered_twice(tmp_path: Path) -> None:
    """The answer is on disk before the edit: it is edited again, the agent is not asked again."""
    await at(tmp_path, EDIT, 1)


async def test_killed_around_the_result_post(tmp_path: Path) -> None:
    """The recorded result is posted by the next process; the relay's dedup makes it one.

    It is owed by the status of both processes, until the relay has said that it took it.
    """
    await at(tmp_path, RESULT, 1, pending=1)


async def test_killed_mid_turn_goes_on_in_the_same_message(tmp_path: Path) -> None:
    """Prompted but not answered: run again once, under the placeholder that is there."""
    request = SLOW
    async with stand(tmp_path) as case:
        await case.start()
        source = await case.relay.say(request)
        await case.asked(request)

        async def placed() -> bool:
            return await case.texts() == [PLACEHOLDER]

        await until(placed, "the placeholder")
        (before,) = await case.mine()
        await case.kill()
        case.let("go")
        await case.start()
        await answered_once(case, source, request)
        assert case.prompts() == [request, request]
        assert [m.event_id for m in await case.mine()] == [before.event_id]


async def test_killed_after_the_task_was_closed(tmp_path: Path) -> None:
    """Killed as soon as the relay has the answer: a restart owes and does nothing."""
    async with stand(tmp_path) as case:
        await case.start()
        source = await case.relay.say(REQUEST)
        await case.closed(source)
        await case.kill()
        await case.start()
        await answered_once(case, source)
        assert case.prompts() == [REQUEST]


async def test_killed_once_the_result_was_retired(tmp_path: Path) -> None:
    """Nothing is owed, before the kill and ever after: the result is not posted a second time."""
    log = Log()
    async with stand(tmp_path, faults=log) as case:
        await case.start()
        source = await case.relay.say(REQUEST)
        await case.closed(source)
        await case.settled()
        await case.kill()
        case.launch()
        owed: set[object] = set()

        def connected() -> bool:
            owed.update((case.of_relay("pending_results"), case.of_relay("inflight")))
            return case.worker.connected()

        await until(connected, "a connected worker")
        assert owed <= {0, None}
        await case.closed(await case.relay.say("echo the next"))
        await case.settled()
        assert len(log.times_of(RESULT)) == 2
        assert case.prompts() == [REQUEST, "echo the next"]


async def test_killed_between_a_polls_answer_and_the_journal(tmp_path: Path) -> None:
    """The relay has leased what the worker never wrote down: served again when the lease ends.

    Two tasks of two rooms in one poll. Nobody acked them, so that takes up to three windows.
    """
    timing = Timing(visibility_s=1.0, sweep_s=0.1, attempts=100)
    async with stand(tmp_path, timing=timing) as case:
        relay = case.relay
        other = await relay.relay.create_room("Other", relay.owner, (relay.agent,))
        asked = {"": await relay.say("echo one"), other: await relay.say("echo two", room=other)}
        held = trio.Event()
        fault = case.plan(POLL, method="GET", drop=True, hold=held)
        case.launch()
        with trio.fail_after(60):
            await fault.reached.wait()
        for source in asked.values():
            (task,) = await relay.relay.tasks_of(source)
            assert task.attempt >= 1  # it was served
        await case.kill()
        held.set()
        assert await trio.to_thread.run_sync(open_rows, case.journal) == 0
        await case.start()
        for source in asked.values():
            await case.closed(source)
        await case.settled()
        assert await case.texts() == ["echo one"]
        assert await case.texts(other) == ["echo two"]
        assert sorted(case.prompts()) == ["echo one", "echo two"]
        for source in asked.values():
            (task,) = await relay.relay.tasks_of(source)
            assert task.attempt >= 2


async def file_case(folder: Path, path: str, *, applied: bool, late: bool) -> None:
    """An answer with a file, killed around a call."""
    async with stand(folder) as case:
        pending = int(path == RESULT)
        source = await killed_at(case, FILE, path, applied=applied, late=late, pending=pending)
        await start_again(case, pending)
        await case.closed(source)
        await case.settled()
        await the_file_is_there_once(case)


async def the_file_is_there_once(case: Stand) -> None:
    """One file, one answer that does not deny it, one message where the placeholder was."""
    found = await case.mine()
    assert len([m for m in found if m.kind == "file"]) == 1
    texts = await case.texts()
    assert [text for text in texts if "here it is" in text] == [f"{FILE}: here it is"]
    assert PLACEHOLDER not in texts
    assert len(texts) == 2  # the placeholder turned pointer, and the answer
    assert not any("not sent" in text for text in texts)


async def test_killed_around_a_file_post_shows_the_file_once(tmp_path: Path) -> None:
    """Recorded before it is posted, and posted under one key: a restart finds its own post."""
    await together(
        partial(file_case, tmp_path / "before", UPLOAD, applied=False, late=False),
        partial(file_case, tmp_path / "after", UPLOAD, applied=True, late=False),
        partial(file_case, tmp_path / "late", UPLOAD, applied=False, late=True),
        partial(file_case, tmp_path / "result", RESULT, applied=True, late=False),
    )
