"""What the daemon does when nothing comes: a stream beats, a Notify has an end."""

import os
from pathlib import Path

import msgspec
import trio

from agentconnect.channels.link import spawner
from agentconnect.channels.manager import ChannelWorkers
from tests.shell.channels.rig import QUICK, Slow, hook
from tests.support.daemon import NOTIFY, TARGET, Api, running, until
from tests.support.http_client import EventStream
from tests.support.raw_server import raw_server

HEARTBEAT_S = 15.0
LONG_S = 3600.0


async def test_a_quiet_stream_beats_every_fifteen_seconds(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """Counted from the last frame; a beat has no number, and events go on behind it."""

    async def event(api: Api, session: str, stream: EventStream) -> object:
        prompt = {"prompt": [{"type": "text", "text": "hi"}]}
        assert 202 == (await api.call("POST", f"/session/{session}/prompt", prompt)).status
        return (await stream.next(LONG_S))["id"]

    async def passed(seconds: float) -> None:
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(seconds)

    async with running(tmp_path, wait_s=LONG_S) as api:
        session = await api.session()
        async with api.events(session) as stream:
            assert 1 == await event(api, session, stream)
            await passed(HEARTBEAT_S - 0.1)
            assert 2 == await event(api, session, stream)
            for _ in range(2):
                await passed(HEARTBEAT_S + 0.1)
                assert ": heartbeat" == (await stream.next(LONG_S))["raw"]
            assert 3 == await event(api, session, stream)
        mock_clock.rate = 1  # ends as ever


async def test_a_notify_that_is_answered_too_late(tmp_path: Path) -> None:
    """504, the outcome unknown; the late answer changes nothing, and the next call gets its own."""
    slow = Slow()
    async with raw_server(slow) as server:
        channels = {"main": {TARGET["channelName"]: hook(server.port)}}
        with spawner(os.environ) as spawn:
            pace = msgspec.structs.replace(QUICK, answer_s=3.0)
            workers = ChannelWorkers(channels, spawn, pace=pace)

            def count(name: str) -> object:
                block = workers.status()["main"]
                assert isinstance(block, dict)
                return block[name]

            async with running(tmp_path, workers=workers) as api:
                await workers.settled()
                late = await api.call("POST", "/workspace/notify", NOTIFY)
                assert (504, "channel_delivery_timeout") == (late.status, late.code)
                assert (1, 0, 1) == (slow.asked, count("in_flight"), count("failed"))
                slow.open.set()
                following = await api.call("POST", "/workspace/notify", NOTIFY)
                assert 200 == following.status, following.body
                await until(lambda: count("in_flight") == 0)
                assert (2, 1, 1) == (slow.asked, count("delivered"), count("failed"))
                assert "running" == count("state")
