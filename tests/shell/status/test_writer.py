"""The status file as it is written, on a real disk (worker.md §15)."""

import json
import logging
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from agentconnect.core.redaction import redact
from agentconnect.core.status import RelayBlock, State, judge
from agentconnect.status.writer import TROUBLES, StatusWriter
from tests.shell.relay.minutes import Minutes


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Looks like the relay client's own."""

    instance: str = "default"
    state: str = "connected"
    connected: bool = True
    gateway: str = "http://127.0.0.1:1/relay"
    last_ok_ts: float | None = 5.0
    updated_ts: float = 6.0


def read(path: Path) -> dict[str, Any]:
    """The file's object."""
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


async def until(check: Callable[[], bool]) -> None:
    """Wait for a state of the disk."""
    with trio.fail_after(60):
        while not check():
            await trio.sleep(0.01)


async def test_file_has_every_field_in_order(tmp_path: Path) -> None:
    """Sorted keys, indent 2, one line end, 0600, folder made; unknown facts are absent."""
    path = tmp_path / "new" / "status.json"
    writer = StatusWriter(path, 15.0, workspace="/ws", pid=7, wall_now=lambda: 100.0)
    await writer.flush()
    status = read(path)
    assert status == {
        "detail": "",
        "heartbeat_seconds": 15.0,
        "instance": "default",
        "last_error": None,
        "oldest_task_seconds": 0.0,
        "pid": 7,
        "relay": None,
        "started_at": 100.0,
        "state": "starting",
        "tasks_running": 0,
        "updated_at": 100.0,
        "uptime_seconds": 0.0,
        "version": 1,
        "workspace": "/ws",
    }
    assert list(status) == sorted(status)
    assert path.read_text() == json.dumps(status, indent=2) + "\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    writer.facts(adapter="acp", agent="", repo="/r")
    await writer.flush()
    assert ("acp", "", "/r") == tuple(read(path)[name] for name in ("adapter", "agent", "repo"))
    assert [path] == list(path.parent.iterdir())


async def test_relay_facts_leave_the_clocks_alone(tmp_path: Path) -> None:
    """A relay block is written through; only the worker's own writes move updated_at."""
    path = tmp_path / "status.json"
    now = [100.0]
    writer = StatusWriter(path, 60.0, wall_now=lambda: now[0], mono_now=lambda: now[0])
    async with trio.open_nursery() as nursery:
        await nursery.start(writer.run)
        now[0] = 130.0
        writer.relay(Snapshot())
        await until(lambda: read(path)["relay"] is not None)
        assert (100.0, 0.0) == (read(path)["updated_at"], read(path)["uptime_seconds"])
        assert set(read(path)["relay"]) == set(RelayBlock.__struct_fields__)
        assert read(path)["relay"]["backoff_s"] is None
        writer.state("serving", "adapter=acp")
        await until(lambda: read(path)["state"] == "serving")
        assert (130.0, 30.0) == (read(path)["updated_at"], read(path)["uptime_seconds"])
        nursery.cancel_scope.cancel()


async def test_the_relays_ticks_are_paced_and_news_is_not(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """A poll a second or faster costs no write each; another state is there at once."""
    minutes = Minutes(mock_clock)
    path = tmp_path / "status.json"
    writer = StatusWriter(path, 60.0)
    async with trio.open_nursery() as nursery:
        await nursery.start(writer.run)
        writer.relay(Snapshot())
        await minutes.until(lambda: read(path)["relay"] is not None, 2)
        writer.relay(Snapshot(last_ok_ts=7.0))
        assert 1.0 == await minutes.until(lambda: read(path)["relay"]["last_ok_ts"] == 7.0, 2)
        writer.relay(Snapshot(state="reconnecting"))
        assert 0.0 == await minutes.until(lambda: read(path)["relay"]["state"] == "reconnecting", 2)
        nursery.cancel_scope.cancel()


async def test_heartbeat_moves_the_clocks_and_asks_for_the_load(tmp_path: Path) -> None:
    """Every half heartbeat the file is written anew, with the tasks in hand."""
    path = tmp_path / "status.json"
    writer = StatusWriter(path, 0.1)
    async with trio.open_nursery() as nursery:
        await nursery.start(writer.run)
        writer.load = lambda: (2, 3.456)
        first = read(path)["updated_at"]
        await until(lambda: read(path)["updated_at"] > first)
        await until(lambda: read(path)["tasks_running"] == 2)
        assert read(path)["oldest_task_seconds"] == 3.5
        nursery.cancel_scope.cancel()


async def test_what_is_mended_hides_nothing_that_is_not(tmp_path: Path) -> None:
    """The latest of what is still in trouble; where nothing is, the last that was."""
    path, now = tmp_path / "status.json", [100.0]
    writer = StatusWriter(path, 15.0, wall_now=lambda: now[0])

    async def told(message: str, about: str = "") -> tuple[float, str]:
        now[0] += 1
        writer.error(message, about)
        await writer.flush()
        last = read(path)["last_error"]
        return last["at"], last["message"]

    assert (101.0, "no zone") == await told("no zone")
    assert (102.0, "unreadable") == await told("unreadable", "tasks")
    assert (103.0, "no login") == await told("no login", "agent")
    assert (103.0, "no login") == await told("", "another")
    assert (102.0, "unreadable") == await told("", "agent")
    assert (106.0, "it died") == await told("it died", "agent")
    assert (106.0, "it died") == await told("", "tasks")
    assert (101.0, "no zone") == await told("", "agent")
    assert (109.0, "unreadable") == await told("unreadable", "tasks")
    writer.state(State.ERROR, "the disk is full")
    writer.state(State.SERVING, "adapter=acp")
    await writer.flush()
    assert {"at": 109.0, "message": "unreadable"} == read(path)["last_error"]


async def test_what_was_mended_last_stays_where_nothing_else_is_wrong(tmp_path: Path) -> None:
    """It is the last error all the same, and says when."""
    path = tmp_path / "status.json"
    writer = StatusWriter(path, 15.0, wall_now=lambda: 100.0)
    writer.error("no login", "agent")
    writer.error("", "agent")
    writer.state(State.SERVING)
    await writer.flush()
    assert {"at": 100.0, "message": "no login"} == read(path)["last_error"]


async def test_troubles_are_bounded(tmp_path: Path) -> None:
    """Whatever tells of them."""
    writer = StatusWriter(tmp_path / "status.json", 15.0)
    for number in range(1000):
        writer.error(f"{number}")
    for number in range(999, 1000 - TROUBLES, -1):
        writer.error("", f"{number}")
    assert writer.current.last_error is not None
    assert str(1000 - TROUBLES) == writer.current.last_error.message
    writer.error("", str(1000 - TROUBLES))
    assert str(1000 - TROUBLES) == writer.current.last_error.message


async def test_last_error_is_kept(tmp_path: Path) -> None:
    """An error state is the last error, and stays it in later states."""
    path = tmp_path / "status.json"
    writer = StatusWriter(path, 15.0, wall_now=lambda: 100.0)
    writer.state(State.ERROR, "no token")
    writer.state(State.STOPPED, "terminated")
    await writer.flush()
    assert read(path)["last_error"] == {"at": 100.0, "message": "no token"}
    assert (read(path)["state"], read(path)["detail"]) == ("stopped", "terminated")


async def test_each_change_of_state_is_a_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What happened and when can be read afterwards; a beat is no change."""
    caplog.set_level(logging.INFO, "agentconnect")
    writer = StatusWriter(tmp_path / "status.json", 15.0)
    writer.relay(Snapshot(state="reconnecting"))
    writer.relay(Snapshot())
    writer.relay(Snapshot(last_ok_ts=7.0))
    writer.state(State.SERVING, "adapter=acp")
    writer.state(State.SERVING, "adapter=acp")
    writer.facts(agent="x")
    writer.state(State.ERROR, "fatal")
    told = [record.getMessage() for record in caplog.records]
    assert ["relay=reconnecting", "relay=connected"] == told[:2]
    assert ["state=serving: adapter=acp", "state=error: fatal"] == told[2:]


async def test_no_secret_is_told(tmp_path: Path) -> None:
    """A token, a URL with a password and what the worker knows as secret are in no sentence."""
    path = tmp_path / "status.json"
    writer = StatusWriter(path, 15.0, clean=lambda text: redact(text, ["my-own-secret"]))
    told = "https://u:hunter22@h and https://gw.example/relay|abcdefgh12 and my-own-secret"
    writer.error(told)
    writer.remark(told)
    writer.facts(agent=told, repo=told)
    writer.state(State.SERVING, told)
    await writer.flush()
    writer.state(State.ERROR, told)
    await writer.flush()
    for secret in ("hunter22", "abcdefgh12", "my-own-secret"):
        assert secret not in path.read_text()
    assert "https://gw.example/relay" in read(path)["detail"]


async def test_unwritable_file_is_complained_about_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk that refuses never fails the worker."""
    (tmp_path / "file").write_text("")
    writer = StatusWriter(tmp_path / "file" / "status.json", 15.0)
    await writer.flush()
    await writer.flush()
    assert len(caplog.records) == 1
    assert "cannot be written" in caplog.text


async def test_odd_snapshot_is_no_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the relay hands over, the hook does not raise."""

    class Odd:
        state = object()

    writer = StatusWriter(tmp_path / "status.json", 15.0)
    writer.relay(Odd())
    writer.relay(None)
    assert writer.current.relay is None


async def test_broken_load_is_no_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A desk that cannot be asked costs the load, not the file."""

    def broken() -> tuple[int, float]:
        raise RuntimeError("gone")

    writer = StatusWriter(tmp_path / "status.json", 15.0)
    writer.load = broken
    await writer.flush()
    assert read(tmp_path / "status.json")["tasks_running"] == 0


def test_refusal_before_the_loop_is_written_blocking(tmp_path: Path) -> None:
    """A start that is refused leaves its sentence without a loop."""
    writer = StatusWriter(tmp_path / "status.json", 15.0)
    writer.state(State.ERROR, "no adapter")
    writer.write_now()
    assert read(tmp_path / "status.json")["detail"] == "no adapter"


def test_unknown_state_is_our_error(tmp_path: Path) -> None:
    """Nothing but the four words is ever written."""
    with pytest.raises(ValueError, match="paused"):
        StatusWriter(tmp_path / "status.json", 15.0).state("paused")


def test_what_is_written_is_judged_fresh(tmp_path: Path) -> None:
    """Writer and reader agree."""
    path = tmp_path / "status.json"
    writer = StatusWriter(path, 15.0, wall_now=lambda: 100.0)
    writer.relay(Snapshot())
    writer.state(State.SERVING, "adapter=acp")
    writer.write_now()
    judgement = judge(path.read_bytes(), 145.0)
    assert (judgement.verdict, judgement.exit_code) == ("fresh", 0)
    assert judge(path.read_bytes(), 145.1).verdict == "stale"
