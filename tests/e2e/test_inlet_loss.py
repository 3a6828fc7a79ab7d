"""A worker that can take no more tasks says so at once, and ends: `serving` is no lie."""

import json
import time
from pathlib import Path

from tests.support.relay import running_relay
from tests.support.worker import running_worker, until


async def test_a_displaced_worker_ends_with_an_error_and_finishes_what_it_has(
    tmp_path: Path,
) -> None:
    """While the last turn is delivered the status is `error` already; so it stays."""
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path) as worker,
    ):
        asked = await relay.say("hello")
        assert await relay.relay.answer_to(asked)
        stranger = {"owner": "f" * 32, "pid": 1, "host": "h", "heartbeat_ts": time.time()}
        guard = worker.state_dir / "relay" / "default" / "poller.lock"
        guard.write_text(json.dumps(stranger))
        await relay.say("wait 2")  # the poll in flight comes back, and the guard is asked
        states: list[str] = []

        def ended() -> bool:
            states.append(worker.status["state"])
            return worker.process.poll() is not None

        await until(ended, "the worker's end")
        assert worker.process.returncode == 1
        first = states.index("error")
        assert set(states[first:]) == {"error"}
        status = worker.status
        assert "took over" in status["detail"]
        assert status["relay"]["state"] == "displaced"
        assert json.loads(guard.read_text()) == stranger
