"""From settings to the daemon: its address, its token, its workspaces; and what is refused."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentconnect.core.errors import SettingsError
from agentconnect.daemon.server import listening
from agentconnect.daemon.setup import DaemonParts, prepare, read_listen, read_token, refusals
from agentconnect.store.layout import Layout


def prepared(folder: Path, **more: object) -> DaemonParts:
    where = Layout(state_dir=folder / "state")
    where.prepare()
    (folder / "repo").mkdir(exist_ok=True)
    options = {
        "listen": "127.0.0.1:0",
        "token": "",
        "origins": "",
        "where": where,
        "repo": folder / "repo",
        "channels": None,
        "environment": {},
        "own_token": "",
    }
    return prepare(**(options | more))  # type: ignore[arg-type]


def test_a_token_is_made_once(tmp_path: Path) -> None:
    """32 random bytes in a file of ours alone; the next start uses the same."""
    first = prepared(tmp_path)
    second = prepared(tmp_path)
    file = tmp_path / "state" / "daemon-token"
    assert first.token == second.token == file.read_text().strip()
    assert 43 == len(first.token)
    assert 0o600 == file.stat().st_mode & 0o777
    assert first.token not in repr(first)
    assert first.token in first.secrets


def test_a_token_of_the_environment_wins(tmp_path: Path) -> None:
    """And no file is made for it."""
    assert "mine" == prepared(tmp_path, token="mine").token
    assert not (tmp_path / "state" / "daemon-token").exists()


def test_an_address_that_others_reach_needs_a_token_of_the_owner(tmp_path: Path) -> None:
    """Of the environment, or a file that was there."""
    with pytest.raises(SettingsError, match="AGENT_CONNECT_DAEMON_TOKEN"):
        prepared(tmp_path, listen="0.0.0.0:0")
    assert not (tmp_path / "state" / "daemon-token").exists()
    assert "mine" == prepared(tmp_path, listen="0.0.0.0:0", token="mine").token
    file = tmp_path / "state" / "daemon-token"
    file.write_text("of-the-owner\n")
    file.chmod(0o600)
    assert "of-the-owner" == prepared(tmp_path, listen="0.0.0.0:0").token


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (os.mkfifo, "token is no file for a token: it is not a regular file."),
        (os.mkdir, "token cannot be read: Is a directory."),
    ],
)
def test_a_pipe_where_the_token_belongs_holds_up_no_start(
    make: Callable[[Path], None], words: str, tmp_path: Path
) -> None:
    """Nor a folder: a sentence, at once."""
    make(tmp_path / "token")
    with pytest.raises(SettingsError, match=words):
        read_token(tmp_path / "token")


def test_a_token_file_that_others_read_is_refused(tmp_path: Path) -> None:
    """With the command that mends it, and without the token."""
    file = tmp_path / "token"
    file.write_text("planted")
    file.chmod(0o644)
    with pytest.raises(SettingsError, match="chmod 600") as caught:
        read_token(file)
    assert "planted" not in str(caught.value)


@pytest.mark.parametrize("text", ["4170", "127.0.0.1", "127.0.0.1:99999", "host.example:1", ":1"])
def test_an_address_is_host_and_port(text: str) -> None:
    """A name could lead anywhere, so it must be an address."""
    with pytest.raises(SettingsError, match="AGENT_CONNECT_DAEMON_LISTEN"):
        read_listen(text)


@pytest.mark.parametrize(
    ("text", "host", "loopback"),
    [
        ("127.0.0.1:4170", "127.0.0.1", True),
        ("localhost:4170", "127.0.0.1", True),
        ("[::1]:4170", "::1", True),
        ("127.0.0.2:4170", "127.0.0.2", True),
        ("0.0.0.0:4170", "0.0.0.0", False),
        ("[::]:4170", "::", False),
    ],
)
def test_loopback_is_told_by_the_address(text: str, host: str, loopback: bool) -> None:
    """The host check and the free health route depend on it."""
    found = read_listen(text)
    assert (host, 4170, loopback) == (found.host, found.port, found.loopback)


def test_all_wrong_settings_are_said_at_once() -> None:
    """None while the API is off; no value of a token is repeated."""
    assert () == refusals("", "a b", "*")
    found = refusals("x", "planted secret", "*")
    assert 3 == len(found)
    assert "planted" not in "".join(found)
    for sentence, name in zip(found, ("LISTEN", "ALLOW_ORIGIN", "TOKEN"), strict=True):
        assert f"AGENT_CONNECT_DAEMON_{name}" in sentence


def test_a_port_that_is_taken_is_a_sentence() -> None:
    """It names the setting and what to do."""
    first, bound = listening(read_listen("127.0.0.1:0"))
    with first, pytest.raises(SettingsError, match="port 0 takes any that is free"):
        listening(read_listen(f"127.0.0.1:{bound.port}"))


def test_channels_of_a_folder_that_is_not_trusted_are_not_read(tmp_path: Path) -> None:
    """Nor are those whose file others can read; each is one sentence."""
    state = tmp_path / "state"
    state.mkdir()
    (tmp_path / "dark").mkdir()
    known = [{"id": "dark", "cwd": str(tmp_path / "dark")}, {"id": "no", "cwd": "/no/such"}]
    (state / "workspaces.json").write_text(json.dumps({"v": 1, "workspaces": known}))
    (state / "workspaces.json").chmod(0o600)
    channel = {"type": "webhook", "url": "http://127.0.0.1:1/", "secret_env": "PLANTED_SECRET"}
    for name in ("main", "dark"):
        file = state / "workspaces" / name / "channels.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({"v": 1, "channels": {"ops": channel}}))
        file.chmod(0o600)
    found = prepared(tmp_path, environment={"PLANTED_SECRET": "s3cret"})
    assert ["main"] == list(found.channels)
    assert ["main", "dark"] == [each.id for each in found.workspaces]
    assert {"PLANTED_SECRET"} == found.secret_variables
    assert "s3cret" in found.secrets
    assert 1 == len(found.problems)
    assert "Entry 2" in found.problems[0]


def test_a_channels_file_that_was_named_and_is_missing_is_said(tmp_path: Path) -> None:
    """A slip in its name is no wish for no channels; the default place may be empty."""
    (problem,) = prepared(tmp_path, channels=tmp_path / "chanels.json").problems
    assert f"AGENT_CONNECT_CHANNELS_FILE names {tmp_path / 'chanels.json'}" in problem
    assert () == prepared(tmp_path).problems


def test_without_the_api_no_web_server_is_imported() -> None:
    """What a worker imports to run holds neither Starlette nor Hypercorn."""
    program = (
        "import sys; import agentconnect.app; "
        "print(sorted({n.partition('.')[0] for n in sys.modules} & {'starlette', 'hypercorn'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ("[]\n", "") == (done.stdout, done.stderr)
