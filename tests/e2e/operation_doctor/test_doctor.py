"""doctor against a real relay, a real worker and things that were broken on purpose."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from tests.e2e.operation_doctor.rig import Doctor, doctor, run, snapshot
from tests.support.relay import Relay, running_relay
from tests.support.worker import alive, environment, running_worker, start, until

REVOKED = "0123456789abcdef0123456789abcdef"
#: Three of these and it is called stale; a busy machine may keep a worker waiting for one.
UNHURRIED = {"AGENT_CONNECT_STATUS_HEARTBEAT": "5"}


@asynccontextmanager
async def something_that_answers(head: bytes, body: bytes) -> AsyncIterator[str]:
    """A server that gives everybody the same answer; its address."""

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some(65536)
            length = b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
            await stream.send_all(head + length + body)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, serve, 0)
        yield f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


async def a_first_run(relay: Relay, folder: Path) -> dict[str, str]:
    """A worker that has served and stopped: its environment, with all its files there."""
    async with running_worker(relay.token, folder, **UNHURRIED) as worker:
        event_id = await relay.say("hello")
        await relay.relay.answer_to(event_id)
        assert 0 == await worker.stop(signal.SIGTERM)
    return environment(relay.token, folder)


def hides(found: Doctor, token: str) -> bool:
    """Neither half of a token is in the report."""
    return token.partition("|")[2] not in found.out + found.err


async def test_all_is_well_with_the_right_token(tmp_path: Path) -> None:
    """The relay answers and takes the token; the agent starts; nothing is leased or written."""
    async with running_relay(tmp_path / "relay") as relay:
        env = await a_first_run(relay, tmp_path)
        await relay.say("a task that waits")
        before = snapshot(tmp_path / "workspace")
        found = await doctor(env)
        assert before == snapshot(tmp_path / "workspace")
        assert [] == found.troubles
        assert 0 == found.code
        assert "AGENT_CONNECT_TOKEN of the environment" in found.said("token")
        assert "takes the token" in found.said("relay.token")
        assert "acp: " in found.said("agent.start")
        assert "no worker runs" in found.said("worker")
        assert hides(found, relay.token)
        assert 1 == len(await relay.poll())


async def test_a_running_worker_is_fine_and_stays_undisturbed(tmp_path: Path) -> None:
    """Its lock, its journal in use, its pid; a message during it is answered."""
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path, **UNHURRIED) as worker,
    ):
        found = await doctor(environment(relay.token, tmp_path))
        assert [] == found.troubles
        assert f"pid {worker.process.pid}" in found.said("worker")
        event_id = await relay.say("still there?")
        await relay.relay.answer_to(event_id)


async def test_a_running_worker_with_its_api_and_channels(tmp_path: Path) -> None:
    """It holds its address; the same address is no other workspace's to have."""
    on = {"AGENT_CONNECT_DAEMON_LISTEN": "127.0.0.1:0"}
    file = tmp_path / "workspace" / "workspaces" / "main" / "channels.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"v": 1, "channels": {"ours": {"type": "room"}}}')
    file.chmod(0o600)
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path, **UNHURRIED, **on) as worker,
    ):
        found = await doctor(environment(relay.token, tmp_path, **on))
        assert [] == found.troubles
        bound = worker.status["daemon"]["listen"]
        assert f"pid {worker.process.pid}, listens at {bound}" in found.said("daemon")
        assert "daemon-token holds the API's token" in found.said("daemon.token")
        assert f"{file}: 1 channel can be used" in found.said("channels")
        token = (tmp_path / "workspace" / "daemon-token").read_text().strip()
        assert token not in found.out
        (tmp_path / "two").mkdir()
        other = environment(relay.token, tmp_path / "two", AGENT_CONNECT_DAEMON_LISTEN=bound)
        assert ["daemon"] == (await doctor(other)).failures


async def test_a_token_that_another_workspace_uses(tmp_path: Path) -> None:
    """Its worker is named; the message that comes meanwhile is that worker's."""
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path, **UNHURRIED) as worker,
    ):
        (tmp_path / "two").mkdir()
        found = await doctor(environment(relay.token, tmp_path / "two"))
        assert ["token.in_use"] == found.troubles
        assert f"pid {worker.process.pid}" in found.said("token.in_use")
        assert worker.connected()


async def test_a_journal_that_a_crash_left_open_is_read_as_it_is(tmp_path: Path) -> None:
    """After kill -9 the log beside the database is neither read in nor removed."""
    async with running_relay(tmp_path / "relay") as relay:
        async with running_worker(relay.token, tmp_path, **UNHURRIED) as worker:
            await relay.relay.answer_to(await relay.say("hello"))
            await worker.kill()
        before = snapshot(tmp_path / "workspace")
        assert "relay/default/journal.db-wal" in before
        found = await doctor(environment(relay.token, tmp_path))
        assert before == snapshot(tmp_path / "workspace")
        assert "ok" == found.level("store")


async def test_a_token_that_was_revoked(tmp_path: Path) -> None:
    """Broken on purpose, 1: the relay says so before a worker does."""
    async with running_relay(tmp_path / "relay") as relay:
        env = environment(f"{relay.base}|{REVOKED}", tmp_path)
        found = await doctor(env)
    assert ["relay.token"] == found.failures
    assert 1 == found.code
    assert "paste the new one" in found.said("relay.token")
    assert "ok" == found.level("relay.reach")
    assert REVOKED not in found.out


async def test_a_config_file_that_others_can_read(tmp_path: Path) -> None:
    """Broken on purpose, 2: the command that mends it; unknown, retired and repeated names too."""
    config = tmp_path / "config.env"
    async with running_relay(tmp_path / "relay") as relay:
        env = environment("", tmp_path)
        config.write_text(
            f"AGENT_CONNECT_TOKEN={relay.token}\nAGENT_CONNECT_TOKEN={relay.token}\n"
            "AGENT_CONNECT_WROKSPACE=/x\nAGENT_CONNECT_TASK_DIR=/x\nPATH=/x\n{nonsense}\n"
            "AGENT_CONNECT_EDIT_CEILING=lots\n"
        )
        config.chmod(0o644)
        found = await doctor(env, "--config", str(config))
        config.chmod(0o600)
        mended = await doctor(env, "--config", str(config))
    assert [] == found.failures
    assert 0 == found.code
    assert f"chmod 600 {config}" in found.said("config.permissions")
    assert "" == mended.level("config.permissions")
    assert "AGENT_CONNECT_WROKSPACE" in found.said("config.unknown")
    assert "AGENT_CONNECT_TASK_DIR" in found.said("config.retired")
    assert "AGENT_CONNECT_TOKEN" in found.said("config.duplicated")
    assert "PATH" in found.said("config.ignored")
    assert "line 6" in found.said("config.unread")
    assert "AGENT_CONNECT_EDIT_CEILING" in found.said("settings")
    assert f"the config file {config}" in found.said("token")
    assert hides(found, relay.token)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"AGENT_CONNECT_ACP_COMMAND": "no-such-agent --acp"}, "AGENT_CONNECT_ACP_COMMAND"),
        (
            {"AGENT_CONNECT_ACP_COMMAND": "", "AGENT_CONNECT_ACP_AGENT": "vibe"},
            "uv tool install mistral-vibe",
        ),
        (
            {"AGENT_CONNECT_ACP_COMMAND": "", "AGENT_CONNECT_ACP_AGENT": "gemini"},
            "npm install -g @google/gemini-cli",
        ),
        ({"AGENT_CONNECT_ADAPTER": "codex"}, "npm install -g @openai/codex"),
        ({"AGENT_CONNECT_ADAPTER": "kilo"}, "AGENT_CONNECT_KILO_BIN"),
    ],
)
async def test_an_agent_that_is_not_installed(
    settings: dict[str, str], words: str, tmp_path: Path
) -> None:
    """Broken on purpose, 3: the line that installs it."""
    async with running_relay(tmp_path / "relay") as relay:
        env = environment(relay.token, tmp_path, PATH=str(tmp_path), **settings)
        found = await doctor(env)
    assert ["agent.program"] == found.failures
    assert words in found.said("agent.program")


async def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    """Broken on purpose, 4: said as what it is, and once."""
    gone = tmp_path / "gone"
    async with running_relay(tmp_path / "relay") as relay:
        found = await doctor(environment(relay.token, tmp_path, AGENT_CONNECT_REPO=str(gone)))
    assert ["workdir"] == found.failures
    assert f"mkdir -p {gone}" in found.said("workdir")
    assert not gone.exists()


async def test_stores_that_are_damaged(tmp_path: Path) -> None:
    """Broken on purpose, 5: each file by name, and every one is left as it is."""
    async with running_relay(tmp_path / "relay") as relay:
        env = await a_first_run(relay, tmp_path)
        workspace = tmp_path / "workspace"
        journal = workspace / "relay/default/journal.db"
        raw = journal.read_bytes()
        for name in ("sessions.json", "access.json", "children.json"):
            (workspace / name).write_bytes(b"{")
        for bad in (b"{", raw[:5000]):
            journal.write_bytes(bad)
            before = snapshot(workspace)
            found = await doctor(env)
            assert before == snapshot(workspace)
            assert {"store.access", "store.journal"} == set(found.failures)
            assert f"restore {journal}" in found.said("store.journal")
        assert "conversations begin anew" in found.said("store.sessions")
        assert "everybody is a guest" in found.said("store.access")
        assert "warning" == found.level("store.children")


async def test_a_relay_that_is_down(tmp_path: Path) -> None:
    """Refused, told apart from a name that is wrong."""
    async with running_relay(tmp_path / "relay") as relay:
        token = relay.token
    found = await doctor(environment(token, tmp_path))
    assert ["relay.reach"] == found.failures
    assert "refused" in found.said("relay.reach")
    token = f"https://relay.invalid/x|{REVOKED}"
    found = await doctor(environment(token, tmp_path))
    assert "has no address" in found.said("relay.reach")
    assert "relay.invalid" in found.said("relay.reach")


async def test_something_else_answers(tmp_path: Path) -> None:
    """A sign-in page is no relay; a server that fails is one that fails."""
    page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
    async with something_that_answers(page, b"<html>Welcome to the hotel</html>") as address:
        found = await doctor(environment(f"{address}|{REVOKED}", tmp_path))
    assert ["relay.reach"] == found.failures
    assert "not as a relay: it answered with a web page" in found.said("relay.reach")
    broken = b"HTTP/1.1 503 Service Unavailable\r\n"
    async with something_that_answers(broken, b"later") as address:
        found = await doctor(environment(f"{address}|{REVOKED}", tmp_path))
    assert "503" in found.said("relay.reach")
    assert "warning" == found.level("relay.token")


async def test_a_clock_that_is_off_is_said(tmp_path: Path) -> None:
    """The relay's own clock stands in its answers."""
    head = b"HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\n"
    async with something_that_answers(head, b'{"ok":true}') as address:
        found = await doctor(environment(f"{address}|{REVOKED}", tmp_path))
    assert "warning" == found.level("relay.clock")
    assert [] == found.failures


async def test_nothing_is_set_up_at_all(home: Path) -> None:
    """``env -i``: what to set first, exit 1, and nothing is made."""
    found = await doctor({"HOME": str(home)})
    assert 1 == found.code
    assert ["token", "settings"] == found.failures
    assert "config.env" in found.said("token")
    assert "AGENT_CONNECT_ADAPTER" in found.said("settings")
    assert "no config file" in found.said("config")
    assert ["."] == list(snapshot(home))
    done = await run({})
    assert 1 == done.returncode
    assert b"" == done.stderr


async def test_for_a_person_it_is_lines_with_what_to_do(home: Path) -> None:
    """Level, name, sentence, mend; a count at the end."""
    done = await run({"HOME": str(home)})
    text = done.stdout.decode()
    assert "ok       python     Python 3." in text
    assert "failure  token      AGENT_CONNECT_TOKEN is not set" in text
    assert "mend: put AGENT_CONNECT_TOKEN=" in text
    assert text.endswith("mend the first failure first.\n")


async def test_a_config_file_that_cannot_be_used(tmp_path: Path) -> None:
    """Named and missing; not text: the one failure, since nothing else is known then."""
    found = await doctor(environment("", tmp_path), "--config", str(tmp_path / "none"))
    assert ["config"] == found.failures
    (tmp_path / "bad").write_bytes(b"AGENT_CONNECT_TOKEN=\xff\n")
    found = await doctor(environment("", tmp_path), "--config", str(tmp_path / "bad"))
    assert ["config"] == found.failures
    assert "not UTF-8" in found.said("config")


async def test_an_agent_that_says_nothing_is_given_up_on_in_time(tmp_path: Path) -> None:
    """It does not answer, ignores its end and SIGTERM; no process of it is left."""
    script = tmp_path / "silent.py"
    script.write_text(
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
        "time.sleep(600)\n"
    )
    async with running_relay(tmp_path / "relay") as relay:
        env = environment(
            relay.token, tmp_path, AGENT_CONNECT_ACP_COMMAND=f"{sys.executable} {script}"
        )
        found = await doctor(env)
    assert "warning" == found.level("agent.start")
    assert "did not answer" in found.said("agent.start")
    assert not alive(int((tmp_path / "pid").read_text()))


async def test_an_agent_that_breaks_is_quoted_without_our_secrets(tmp_path: Path) -> None:
    """Its last words may hold anything, and it is not given the token in the first place."""
    script = tmp_path / "broken.py"
    script.write_text(
        "import os, sys\n"
        "sys.stderr.write('no luck ' + os.environ.get('AGENT_CONNECT_TOKEN', 'without a token'))\n"
        "sys.exit(7)\n"
    )
    async with running_relay(tmp_path / "relay") as relay:
        env = environment(
            relay.token, tmp_path, AGENT_CONNECT_ACP_COMMAND=f"{sys.executable} {script}"
        )
        found = await doctor(env)
    assert ["agent.start"] == found.failures
    assert "no luck without a token" in found.said("agent.start")


async def test_a_service_that_does_not_find_the_agent(home: Path, tmp_path: Path) -> None:
    """D20: agent and node are in a version manager's folder; the shell finds them, the unit not."""
    managed = tmp_path / "versions"
    managed.mkdir()
    for name, text in (
        ("codex", "#!/usr/bin/env node\n"),
        ("node", "#!/bin/sh\necho v22.1.0\n"),
    ):
        (managed / name).write_text(text)
        (managed / name).chmod(0o755)
    unit = home / ".config/systemd/user/agent-connect.service"
    unit.parent.mkdir(parents=True)
    async with running_relay(tmp_path / "relay") as relay:
        env = environment(
            relay.token,
            tmp_path,
            AGENT_CONNECT_ADAPTER="codex",
            PATH=f"{managed}:/usr/bin:/bin",
        )
        unit.write_text(f'[Service]\nEnvironment="PATH={tmp_path}"\n')
        found = await doctor(env)
        assert ["agent.service"] == found.failures
        assert f"codex (here: {managed}/codex), node (here: {managed}/node)" in found.said("agent")
        assert "service install again" in found.said("agent.service")
        unit.write_text(f"[Service]\nEnvironment=PATH={managed}:/usr/bin\n")
        assert "ok" == (await doctor(env)).level("agent.service")


async def test_a_worker_that_waits_with_an_error_is_said(tmp_path: Path) -> None:
    """Its journal is broken: it holds the workspace and takes nothing."""
    async with running_relay(tmp_path / "relay") as relay:
        env = environment(relay.token, tmp_path)
        journal = tmp_path / "workspace/relay/default/journal.db"
        journal.parent.mkdir(parents=True)
        journal.write_bytes(b"{")
        worker = start(env, tmp_path)
        try:
            await until(lambda: worker.status.get("state") == "error", "the error")
            found = await doctor(env)
        finally:
            await worker.stop()
    assert ["store.journal"] == found.failures
    assert "warning" == found.level("status")
    assert f"pid {worker.process.pid}" in found.said("worker")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_workspace_that_may_not_be_written_to(tmp_path: Path) -> None:
    """The owner's mistake of a first run as root."""
    (tmp_path / "workspace").mkdir(mode=0o500)
    found = await doctor(environment("", tmp_path))
    assert "workspace" in found.failures
