"""How long processes live: warm ones, spares, the stop, orphans."""

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio
import trio.testing

from agentconnect.core.errors import PreflightError
from agentconnect.store.children import ChildrenFile
from tests.shell.acp.rig import alive, fake_command, number_in, room, running, until
from tests.support.waits import count_only_waits


async def test_the_preflight_process_becomes_the_first_spare(tmp_path: Path) -> None:
    """And a new spare is made behind it; no session was opened by the check."""
    log = tmp_path / "log"
    async with running(tmp_path, {"log": str(log)}, spare=1) as rig:
        assert "acp: Fake Agent 1.2" == await rig.adapter.preflight()
        assert 1 == len(log.read_bytes().splitlines())
        (spare,) = children_of_ours()
        assert spare == number_in((await rig.turn("#pid")).answer, "pid")
        await until(lambda: rig.adapter.waiting == (1, 1))
        (second,) = [pid for pid in children_of_ours() if pid != spare]
        assert second == number_in((await rig.turn("#pid", room(2))).answer, "pid")


async def test_a_stop_while_an_agent_starts_says_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is wrong with it, and there is nothing to show."""
    caplog.set_level(logging.INFO, "agentconnect")
    log = tmp_path / "log"
    options = {"init_delay": 60, "log": str(log)}
    async with running(tmp_path, options) as rig, trio.open_nursery() as nursery:
        nursery.start_soon(rig.adapter.preflight)
        await until(log.exists)  # it runs, and is asked
        nursery.cancel_scope.cancel()
    assert "ready" not in caplog.text


async def test_a_stop_while_an_agent_starts_is_no_fault_of_the_agent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What it says while it starts is shown where its time was up, not where we stop."""
    caplog.set_level(logging.INFO, "agentconnect")
    began = tmp_path / "began"
    command = ("/bin/sh", "-c", f"echo starting >&2; : > {began}; exec sleep 60")
    async with running(tmp_path, {}, command=command) as rig, trio.open_nursery() as nursery:
        nursery.start_soon(rig.adapter.preflight)
        await until(began.exists)
        await trio.testing.wait_all_tasks_blocked(0.1)  # its line is read
        nursery.cancel_scope.cancel()
    assert "starting" not in caplog.text
    async with running(tmp_path, {}, command=command, start_limit_s=5.0) as rig:
        with pytest.raises(PreflightError):
            await rig.adapter.preflight()
    assert "did not get ready; stderr: starting" in caplog.text


async def test_what_an_agent_said_before_it_got_ready_is_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The end of its stderr, and no empty quotation where it said nothing."""
    caplog.set_level(logging.INFO, "agentconnect")
    for said in ("echo broken >&2; ", ""):
        caplog.clear()
        command = ("/bin/sh", "-c", f"{said}exit 3")
        async with running(tmp_path, {}, command=command) as rig:
            with pytest.raises(PreflightError):
                await rig.adapter.preflight()
        assert bool(said) == ("did not get ready; stderr: broken" in caplog.text)
        assert bool(said) == ("(code 3); stderr: broken" in caplog.text)
        assert bool(said) == ("stderr" in caplog.text)


async def test_spares_end_when_nobody_comes(tmp_path: Path) -> None:
    """An idle worker holds no agent."""
    async with running(tmp_path, spare=1, keepalive_s=0.3) as rig:
        await rig.adapter.preflight()
        await until(lambda: not children_of_ours())
        assert "x" == (await rig.turn("#say x")).answer


async def test_a_dead_spare_is_passed_over(tmp_path: Path) -> None:
    """The turn starts its own."""
    async with running(tmp_path, spare=1) as rig:
        await rig.adapter.preflight()
        (spare,) = children_of_ours()
        os.kill(spare, signal.SIGKILL)
        await until(lambda: not alive(spare))
        assert "x" == (await rig.turn("#say x")).answer


async def test_idle_processes_are_closed_least_recently_used_first(tmp_path: Path) -> None:
    """Above the number that may be idle; a follow-up reopens what was closed."""
    async with running(tmp_path, max_idle=2) as rig:
        pids = [number_in((await rig.turn("#pid", room(n))).answer, "pid") for n in (1, 2)]
        await rig.turn("#say used again", room(1))
        await rig.turn("#say third", room(3))
        await until(lambda: not alive(pids[1]))
        assert alive(pids[0])
        assert 2 == number_in((await rig.turn("#history", room(2))).answer, "turns")


async def test_keepalive_closes_idle_ones_and_zero_keeps_none(tmp_path: Path) -> None:
    """One process per turn, if the owner wants that."""
    async with running(tmp_path, keepalive_s=3.0) as rig:
        pid = number_in((await rig.turn("#pid")).answer, "pid")
        assert alive(pid)
        await until(lambda: not alive(pid))
    async with running(tmp_path, keepalive_s=0.0, spare=1) as rig:
        pid = number_in((await rig.turn("#pid", room(2))).answer, "pid")
        await until(lambda: not alive(pid))
        assert [] == children_of_ours()


async def test_a_stop_ends_every_process_within_seconds(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """Also those that ignore their input's end and SIGTERM, and their children."""
    mock_clock.rate = 1.0
    options = {"ignore_eof": True, "ignore_term": True}
    pids: list[int] = []
    async with running(tmp_path, options) as rig:
        for number in range(3):
            answer = (await rig.turn("#pid\n#child", room(number))).answer
            pids += [number_in(answer, "pid"), number_in(answer, "child")]
        count_only_waits(mock_clock)
        before = trio.current_time()
    assert trio.current_time() - before < 5
    await until(lambda: not any(map(alive, pids)))


async def test_a_stop_hurries_those_that_were_ending_gently(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """A retired agent that takes its time does not hold up the worker."""
    mock_clock.rate = 1.0
    options = {"ignore_eof": True, "ignore_term": True}
    async with running(tmp_path, options, keepalive_s=0.0) as rig:
        pid = number_in((await rig.turn("#pid")).answer, "pid")
        count_only_waits(mock_clock)
        before = trio.current_time()
    assert trio.current_time() - before < 4
    await until(lambda: not alive(pid))


async def test_a_killed_workers_agents_are_reaped_at_the_next_start(tmp_path: Path) -> None:
    """By pid and start time, with their group; a stranger with an old pid is left alone."""
    orphan = subprocess.Popen(fake_command({}), stdin=subprocess.PIPE, start_new_session=True)
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    path = tmp_path / "children.json"
    try:
        left = ChildrenFile(path)
        await trio.to_thread.run_sync(left.add, orphan.pid)
        await trio.to_thread.run_sync(left.add, stranger.pid)
        content = json.loads(await trio.Path(path).read_text(encoding="utf-8"))
        for child in content["children"]:
            child["started"] += child["pid"] == stranger.pid
        await trio.Path(path).write_text(json.dumps(content), encoding="utf-8")
        assert 1 == await trio.to_thread.run_sync(ChildrenFile(path).reap)
        await until(lambda: orphan.poll() is not None)
        assert stranger.poll() is None
        assert 0 == await trio.to_thread.run_sync(ChildrenFile(path).reap)
        await trio.Path(path).write_text("{nonsense", encoding="utf-8")
        assert 0 == await trio.to_thread.run_sync(ChildrenFile(path).reap)
    finally:
        for process in (orphan, stranger):
            process.kill()
            process.communicate()


async def test_what_a_dead_agent_left_in_its_group_is_reaped(tmp_path: Path) -> None:
    """The leader is gone (``npx`` dies with the worker); its child carries our mark."""
    path = tmp_path / "children.json"
    left = ChildrenFile(path)
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        env=os.environ | left.environment,
    ) as leader:
        assert leader.stdout is not None
        child = int(await trio.to_thread.run_sync(leader.stdout.readline))
        await trio.to_thread.run_sync(left.add, leader.pid)
        leader.kill()
        leader.wait()
    assert alive(child)
    assert 1 == await trio.to_thread.run_sync(ChildrenFile(path).reap)
    await until(lambda: not alive(child))


async def test_agents_die_with_a_killed_worker(tmp_path: Path) -> None:
    """Linux: the kernel tells them, even those that ignore the end of their input."""
    code = (
        "import sys, trio\n"
        "from pathlib import Path\n"
        "from tests.shell.acp.rig import running\n"
        "async def main():\n"
        "    async with running(Path(sys.argv[1]), {'ignore_eof': True}) as rig:\n"
        "        print((await rig.turn('#pid')).answer, flush=True)\n"
        "        await trio.sleep_forever()\n"
        "trio.run(main)\n"
    )
    worker = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    assert worker.stdout is not None
    line = await trio.to_thread.run_sync(worker.stdout.readline)
    agent = number_in(line.decode(), "pid")
    assert alive(agent)
    worker.kill()
    worker.communicate()
    await until(lambda: not alive(agent))


# --- preflight


async def refused(tmp_path: Path, options: dict[str, object], **settings: object) -> str:
    """The sentence of a preflight that fails; nothing is left running."""
    async with running(tmp_path, options, **settings) as rig:
        with pytest.raises(PreflightError) as caught:
            await rig.adapter.preflight()
        await until(lambda: not children_of_ours())
    return str(caught.value)


async def test_preflight_says_what_to_set(tmp_path: Path) -> None:
    """No agent, an unknown one, one that is not there."""
    text = await refused(tmp_path, {}, command=None)
    assert "AGENT_CONNECT_ACP_AGENT" in text
    assert "claude" in text
    assert "AGENT_CONNECT_ACP_COMMAND" in text
    text = await refused(tmp_path, {}, command=None, preset="clod")
    assert "clod" in text
    assert "gemini" in text
    text = await refused(tmp_path, {}, command=("no-such-agent", "--acp"))
    assert "no-such-agent" in text
    assert "AGENT_CONNECT_ACP_COMMAND" in text
    nothing = {"PATH": str(tmp_path)}
    text = await refused(tmp_path, {}, command=None, preset=" Claude ", environment=nothing)
    assert "Node.js 18" in text
    assert "npm install -g @agentclientprotocol/claude-agent-acp@0.64.2" in text
    text = await refused(tmp_path, {}, command=None, preset="vibe", environment=nothing)
    assert "uv tool install" in text


async def test_preflight_shows_why_it_would_not_start(tmp_path: Path) -> None:
    """The code and what it said, on the owner's own terminal."""
    text = await refused(tmp_path, {"exit": 4})
    assert "code 4" in text
    assert "no configuration" in text
    text = await refused(tmp_path, {"init_error": [-32603, "broken install"]})
    assert "broken install" in text


async def test_preflight_is_bounded(tmp_path: Path) -> None:
    """A first download may take long, not for ever."""
    assert "did not answer within" in await refused(tmp_path, {"init_delay": 60}, start_limit_s=0.3)


async def test_preflight_wants_protocol_one(tmp_path: Path) -> None:
    """It says which version the agent wants."""
    assert "version 2" in await refused(tmp_path, {"version": 2})


async def test_preflight_stops_for_a_login(tmp_path: Path) -> None:
    """For an own command; the setting leaves the check out."""
    text = await refused(tmp_path, {"auth": ["chatgpt"]})
    assert "not logged in" in text
    assert "chatgpt" in text
    assert "AGENT_CONNECT_ACP_SKIP_AUTH_CHECK" in text
    async with running(tmp_path, {"auth": ["chatgpt"]}, skip_auth_check=True) as rig:
        assert "Fake Agent" in await rig.adapter.preflight()


def children_of_ours() -> list[int]:
    """The scripted agents this process has started and not yet seen end."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and fields[0] != "Z" and b"fake_agent.py" in command:
            found.append(int(entry.name))
    return found
