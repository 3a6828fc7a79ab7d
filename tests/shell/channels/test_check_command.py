"""``agent-connect channels check`` as a person runs it."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import trio

from agentconnect.channels.apprise import MISSING
from tests.shell.channels.doubles import Answer, Provider, Seen, Telegram


async def checked(**env: str) -> tuple[int, str, str]:
    """The exit code and what it said."""
    run = partial(
        subprocess.run,
        [sys.executable, "-m", "agentconnect", "channels", "check"],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    done = await trio.to_thread.run_sync(run)
    return done.returncode, done.stdout, done.stderr


def written(folder: Path, **channels: Any) -> str:
    path = folder / "channels.json"
    path.write_text(json.dumps({"v": 1, "channels": channels}))
    path.chmod(0o600)
    return str(path)


async def test_each_channel_is_one_line_and_nothing_is_sent(tmp_path: Path) -> None:
    """A good one, one whose token is refused, one with a mistake: exit 1."""
    double = Telegram("1:tok", 7)
    async with Provider(double).running() as provider:
        entry = {"type": "telegram", "base_url": provider.url}
        path = written(
            tmp_path,
            good=entry | {"token_env": "GOOD"},
            bad=entry | {"token_env": "BAD"},
            odd={"type": "telegram"},
        )
        code, out, err = await checked(AGENT_CONNECT_CHANNELS_FILE=path, GOOD="1:tok", BAD="2:bad")
    assert 1 == code
    assert [
        "ok    good (telegram): @ops_bot",
        "FAIL  bad (telegram): refused (HTTP 401): look at what the channels file says of it",
    ] == out.splitlines()
    assert f'{path}: channel "odd" is left out: token_env or token_file is missing' in err
    assert "2:bad" not in out + err
    assert [] == double.messages
    assert {"GET"} == {seen.method for seen in provider.seen}


async def test_a_long_reason_is_said_to_its_end(tmp_path: Path) -> None:
    """Here the command that mends it, where the extra is not installed."""
    (tmp_path / "apprise.py").write_text("raise ModuleNotFoundError")
    path = written(tmp_path, others={"type": "apprise", "targets": {"ops": {"url_env": "WHERE"}}})
    _, out, _ = await checked(
        AGENT_CONNECT_CHANNELS_FILE=path, WHERE="json://127.0.0.1", PYTHONPATH=str(tmp_path)
    )
    assert f"({MISSING}): look at what the channels file says of it" in out


async def test_all_good_is_exit_0_also_from_the_default_place(home: Path) -> None:
    """The file of the primary workspace; secrets may come from the config file."""
    double = Telegram("1:tok")
    folder = home / ".agent-connect" / "workspace" / "workspaces" / "main"
    folder.mkdir(parents=True)
    config = home / ".agent-connect" / "config.env"
    config.write_text("AGENT_CONNECT_LOG=text\n")
    config.chmod(0o600)
    async with Provider(double).running() as provider:
        written(folder, ops={"type": "telegram", "base_url": provider.url, "token_env": "T"})
        code, out, err = await checked(T="1:tok")
    assert (0, "ok    ops (telegram): @ops_bot\n", "") == (code, out, err)


async def test_every_workspace_is_looked_at(home: Path) -> None:
    """Those beside the primary one are named; a room takes the worker's own token."""
    double = Telegram("1:tok")
    places = home / ".agent-connect" / "workspace" / "workspaces"
    for name in ("main", "side"):
        (places / name).mkdir(parents=True)
    answers: dict[str, Answer] = {"/v1/capabilities": (200, {"features": []})}

    def answer(seen: Seen) -> Answer:
        return answers.get(seen.path) or double(seen)

    async with Provider(answer).running() as provider:
        entry = {"type": "telegram", "base_url": provider.url, "token_env": "T"}
        written(places / "side", ops=entry)
        written(places / "main", own={"type": "room"})
        own = {"AGENT_CONNECT_TOKEN": "bare-secret", "REMOTE_TASK_URL": provider.url}
        code, out, err = await checked(T="1:tok", **own)
        assert "Bearer bare-secret" == provider.seen[0].headers["authorization"]
    assert (0, "") == (code, err)
    assert [
        "ok    own (room): the relay takes the token",
        "ok    side/ops (telegram): @ops_bot",
    ] == out.splitlines()


async def test_without_a_file_it_says_where_one_would_be(home: Path) -> None:
    """Exit 2 and one sentence."""
    code, out, err = await checked()
    assert (2, "") == (code, out)
    assert err.startswith("agent-connect: no channels are configured: ")
    assert "workspaces/main/channels.json is not there (docs/channels.md)" in err


async def test_a_channel_worker_without_a_daemon_just_ends() -> None:
    """Started by hand with nothing to read: no traceback."""
    run = partial(
        subprocess.run,
        [sys.executable, "-m", "agentconnect", "channel-worker"],
        input="nonsense\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    done = await trio.to_thread.run_sync(run)
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


def test_a_stray_print_does_not_stand_between_the_workers_lines() -> None:
    """It goes where logs go."""
    program = "from agentconnect.channels import worker\nworker._own_pipes()\nprint('stray')\n"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=60, check=False
    )
    assert (b"", b"stray\n") == (done.stdout, done.stderr)
