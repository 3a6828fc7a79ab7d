"""A rotated token: every caller has it without a restart; a move to another gateway is refused."""

import logging
from pathlib import Path
from typing import Any

import pytest

from agentconnect.core.relay.credential import build
from tests.shell.relay.rig import Rig, running
from tests.support.fake_broker import FakeBroker, open_broker, wire_task


def write(path: Path, broker: FakeBroker, secret: str, base: str = "") -> None:
    path.write_text(f"# mine\nAGENT_CONNECT_TOKEN={base or broker.base}|{secret}\n")


def config(path: Path, **more: Any) -> dict[str, Any]:
    return {"credential": build(file_text=path.read_text()), "token_file": path, **more}


async def answered(rig: Rig, broker: FakeBroker, name: str) -> None:
    """Serve one task and see its answer arrive."""
    broker.serve(wire_task(name))
    await rig.until(lambda: name in [task.id for task in rig.taken])
    await rig.relay.results.complete(rig.taken[-1], "x", base_dir="/")
    await broker.until(lambda: name in broker.results)


async def test_a_rotation_reaches_a_worker_that_nobody_rejected_yet(tmp_path: Path) -> None:
    """The file is watched while all is well: the next calls carry the new secret."""
    file = tmp_path / "config.env"
    async with open_broker() as broker:
        broker.poll_hold_s = 0.3
        write(file, broker, broker.secret)
        told: list[str] = []
        settings = config(file, on_rotated=told.append)
        async with running(broker, tmp_path / "ws", **settings) as rig:
            await rig.state("connected")
            broker.secret = "second"
            write(file, broker, "second")
            await rig.until(lambda: told == ["second"])
            await answered(rig, broker, "t1")
            calls = [r for r in broker.of("results") if r.headers["authorization"][7:] == "second"]
            assert calls
            assert rig.failure is None


async def test_a_401_on_a_result_is_healed_by_the_file(tmp_path: Path) -> None:
    """A call other than the poll was rejected: the file is looked at, the answer arrives."""
    file = tmp_path / "config.env"
    async with open_broker() as broker:
        write(file, broker, broker.secret)
        async with running(broker, tmp_path / "ws", **config(file)) as rig:
            broker.serve(wire_task("t1"))
            (task,) = await rig.tasks()
            broker.secret = "second"
            await rig.relay.results.complete(task, "the answer", base_dir="/")
            await broker.seen("results", 1)
            write(file, broker, "second")
            await broker.until(lambda: "t1" in broker.results)
            assert broker.results["t1"]["body"] == "the answer"


async def test_a_moved_gateway_is_refused_and_named_by_its_components(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The new bearer never goes to the old host, nor the old client to a new one."""
    file = tmp_path / "config.env"
    caplog.set_level(logging.INFO, "agentconnect")
    async with open_broker() as broker:
        write(file, broker, broker.secret)
        async with running(broker, tmp_path / "ws", **config(file)) as rig:
            await rig.state("connected")
            write(file, broker, "moved-secret", "http://127.0.0.1:9/elsewhere")
            await rig.until(lambda: "another gateway" in caplog.text)
            assert "(path, port)" in caplog.text
            assert "elsewhere" not in caplog.text
            await answered(rig, broker, "t1")
        sent = {request.headers["authorization"] for request in broker.requests}
        assert sent == {f"Bearer {broker.secret}"}
        assert "moved-secret" not in caplog.text


async def test_a_file_that_is_gone_or_half_written_is_no_rotation(tmp_path: Path) -> None:
    """Polling goes on with the secret at hand, and the next sound version counts."""
    file = tmp_path / "config.env"
    async with open_broker() as broker:
        broker.poll_hold_s = 0.3
        write(file, broker, broker.secret)
        async with running(broker, tmp_path / "ws", **config(file)) as rig:
            await rig.state("connected")
            file.unlink()
            await answered(rig, broker, "t1")
            file.write_bytes(b"AGENT_CONNECT_TOKEN=\xff\xfe")
            await answered(rig, broker, "t2")
            broker.secret = "third"
            write(file, broker, "third")
            await answered(rig, broker, "t3")
            assert rig.failure is None
