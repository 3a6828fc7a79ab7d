"""What a relay is told of the worker between tasks."""

import json
from pathlib import Path

from tests.support.relay import running_relay
from tests.support.worker import running_worker, until


async def test_the_relay_is_told_that_a_worker_waits(tmp_path: Path) -> None:
    """The first heartbeat of one that has nothing in hand says so."""
    async with running_relay(tmp_path / "relay") as relay, running_worker(relay.token, tmp_path):

        async def told() -> bool:
            beat: dict[str, str] = json.loads(await relay.relay.heartbeat_of(relay.agent) or "{}")
            return "idle" == beat.get("status")

        await until(told, "a heartbeat that says idle")
