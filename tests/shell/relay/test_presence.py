"""Heartbeats: what they carry, how rarely they ask a relay that has none, and when they rest."""

import json
from itertools import pairwise
from pathlib import Path

import trio
import trio.testing

from agentconnect.relay.heartbeat import Heartbeat
from agentconnect.relay.http import Http
from tests.shell.relay.minutes import Minutes
from tests.shell.relay.rig import running
from tests.support.fake_broker import Answer, open_broker, wire_task


async def test_a_heartbeat_says_what_is_known_and_no_more(tmp_path: Path) -> None:
    """A blank status is left out: null would erase what the relay knows."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        body = (await broker.seen("heartbeat"))[0].body
        assert body == {
            "client": "agentconnect",
            "package_version": "0",
            "protocol_version": 1,
            "tier": "owner",
            "inflight": 0,
            "capabilities": ["task-ack", "heartbeat", "result-skip-markers", "reject"],
        }
        rig.relay.tell_status(lambda: " reading\r\nfiles " + "x" * 600)
        said = json.loads(rig.relay._heartbeat._call().content or b"")
        assert said == {**body, "status": "reading  files " + "x" * 485}


async def test_a_relay_without_heartbeats_is_asked_later_and_later(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """After one 404 they are not off for good (★18): 60 s, 120 s, up to half an hour."""
    minutes = Minutes(mock_clock)
    async with open_broker() as broker:
        broker.always("heartbeat", Answer(404))
        broker.poll_hold_s = 20.0
        async with running(broker, tmp_path) as rig:
            minutes.rig = rig
            await minutes.until(lambda: len(broker.of("heartbeat")) == 4, 3000)
            waits = [b.at - a.at for a, b in pairwise(broker.of("heartbeat"))]
            assert waits[0] >= 60
            assert waits[1] >= 120
            assert waits[2] >= 240


async def test_nothing_is_announced_while_another_client_polls() -> None:
    """Two clients announcing one bearer is the split brain."""
    async with open_broker() as broker:
        http = Http(broker.base, lambda: broker.secret)
        allowed = False
        heartbeat = Heartbeat(http, version="0", inflight=lambda: 0, allowed=lambda: allowed)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(heartbeat.run)
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert broker.requests == []
            nursery.cancel_scope.cancel()
        await http.aclose()


async def test_in_flight_is_what_is_accepted_or_owed(tmp_path: Path) -> None:
    """The relay schedules by it."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.serve(wire_task("t1"), wire_task("t2"))
        await rig.tasks(2)
        assert b'"inflight":2' in (rig.relay._heartbeat._call().content or b"")
