"""The client against the relay that ships: the same promises on a real broker."""

from pathlib import Path
from typing import Any

import pytest

from agentconnect.core.relay.credential import build
from agentconnect.core.relay.journal import State
from agentconnect.embedded.faults import Fault, Faults
from agentconnect.embedded.timing import Timing
from tests.shell.relay import rig as rig_module
from tests.shell.relay.rig import Rig
from tests.support.relay import Clock, Relay, running_relay


def running(relay: Relay, state_dir: Path, **config: Any) -> Any:
    """Our client as the relay's first agent."""
    return rig_module.running(relay, state_dir, credential=build(token=relay.token), **config)


async def _done(rig: Rig, task_id: Any) -> None:
    await rig.until(lambda: _is(rig, task_id, State.DONE))


def _is(rig: Rig, task_id: Any, state: State) -> bool:
    entry = rig.journal.entry(task_id)
    return entry is not None and entry.state is state


async def test_a_message_becomes_a_task_and_its_answer_one_message(tmp_path: Path) -> None:
    """Placeholder, edit, archive copy: the room shows one message."""
    async with running_relay(tmp_path / "relay") as relay, running(relay, tmp_path / "ws") as rig:
        await relay.say("hello there")
        (task,) = await rig.tasks()
        assert (task.body, task.access_tier, task.room_id) == ("hello there", "owner", relay.room)
        placed = await rig.relay.rooms.message(task.room_id, "⏳ On it...", key=f"task/{task.id}")
        assert (await rig.relay.rooms.edit(task.room_id, placed.event_id, "hi")).ok
        await rig.relay.results.complete(task, "[REPLIED]\n\nhi", base_dir="/")
        await _done(rig, task.id)
        assert await relay.bodies() == ["hello there", "hi"]


@pytest.mark.parametrize("fault", ["drop", "cut", "status"])
async def test_lost_calls_show_nothing_twice(tmp_path: Path, fault: str) -> None:
    """Placeholder, edit, upload and result each fail once; one message, one file, one answer."""
    faults = Faults()
    how: dict[str, Any] = {"status": 503} if fault == "status" else {fault: True}
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_bytes(b"alpha")
    async with (
        running_relay(tmp_path / "relay", faults=faults) as relay,
        running(relay, tmp_path / "ws", egress_roots=(str(project),)) as rig,
    ):
        await relay.say("go")
        (task,) = await rig.tasks()
        for path in ("/messages", "/v1/room", "/media", "/v1/results"):
            faults.plan(Fault(method="POST", path=path, **how))
        placed = await rig.relay.rooms.message(task.room_id, "⏳ On it...", key=f"task/{task.id}")
        assert placed.ok
        assert (await rig.relay.rooms.edit(task.room_id, placed.event_id, "see below")).ok
        await rig.relay.results.complete(task, "done [file: a.txt]", base_dir=str(project))
        await _done(rig, task.id)
        assert await relay.bodies() == ["go", "see below", "", "done"]


async def test_a_picture_comes_with_its_task(tmp_path: Path) -> None:
    """Bytes posted on the page are a file of ours at hand-over."""
    async with running_relay(tmp_path / "relay") as relay, running(relay, tmp_path / "ws") as rig:
        async with relay.visitor() as page:
            answer = await page.post(
                f"/page/rooms/{relay.room}/media?name=pic.png&caption=look",
                content=b"\x89PNG\r\n",
                headers={"Content-Type": "image/png", "Origin": relay.relay.origin},
            )
            assert answer.status_code == 200, answer.text
        (task,) = await rig.tasks()
        assert "ag2space-media" not in task.body
        (attachment,) = task.attachments
        assert attachment.ok, attachment.reason
        assert Path(attachment.path).read_bytes() == b"\x89PNG\r\n"  # noqa: ASYNC240


async def test_a_killed_workers_task_goes_on_under_its_placeholder(tmp_path: Path) -> None:
    """The lease is still held by the bearer, so the journal must bring the task back."""
    async with running_relay(tmp_path / "relay") as relay:
        async with running(relay, tmp_path / "ws") as rig:
            await relay.say("long work")
            (task,) = await rig.tasks()
            placed = await rig.relay.rooms.message(relay.room, "⏳ On it...", key=task.id)
            await rig.journal.placed(task.id, placed.event_id)
        async with running(relay, tmp_path / "ws") as rig:
            (task,) = await rig.tasks()
            event = rig.journal.progress(task.id).placeholder
            assert (await rig.relay.rooms.edit(relay.room, event, "finished")).ok
            await rig.relay.results.complete(task, "[REPLIED]\n\nfinished", base_dir="/")
            await _done(rig, task.id)
        assert await relay.bodies() == ["long work", "finished"]


async def test_a_long_turn_keeps_its_lease(tmp_path: Path) -> None:
    """Acked and polled for, a task outlives many windows and is served once."""
    clock = Clock()
    timing = Timing(wall=clock, sweep_s=0.02)
    async with (
        running_relay(tmp_path / "relay", timing=timing) as relay,
        running(relay, tmp_path / "ws", poll_wait_s=1) as rig,
    ):
        await relay.say("slow")
        (task,) = await rig.tasks()
        for _ in range(4):
            await rig.until(lambda: relay.relay.open_polls(relay.agent) == 1)
            clock.forward(timing.visibility_s + 1)
            polls = _polls(relay)
            await rig.until(lambda polls=polls: _polls(relay) > polls)
        await rig.relay.results.complete(task, "done", base_dir="/")
        await _done(rig, task.id)
        assert len(rig.taken) == 1
        assert await relay.bodies() == ["slow", "done"]


def _polls(relay: Relay) -> int:
    return len([path for _, path in relay.faults.seen if path.endswith("/v1/tasks")])


async def test_a_relay_that_restarts_is_found_again(tmp_path: Path) -> None:
    """Down for a moment, back with a new secret in the token file: the answer arrives."""
    token_file = tmp_path / "config.env"
    async with running_relay(tmp_path / "relay") as relay:
        port = int(relay.base.split(":")[2].split("/")[0])
        credential = build(token=relay.token)
        await relay.say("before")
        async with rig_module.running(relay, tmp_path / "ws", credential=credential) as rig:
            await rig.tasks()
    async with rig_module.running(
        relay, tmp_path / "ws", credential=credential, token_file=token_file
    ) as rig:
        (task,) = await rig.tasks()
        await rig.relay.results.complete(task, "answered while you were away", base_dir="/")
        await rig.state("reconnecting", error=True)
        async with running_relay(tmp_path / "relay", port=port) as relay:
            token_file.write_text(f"AGENT_CONNECT_TOKEN={relay.token}\n")
            await _done(rig, task.id)
            assert await relay.bodies() == ["before", "answered while you were away"]
