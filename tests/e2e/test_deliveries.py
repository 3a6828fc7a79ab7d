"""Late results over real processes: worker, listener, demonstration agent, embedded relay."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.e2e.test_worker import ask, from_agent
from tests.support.relay import Relay, running_relay
from tests.support.worker import Worker, alive, children_of, running_worker, until

ASKED = "build a report about tides in the background in 1 second and send me the report"


def _record(worker: Worker) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "agentconnect", "deliveries", "--json"],
        env={"AGENT_CONNECT_WORKSPACE": str(worker.state_dir), "HOME": str(worker.state_dir)},
        capture_output=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)["deliveries"]
    return found


def _block(worker: Worker) -> dict[str, Any]:
    found: dict[str, Any] = worker.status.get("delivery") or {}
    return found


async def _came(relay: Relay, count: int = 1) -> None:
    async def there() -> bool:
        late = [m for m in await from_agent(relay) if m.body.startswith("What you asked for")]
        return len(late) == count

    await until(there, "the late result")


async def _ended(worker: Worker) -> None:
    def recorded() -> bool:
        return [entry["outcome"] for entry in _record(worker).values()] == ["delivered"]

    await until(recorded, "the end in the record")


async def test_a_report_that_comes_after_its_turn(tmp_path: Path) -> None:
    """File and text, once, by the listener; the record and the status file say so."""
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path) as worker,
    ):
        await until(lambda: _block(worker).get("listener") == "up", "the listener")
        assert "I am on it" in await ask(relay, ASKED)
        await _came(relay)
        await _ended(worker)  # a moment after the room has it
        (entry,) = _record(worker).values()
        assert ["file", "text"] == [part["kind"] for part in entry["parts"]]
        assert relay.room == entry["room"]
        await until(lambda: _block(worker)["last_delivered_at"] is not None, "the block")
        await until(lambda: _block(worker)["in_progress"] == 0, "the block")
        assert ("enabled", 1) == (_block(worker)["state"], _block(worker)["bindings"])
        assert 0o700 == (worker.state_dir / "export").stat().st_mode & 0o777


async def test_a_listener_that_dies_is_started_again(tmp_path: Path) -> None:
    """What an agent queued meanwhile comes by the next one."""
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path) as worker,
    ):
        await until(lambda: _block(worker).get("listener") == "up", "the listener")
        listener = max(children_of(worker.process.pid))
        subprocess.run(["kill", "-9", str(listener)], check=True)
        await until(lambda: not alive(listener), "its end")
        assert "I am on it" in await ask(relay, ASKED)
        await _came(relay)


async def test_a_killed_worker_delivers_after_its_start(tmp_path: Path) -> None:
    """Queued before the kill, in the room once after it."""
    async with running_relay(tmp_path / "relay") as relay:
        async with running_worker(relay.token, tmp_path) as worker:
            await until(lambda: _block(worker).get("listener") == "up", "the listener")
            assert "I am on it" in await ask(relay, ASKED.replace("1 second", "3 seconds"))
            await worker.kill()
        async with running_worker(relay.token, tmp_path) as worker:
            await _came(relay)
            await _ended(worker)


async def test_a_stop_ends_the_listener_too(tmp_path: Path) -> None:
    """In order and within its time; no process is left."""
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path) as worker,
    ):
        await until(lambda: _block(worker).get("listener") == "up", "the listener")
        children = worker.children()
        assert 0 == await worker.stop(signal.SIGTERM)
        assert [] == [pid for pid in children if alive(pid)]
        assert "down" == _block(worker)["listener"]
        assert "Traceback" not in worker.output()


async def test_an_export_folder_inside_a_root(tmp_path: Path) -> None:
    """Not offered, and the status file says what to do; the worker serves all the same."""
    (tmp_path / "workspace").mkdir()
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path, AGENT_CONNECT_REPO=str(tmp_path)) as worker,
    ):
        await until(lambda: bool(_block(worker).get("reason")), "the reason")
        await until(lambda: "lies inside" in _block(worker)["reason"], "the reason")
        assert "demonstration" in await ask(relay, "hello")
        assert {} == _record(worker)
