"""One call fails or its response is lost: the room shows what it would have shown without that."""

from functools import partial
from pathlib import Path
from typing import Any

from tests.e2e.faults.stand import (
    ACK,
    EDIT,
    PLACE,
    RESULT,
    UPLOAD,
    Stand,
    stand,
    together,
)
from tests.e2e.faults.test_kills import FILE, the_file_is_there_once
from tests.support.worker import until

REQUEST = "echo this back"
WAYS: dict[str, dict[str, Any]] = {
    "lost": {"drop": True},
    "cut": {"cut": True},
    "500": {"status": 500},
    "garbage": {"status": 200, "body": b"<html>an edge</html>"},
}


async def one_answer(folder: Path, path: str, how: dict[str, Any]) -> None:
    """Ask once under a fault: one message, the answer; nothing owed; the agent asked once."""
    async with stand(folder) as case:
        fault = case.plan(path, **how)
        await case.start()
        source = await case.relay.say(REQUEST)
        await until(lambda: fault.times <= 0, "every planned failure")
        await case.closed(source)
        await case.settled()
        assert await case.texts() == [REQUEST]
        assert case.prompts() == [REQUEST]


async def each_way(tmp_path: Path, path: str, *, times: int = 1) -> None:
    """Every kind of failure of one call."""
    await together(
        *(
            partial(one_answer, tmp_path / name, path, {**how, "times": times})
            for name, how in WAYS.items()
        )
    )


async def test_a_result_whose_response_was_lost_is_posted_once(tmp_path: Path) -> None:
    """The repeat meets the relay's dedup; three failures in a row are no more than a delay."""
    await each_way(tmp_path, RESULT, times=3)


async def test_a_final_edit_whose_response_was_lost_is_not_posted_again(tmp_path: Path) -> None:
    """The edit is repeated, the answer stays one message."""
    await each_way(tmp_path, EDIT)


async def test_a_placeholder_whose_response_was_lost_does_not_stay(tmp_path: Path) -> None:
    """The keyed repeat finds the same message; the answer takes it over."""
    await each_way(tmp_path, PLACE)


async def test_a_lost_ack_is_sent_again(tmp_path: Path) -> None:
    """The lease does not die of it: the task is served once and stays acked."""
    async with stand(tmp_path) as case:
        case.plan(ACK, status=503, times=2)
        await case.start()
        source = await case.relay.say("wait go now")
        await case.asked("wait go now")

        async def acked() -> bool:
            (task,) = await case.relay.relay.tasks_of(source)
            return bool(task.acked)

        await until(acked, "an ack after two failed ones")
        case.let("go")
        await case.closed(source)
        (task,) = await case.relay.relay.tasks_of(source)
        assert task.attempt == 1


async def file_once(folder: Path, how: dict[str, Any]) -> None:
    """Ask for a file while its upload fails once."""
    async with stand(folder) as case:
        case.plan(UPLOAD, **how)
        await case.start()
        source = await case.relay.say(FILE)
        await case.closed(source)
        await case.settled()
        await the_file_is_there_once(case)


async def test_an_upload_whose_response_was_lost_is_one_file_and_no_false_sentence(
    tmp_path: Path,
) -> None:
    """The file is posted again under its key; the answer does not say that it was not sent."""
    await together(*(partial(file_once, tmp_path / n, how) for n, how in WAYS.items()))


async def test_one_failed_room_op_costs_other_rooms_nothing(tmp_path: Path) -> None:
    """A failing edit in one room, and another room keeps its placeholder and its edit."""
    async with stand(tmp_path) as case:
        relay = case.relay
        other = await relay.relay.create_room("Other", relay.owner, (relay.agent,))
        await case.start()
        case.plan(EDIT, status=500, times=2)
        first = await relay.say(REQUEST)
        await case.closed(first)
        second = await relay.say("the other one", room=other)
        await case.closed(second)
        await case.settled()
        assert await case.texts() == [REQUEST]
        assert await case.texts(other) == ["the other one"]
        assert [m.edited for m in await case.mine(other)] == [True]


async def refused_room(folder: Path, status: int) -> None:
    """One room refuses everything; the worker goes on in the other one and keeps its bearer."""
    async with stand(folder) as case:
        relay = case.relay
        other = await relay.relay.create_room("Other", relay.owner, (relay.agent,))
        await case.start()
        case.plan(PLACE, status=status)
        source = await relay.say(REQUEST)
        await case.closed(source)
        await case.settled()
        assert await case.texts() == [REQUEST]
        assert await ask(case, "the other one", other) == ["the other one"]
        assert [m.edited for m in await case.mine(other)] == [True]
        assert case.of_relay("state") == "connected"


async def ask(case: Stand, request: str, room: str) -> list[str]:
    """Ask and wait; what the agent has in the room then."""
    await case.closed(await case.relay.say(request, room=room))
    await case.settled()
    return await case.texts(room)


async def test_a_403_or_404_in_one_room_is_no_revoked_bearer(tmp_path: Path) -> None:
    """The answer arrives as the result; the rest of the worker does not notice."""
    await together(*(partial(refused_room, tmp_path / str(s), s) for s in (403, 404, 400)))


async def test_one_failed_progress_edit_is_mended_by_the_next(tmp_path: Path) -> None:
    """A step that could not be shown costs that step: the same message becomes the answer."""
    async with stand(tmp_path) as case:
        await case.start(AGENT_CONNECT_PROGRESS_THROTTLE="0.1")
        refused = case.plan(EDIT, status=500, times=3)
        source = await case.relay.say("steps go now")
        await until(lambda: refused.times <= 0, "a step that could not be shown")

        async def next_step() -> bool:
            return any("\n\n" in text for text in await case.texts())

        await until(next_step, "the next step in the same message")
        (before,) = await case.mine()
        case.let("go")
        await case.closed(source)
        await case.settled()
        (after,) = await case.mine()
        assert after.event_id == before.event_id
        assert after.body.startswith("steps go now")
