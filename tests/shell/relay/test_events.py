"""The event channel: resumes where its sink stands, and touches nothing else when it fails."""

import itertools
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio
import trio.testing

from agentconnect.core.relay.sse import Event
from tests.shell.relay.minutes import Minutes
from tests.shell.relay.rig import Rig, running
from tests.support.fake_broker import Answer, FakeBroker, open_broker, wire_task

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


@dataclass
class Memory:
    """A sink that keeps what it is given."""

    cursor: int | None = None
    events: list[Event] = field(default_factory=list)
    fails: int = 0

    def durable_cursor(self) -> int | None:
        return self.cursor

    async def commit(self, event: Event) -> None:
        await trio.lowlevel.checkpoint()
        if self.fails:
            self.fails -= 1
            raise OSError("no space")
        self.events.append(event)
        self.cursor = event.cursor


def stream(*frames: str) -> Answer:
    return Answer(raw=HEAD + "".join(frames).encode())


def status(rig: Rig) -> str:
    assert rig.relay.events is not None
    return rig.relay.events.status


async def test_the_channel_is_off_unless_asked_for(tmp_path: Path) -> None:
    """No stream is opened."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        await rig.state("connected")
        assert rig.relay.events is None
        assert broker.of("events/stream") == []


async def test_a_new_connection_goes_on_after_the_last_kept_event(tmp_path: Path) -> None:
    """The sink's cursor is sent; what could not be kept is asked for again."""
    sink = Memory(cursor=4, fails=1)
    async with open_broker() as broker:
        frame = 'id: 5\ndata: {"type":"message"}\n\n'
        broker.script("events/stream", stream(frame), stream(frame, "id: 6\ndata: {}\n\n"))
        broker.always("events/stream", Answer(503))
        async with running(broker, tmp_path, events=sink) as rig:
            await rig.until(lambda: sink.cursor == 6)
            asked = await broker.seen("events/stream", 3)
            heads = [request.headers.get("last-event-id") for request in asked[:3]]
            assert heads == ["4", "4", "6"]
            assert asked[0].headers["accept"] == "text/event-stream"
            assert [event.fields.get("type") for event in sink.events] == ["message", None]


async def test_a_broken_frame_is_skipped_and_passed(tmp_path: Path) -> None:
    """The channel goes on behind it, and does not read it again; a far id is not believed."""
    sink = Memory(cursor=10)
    async with open_broker() as broker:
        broker.script(
            "events/stream",
            stream("id: 11\ndata: {broken\n\n", "id: 5000\ndata: []\n\n"),
            Answer(503),
        )
        broker.always("events/stream", Answer(503))
        async with running(broker, tmp_path, events=sink) as rig:
            asked = await broker.seen("events/stream", 2)
            assert asked[1].headers["last-event-id"] == "11"
            assert rig.relay.events is not None
            assert rig.relay.events.skipped == 2


@pytest.mark.parametrize(("answer", "word"), [(Answer(404), "fatal"), (Answer(403), "auth_failed")])
async def test_a_refused_channel_ends_without_touching_the_tasks(
    tmp_path: Path, answer: Answer, word: str
) -> None:
    """No route, or a refusal without a token file: the channel alone stops."""
    async with open_broker() as broker:
        broker.always("events/stream", answer)
        async with running(broker, tmp_path, events=Memory()) as rig:
            await rig.until(lambda: status(rig) == word)
            await works(rig, broker)
            assert len(broker.of("events/stream")) == 1
            assert rig.relay.snapshot().state == "connected"


async def test_a_stream_that_is_dropped_at_once_is_not_hammered(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """Accept and drop, without a frame: the waits grow although each connection came about."""
    minutes = Minutes(mock_clock)
    async with open_broker() as broker:
        broker.always("events/stream", stream())
        async with running(broker, tmp_path, events=Memory()) as rig:
            minutes.rig = rig
            await minutes.go(300)
            asked = [request.at for request in broker.of("events/stream")]
            waits = [after - before for before, after in itertools.pairwise(asked)]
            assert waits[:2] == [1.0, 2.0]
            assert all(after > before for before, after in itertools.pairwise(waits[:6]))
            assert 8 <= len(asked) <= 14
            broker.serve(wire_task("t1"))
            await minutes.until(lambda: bool(rig.taken), 5)


async def works(rig: Rig, broker: FakeBroker) -> None:
    broker.serve(wire_task("t1"))
    await rig.tasks()
