"""``agent-connect local`` and ``relay`` as a newcomer starts them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import trio

from tests.support.remote_agent import remote_agent
from tests.support.worker import alive, children_of, environment, start, until

FAKE_AGENT = Path(__file__).parents[1] / "support" / "fake_agent.py"
FAILING = f"{sys.executable} {FAKE_AGENT} '{json.dumps({'crash_on': 'session/prompt'})}'"
LINK = re.compile(r"(http://127\.0\.0\.1:\d+)/#k=(\S+)")


def local_environment(folder: Path) -> dict[str, str]:
    """A home of the test's own, and nothing set."""
    (folder / "agents").mkdir(exist_ok=True)
    return {**os.environ, "HOME": str(folder), "PYTHONUNBUFFERED": "1"}


@contextmanager
def process(folder: Path, *arguments: str, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A running command; its output goes to ``out``."""
    with (folder / "out").open("ab") as out:
        running = subprocess.Popen(
            [sys.executable, "-m", "agentconnect", *arguments],
            env={**local_environment(folder), **more},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        yield running
    finally:
        if running.poll() is None:
            running.terminate()
            running.wait(60)


async def link(folder: Path) -> tuple[str, str]:
    """The printed URL's origin and secret."""
    await until(lambda: bool(LINK.search((folder / "out").read_text())), "the URL")
    found = LINK.findall((folder / "out").read_text())[-1]
    return found[0], found[1]


def test_say_prints_the_answer_and_ends(tmp_path: Path) -> None:
    """stdout holds the answer and nothing else; the next one remembers; nothing is left running."""
    for text, expected in (("hello", "demonstration"), ("what did I ask before?", "hello")):
        done = subprocess.run(
            [sys.executable, "-m", "agentconnect", "local", "--say", text],
            env=local_environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout
        assert "http" not in done.stdout.splitlines()[0]
        assert "Traceback" not in done.stderr


def test_say_ends_with_1_and_the_reason_when_the_turn_failed(tmp_path: Path) -> None:
    """A failure's line is no answer: stdout stays empty, stderr says why."""
    done = subprocess.run(
        [sys.executable, "-m", "agentconnect", "local", "--say", "hello"],
        env={**local_environment(tmp_path), "AGENT_CONNECT_ACP_COMMAND": FAILING},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert done.stdout == ""
    assert "exit code" in done.stderr
    assert "reason:" not in done.stderr


async def test_say_asks_an_agent_that_is_dialled(tmp_path: Path) -> None:
    """Whoever names an agent's address gets that agent, not the bundled one beside it."""
    async with remote_agent() as far:
        done = await trio.run_process(
            [sys.executable, "-m", "agentconnect", "local", "--say", "#say from afar"],
            env={**local_environment(tmp_path), "AGENT_CONNECT_ACP_URL": far.url},
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    assert 0 == done.returncode, done.stderr
    assert b"from afar\n" == done.stdout


async def test_local_prints_one_url_that_opens_and_ctrl_c_ends_everything(tmp_path: Path) -> None:
    """The link signs in; after Ctrl-C no process is left; the next start keeps the room."""
    with process(tmp_path, "local") as running:
        origin, secret = await link(tmp_path)
        async with httpx.AsyncClient(base_url=origin, trust_env=False) as browser:
            page = await browser.get("/")
            assert page.status_code == 200
            assert secret not in page.text
            entered = await browser.post(
                "/page/login", json={"token": secret}, headers={"origin": origin}
            )
            assert entered.status_code == 200
            state = (await browser.get("/page/state")).json()
            assert [room["kind"] for room in state["rooms"]].count("room") == 1
        agents = children_of(running.pid)
        running.send_signal(signal.SIGINT)
        await until(lambda: running.poll() is not None, "the end")
        assert running.returncode == 0
        await until(lambda: not any(map(alive, agents)), "the agents' end")
        assert "Traceback" not in (tmp_path / "out").read_text()
    with process(tmp_path, "local"):
        again, _secret = await link(tmp_path)
        assert again == origin


async def test_the_page_of_local_shows_scheduled_tasks(tmp_path: Path) -> None:
    """With the API on: nothing, then a task that waits, then what came of it."""
    api = {
        "AGENT_CONNECT_DAEMON_LISTEN": "127.0.0.1:0",
        "AGENT_CONNECT_WORKSPACE": str(tmp_path / "ws"),
    }

    def schedule(*words: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "agentconnect", "schedule", *words],
            env={**local_environment(tmp_path), **api},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout

    with process(tmp_path, "local", **api):
        origin, secret = await link(tmp_path)
        async with httpx.AsyncClient(base_url=origin, trust_env=False) as browser:
            await browser.post("/page/login", json={"token": secret})

            async def shown() -> list[dict[str, Any]]:
                found: dict[str, list[dict[str, Any]]] = (await browser.get("/page/extras")).json()
                return found.get("scheduled", [])

            assert [] == await shown()
            added = schedule("add", "--cron", "0 9 * * *", "--name", "Digest", "Say hello")
            (waits,) = await shown()
            assert ("Digest", "main", "") == (waits["title"], waits["workspace"], waits["result"])
            assert waits["next_at"] > time.time() * 1000
            schedule("run", added.split()[1])
            with trio.fail_after(60):
                while (ran := (await shown())[0])["result"] != "It ran and was answered.":
                    await trio.sleep(0.05)
            assert not ran["failed"]
            assert "It ran and was answered." in schedule("list")


async def test_a_second_local_is_refused_by_pid(tmp_path: Path) -> None:
    """One folder, one process: exit 4 and who holds it."""
    with process(tmp_path, "local") as running:
        await link(tmp_path)
        second = subprocess.run(
            [sys.executable, "-m", "agentconnect", "local"],
            env=local_environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert second.returncode == 4
        assert f"pid {running.pid}" in second.stderr


async def test_a_relay_alone_serves_a_worker_elsewhere(tmp_path: Path) -> None:
    """``relay --add-agent`` at the start and beside a running relay: both tokens work."""
    port_free = ("relay", "--dir", str(tmp_path / "r"), "--listen", "127.0.0.1:0")
    with process(tmp_path, *port_free, "--add-agent", "First"):
        await link(tmp_path)
        await until(lambda: "|" in (tmp_path / "out").read_text(), "the token")
        first = token_in((tmp_path / "out").read_text())
        added = subprocess.run(
            [sys.executable, "-m", "agentconnect", *port_free, "--add-agent", "Second"],
            env=local_environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert added.returncode == 0, added.stderr
        second = token_in(added.stdout)
        assert first != second
        for number, token in enumerate((first, second)):
            folder = tmp_path / f"worker{number}"
            folder.mkdir()
            worker = start(environment(token, folder), folder)
            try:
                await until(worker.connected, "a connected worker")
            finally:
                worker.process.terminate()
                worker.process.wait(60)


async def test_a_relay_alone_logs_one_line_a_fact(tmp_path: Path) -> None:
    """With its time, and with nothing in it that a terminal would obey."""
    arguments = ("relay", "--dir", str(tmp_path / "r"), "--listen", "127.0.0.1:0")
    with process(tmp_path, *arguments, "--add-agent", "First"):
        await until(lambda: "|" in (tmp_path / "out").read_text(), "the token")
        base, _, secret = token_in((tmp_path / "out").read_text()).partition("|")
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            await client.post(
                f"{base}/v1/results",
                headers={"Authorization": f"Bearer {secret}"},
                json={"id": "a\nforged: \x1b[31m", "body": "x"},
            )
        await until(lambda: "result without" in (tmp_path / "out").read_text(), "the line")
    text = (tmp_path / "out").read_text()
    (line,) = [line for line in text.splitlines() if "result without a task" in line]
    assert re.match(r"\d{4}-\d\d-\d\dT\S+ warning embedded: result without a task: ", line)
    assert line.endswith(r"id=a\nforged: \x1b[31m")
    assert secret not in line


async def test_an_agent_cannot_be_added_before_the_relay_is_up(tmp_path: Path) -> None:
    """Its address is not known yet: a sentence, and exit code 2."""
    arguments = ("relay", "--dir", str(tmp_path / "r"), "--listen", "127.0.0.1:0")
    with process(tmp_path, *arguments):
        await link(tmp_path)
        (tmp_path / "r" / "address").unlink()
        added = subprocess.run(
            [sys.executable, "-m", "agentconnect", *arguments, "--add-agent", "Early"],
            env=local_environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert added.returncode == 2
        assert "still starting" in added.stderr


def token_in(text: str) -> str:
    """The token line of what was printed."""
    found = re.search(r"^\s+(http://127\.0\.0\.1:\d+/relay\|\S+)$", text, re.MULTILINE)
    assert found is not None, text
    return found[1]
