"""The guide does what it says: its examples are run, in their order, against a real worker."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from tests.e2e.daemon.stage import TARGET_ID, TOKEN, Stage, staged
from tests.support.worker import until

Done = subprocess.CompletedProcess[bytes]
_BLOCK = re.compile(r"^```sh( [a-z]+)?\n(.*?)^```$", re.M | re.S)


def commands(repo_root: Path) -> list[str]:
    """The examples, without those that set up the reader's own shell or run without an end."""
    text = (repo_root / "docs" / "channel-delivery.md").read_text(encoding="utf-8")
    return [block for kind, block in _BLOCK.findall(text) if not kind]


async def shell(
    stage: Stage, script: str, given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run it as a person would, with our command on the path."""
    folder = stage.folder / "bin"
    folder.mkdir(exist_ok=True)
    command = folder / "agent-connect"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m agentconnect "$@"\n')
    command.chmod(0o700)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("AGENT_CONNECT_")}
    environment = {
        **kept,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "API": f"http://127.0.0.1:{stage.port}",
        "TOKEN": TOKEN,
        "AGENT_CONNECT_DAEMON_TOKEN": TOKEN,
        "AGENT_CONNECT_WORKSPACE": str(stage.folder / "workspace"),
    }
    with trio.fail_after(60):
        return await trio.run_process(
            ["sh", "-eu", "-c", script],
            env=environment,
            stdin=given,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )


async def test_the_examples_of_the_guide_work(tmp_path: Path, repo_root: Path) -> None:
    """Every one ends well, nothing of it is refused, and what it sends arrives."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    found = commands(repo_root)
    assert 6 <= len(found)
    async with staged(tmp_path) as stage:
        done = await shell(stage, "\n".join(found))
        out = done.stdout.decode()
        assert (0, "") == (done.returncode, done.stderr.decode()), out
        assert '"error"' not in out
        assert 3 == out.count('"deliveryId"') + out.count("sent: ")
        assert '"promptId"' in out
        assert "morning" in out
        assert "weekly" in out
        said = [text.strip() for text in stage.provider.texts]
        assert 3 == said.count("The backup has finished.")


async def test_notify_and_schedule_on_the_command_line(tmp_path: Path) -> None:
    """From an argument, from stdin, to another workspace; tasks from their making to their end."""
    to = f"--channel ops --to chat:{TARGET_ID}"
    async with staged(tmp_path) as stage:
        sent = await shell(stage, f"agent-connect notify {to} 'from an argument'")
        piped = await shell(stage, f"agent-connect notify {to} --in site", b"from stdin\n")
        assert [0, 0] == [sent.returncode, piped.returncode], sent.stderr + piped.stderr
        assert [("/main-in", "from an argument"), ("/site-in", "from stdin\n")] == [
            (path, body["text"]) for path, body in stage.provider.got
        ]
        refused = await shell(stage, "agent-connect notify --channel nope --to chat:x hello")
        assert 1 == refused.returncode
        assert b"No running channel worker owns this delivery (channel_worker_unavailable)" in (
            refused.stderr
        )

        add = f"agent-connect schedule add --cron '0 9 1 1 *' {to} '#say Happy new year.'"
        added = await shell(stage, add)
        assert (0, b"") == (added.returncode, added.stderr)
        task = added.stdout.split()[1].decode()
        assert task.encode() in (await shell(stage, "agent-connect schedule list")).stdout
        ran = await shell(stage, f"agent-connect schedule run {task}")
        assert 0 == ran.returncode, ran.stderr
        await until(lambda: "Happy new year." in stage.provider.texts, "the task's answer")
        assert 0 == (await shell(stage, f"agent-connect schedule rm {task}")).returncode
        listed = await shell(stage, "agent-connect schedule list")
        assert b"no scheduled tasks\n" == listed.stdout
        gone = await shell(stage, f"agent-connect schedule rm {task}")
        assert (1, b"") == (gone.returncode, gone.stdout)
        assert b"There is no such task" in gone.stderr
        nope = add.replace("ops", "nope")
        for where in ("", " --in site", f" --in {stage.folder / 'site'}"):
            added = await shell(stage, nope + where)
            assert (0, True) == (added.returncode, added.stdout.startswith(b"added: "))
            assert b'"nope" is not a channel of this workspace now; runs will not' in added.stderr
        bad = await shell(stage, "agent-connect schedule add --cron 'x y' hello")
        assert b"invalid_cron" in bad.stderr
        assert 2 == (await shell(stage, "agent-connect schedule add hello")).returncode
    off = await shell_off(tmp_path)
    assert 1 == off.returncode
    assert b"is the worker running" in off.stderr
    lost = await shell_off(tmp_path, AGENT_CONNECT_DAEMON_TOKEN="")
    assert 2 == lost.returncode
    assert f"{tmp_path / 'workspace' / 'daemon-token'} is not there: ".encode() in lost.stderr


async def shell_off(folder: Path, **more: str) -> Done:
    """The command when the worker has ended."""
    return await trio.run_process(
        [sys.executable, "-m", "agentconnect", "schedule", "list"],
        env={
            **os.environ,
            "AGENT_CONNECT_DAEMON_TOKEN": TOKEN,
            "AGENT_CONNECT_WORKSPACE": str(folder / "workspace"),
            **more,
        },
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
