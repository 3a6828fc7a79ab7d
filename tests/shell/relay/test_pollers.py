"""One poller per bearer: over state folders, through rotations, stops and kills."""

import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from agentconnect.core.relay.credential import build
from agentconnect.core.relay.guard import claim_name
from tests.shell.relay.minutes import Minutes
from tests.shell.relay.rig import running
from tests.support.fake_broker import open_broker, wire_task

HOLDER = """
import sys, time
from pathlib import Path
import trio
from agentconnect.core.relay.credential import build
from agentconnect.relay.claim import BearerClaim

async def main():
    credential = build(token=sys.argv[2])
    assert await BearerClaim(Path(sys.argv[1]), lambda: credential).hold()
    print("held", flush=True)
    await trio.sleep_forever()

trio.run(main)
"""


@asynccontextmanager
async def holder(claims: Path, token: str) -> AsyncIterator[subprocess.Popen[bytes]]:
    """Another process that uses the bearer, until it is killed."""
    argv = [sys.executable, "-c", HOLDER, str(claims), token]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            await trio.to_thread.run_sync(process.stdout.readline)
            yield process
        finally:
            process.kill()


async def test_two_state_folders_with_one_token_do_not_split_the_stream(tmp_path: Path) -> None:
    """One polls, the other stands by and sends nothing; after the stop it takes over by itself."""
    claims = tmp_path / "claims"
    async with open_broker() as broker, trio.open_nursery() as nursery:
        stop_first = trio.CancelScope()
        first_up = trio.Event()

        async def first() -> None:
            with stop_first:
                async with running(broker, tmp_path / "a", claims_dir=claims) as rig:
                    await rig.state("connected")
                    first_up.set()
                    await trio.sleep_forever()

        nursery.start_soon(first)
        await first_up.wait()
        async with running(broker, tmp_path / "b", claims_dir=claims) as second:
            status = await second.state("standby")
            assert status.recheck_s > 0
            assert (status.singleton, status.backoff_s, status.error) == ("lost", 0, None)
            assert len(broker.of("heartbeat")) == 1
            stop_first.cancel()
            await second.state("connected")
            broker.serve(wire_task("t1"))
            await second.tasks()
            assert second.relay.snapshot().recheck_s == 0
    assert list(claims.iterdir()) == []


async def test_a_killed_holder_frees_the_bearer_at_once(tmp_path: Path) -> None:
    """The kernel lets go of the lock: the next look finds it free."""
    claims = tmp_path / "claims"
    async with (
        open_broker() as broker,
        holder(claims, f"{broker.base}|{broker.secret}") as process,
        running(broker, tmp_path / "b", claims_dir=claims) as rig,
    ):
        await rig.state("standby")
        assert broker.requests == []
        process.send_signal(signal.SIGKILL)
        await rig.state("connected")


@pytest.mark.parametrize("stood_by_s", [0.0, 7.3, 120.0])
async def test_a_dead_holders_bearer_is_taken_over_within_15_seconds(
    tmp_path: Path, mock_clock: trio.testing.MockClock, stood_by_s: float
) -> None:
    """From its death to our poll, by a clock that only we move; before it nothing is sent."""
    minutes = Minutes(mock_clock)
    claims = tmp_path / "claims"
    async with (
        open_broker() as broker,
        holder(claims, f"{broker.base}|{broker.secret}") as process,
        running(broker, tmp_path / "b", claims_dir=claims) as rig,
    ):
        minutes.rig = rig
        await minutes.go(stood_by_s)
        now = rig.relay.snapshot()
        assert (now.state, now.recheck_s <= 15) == ("standby", True)
        assert broker.requests == []
        process.send_signal(signal.SIGKILL)
        await trio.to_thread.run_sync(process.wait)
        await minutes.until(lambda: rig.relay.snapshot().connected, 15)


async def test_a_strangers_record_is_taken_over_within_15_seconds_of_going_stale(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """One without our lock, as the reference leaves it: not a second before, and soon after."""
    minutes = Minutes(mock_clock)
    began = time.time()
    record = {"owner": "f" * 32, "heartbeat_ts": began}
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        rig.relay._guard._wall_now = lambda: began + mock_clock.current_time()
        rig.layout.guard.write_text(json.dumps(record))
        minutes.rig = rig
        await minutes.go(149)
        now = rig.relay.snapshot()
        assert (now.state, now.recheck_s <= 15, broker.requests) == ("standby", True, [])
        assert await minutes.until(lambda: rig.relay.snapshot().connected, 16) >= 1


async def test_another_token_is_another_bearer(tmp_path: Path) -> None:
    """The lock is named by gateway and secret together, and says nothing of either."""
    names = {claim_name(gateway, secret) for gateway in ("g", "h") for secret in ("s", "t")}
    assert len(names) == 4
    assert {len(name) for name in names} == {32}
    async with open_broker() as broker, running(broker, tmp_path, claims_dir=tmp_path / "c") as rig:
        await rig.state("connected")
        (file,) = (tmp_path / "c").iterdir()
        assert file.name == claim_name(broker.base, broker.secret)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.read_text() == f"{os.getpid()}\n"


async def test_a_claim_that_cannot_be_made_silences_nobody(tmp_path: Path) -> None:
    """A file where the folder should be: polling all the same."""
    (tmp_path / "claims").write_text("")
    claims = tmp_path / "claims"
    async with open_broker() as broker, running(broker, tmp_path, claims_dir=claims) as rig:
        await rig.state("connected")


async def test_a_rotation_to_a_secret_that_another_one_polls_with_makes_us_stand_by(
    tmp_path: Path,
) -> None:
    """Not displaced for good: when the other one ends, polling goes on."""
    claims = tmp_path / "claims"
    claims.mkdir()
    token_file = tmp_path / "config.env"
    async with open_broker() as broker:
        broker.poll_hold_s = 0.2
        token_file.write_text(f"AGENT_CONNECT_TOKEN={broker.base}|{broker.secret}\n")
        taken = os.open(claims / claim_name(broker.base, "second"), os.O_RDWR | os.O_CREAT)
        fcntl.flock(taken, fcntl.LOCK_EX)
        async with running(
            broker,
            tmp_path / "ws",
            claims_dir=claims,
            token_file=token_file,
            credential=build(file_text=token_file.read_text()),
        ) as rig:
            await rig.state("connected")
            token_file.write_text(f"AGENT_CONNECT_TOKEN={broker.base}|second\n")
            await rig.state("standby")
            broker.secret = "second"
            rig.statuses.clear()
            os.close(taken)
            await rig.state("connected")
            assert rig.failure is None


async def test_a_clock_set_forward_makes_the_guard_look_again(tmp_path: Path) -> None:
    """A machine that slept has a young verdict by one clock only: before the poll it is asked."""
    async with open_broker() as broker:
        broker.poll_hold_s = 0.05
        async with running(broker, tmp_path) as rig:
            await rig.state("connected")
            rig.relay._guard._wall_now = lambda: time.time() + 3600
            record = {"owner": "f" * 32, "heartbeat_ts": time.time() + 3600}
            rig.layout.guard.write_text(json.dumps(record))
            leased = len(broker.of("tasks"))
            with trio.fail_after(60):
                while rig.failure is None:
                    await rig.changed.wait()
            assert len(broker.of("tasks")) <= leased + 1


async def test_a_stopped_client_frees_record_and_bearer(tmp_path: Path) -> None:
    """The record first, the bearer last; whoever waits for the one finds the other free."""
    async with open_broker() as broker:
        async with running(broker, tmp_path, claims_dir=tmp_path / "c") as rig:
            await rig.state("connected")
        assert rig.layout.guard.read_text() == ""
        assert list((tmp_path / "c").iterdir()) == []


async def test_a_poller_that_hangs_is_not_called_alive(tmp_path: Path) -> None:
    """A supervisor's watchdog is fed by the loop's own progress, not by a timer."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        await rig.state("connected")
        assert rig.relay.alive
        rig.relay._poller.progress_at -= 91
        assert not rig.relay.alive
        broker.serve(wire_task("t1"))
        await rig.tasks()
        await rig.until(lambda: rig.relay.alive)
