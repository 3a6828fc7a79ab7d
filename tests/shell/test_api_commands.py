"""``agent-connect notify`` and ``schedule``: what they send, and what they make of the answer."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from agentconnect.cli.api import segment
from agentconnect.cli.main import main
from agentconnect.cli.notify import text_of
from agentconnect.cli.options import parse
from tests.support.raw_server import Peer, RawServer, answering, raw_server

HALF = os.fsdecode(b"a\xffb")
"""An argument that is no UTF-8, as Python shows it."""
TO = ("--channel", "ops", "--to", "chat:x")


async def asked(
    server: RawServer, *arguments: str, **env: str
) -> subprocess.CompletedProcess[bytes]:
    """The command as a process, its API that server."""
    address = {
        "AGENT_CONNECT_DAEMON_LISTEN": f"127.0.0.1:{server.port}",
        "AGENT_CONNECT_DAEMON_TOKEN": "x" * 40,
    }
    return await trio.run_process(
        [sys.executable, "-m", "agentconnect", *arguments],
        env={**os.environ, **address, **env},
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["notify", "--channel", HALF, "--to", "chat:x", "hi"],
        ["notify", "--channel", "ops", "--to", f"chat:{HALF}", "hi"],
        ["schedule", "add", "--cron", "0 0 1 1 *", HALF],
    ],
)
def test_an_argument_that_is_no_text_is_refused(
    arguments: list[str],
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A target is used word for word, so nothing is put in the place of what cannot be read."""
    monkeypatch.setenv("AGENT_CONNECT_DAEMON_LISTEN", "127.0.0.1:9")
    monkeypatch.setenv("AGENT_CONNECT_DAEMON_TOKEN", "x" * 40)
    assert 2 == main(arguments)
    assert "an argument has bytes that are no text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("", "gave no whole answer (RemoteDisconnected): it may have done what was asked, or not"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "no whole answer (IncompleteRead)"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "is not the worker's API"),
        ("HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nok", "the worker's API refused (503)"),
        (
            "HTTP/1.1 503 No\r\nContent-Length: 51\r\n\r\n"
            '{"error":"No.","code":"channel_worker_unavailable"}',
            "No (channel_worker_unavailable). See: agent-connect status, agent-connect channels",
        ),
    ],
)
async def test_only_a_whole_answer_of_the_api_says_that_it_was_sent(
    answer: str, said: str, home: Path
) -> None:
    """A worker that is killed amid a send may have sent; another program surely did not."""
    async with raw_server(answering(answer.encode())) as server:
        done = await asked(server, "notify", *TO, "hi")
    assert (1, b"") == (done.returncode, done.stdout)
    assert said in done.stderr.decode()


@pytest.mark.parametrize("token", ["two\nlines", "two words", "schl\u00fcssel", "\u65e5\u672c"])
def test_a_token_of_the_api_that_is_none_is_refused_unquoted(
    token: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is a secret, and the sentence is the worker's own."""
    monkeypatch.setenv("AGENT_CONNECT_DAEMON_LISTEN", "127.0.0.1:9")
    monkeypatch.setenv("AGENT_CONNECT_DAEMON_TOKEN", token)
    assert 2 == main(["notify", *TO, "hi"])
    said = capsys.readouterr().err
    assert said.startswith("agent-connect: AGENT_CONNECT_DAEMON_TOKEN holds a character that no")
    assert token not in said


def test_an_id_that_is_no_text_is_a_segment_like_any_other() -> None:
    """It names nothing, and the API says so."""
    assert "a%3Fb" == segment(HALF)


def test_the_text_of_notify_keeps_what_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a program wrote in another encoding is worth sending all the same."""
    assert "a\ufffdb" == text_of(parse(["notify", *TO, HALF]))
    piped = io.TextIOWrapper(io.BytesIO(b"caf\xe9 \xf0\x9f\x98\x80\n"), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", piped)
    assert "caf\ufffd 😀\n" == text_of(parse(["notify", *TO]))


def test_notify_without_a_text_and_without_a_stdin_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A supervisor may start a program with its stdin closed."""
    monkeypatch.setattr(sys, "stdin", None)
    assert 2 == main(["notify", *TO])
    assert "notify needs a text: as an argument, or on stdin" in capsys.readouterr().err


CREATED = b'{"id":"t1","cron":"0 9 * * *","enabled":true,"recurring":true,"name":"n"}'
WARNED = '"ops" is not a channel of this workspace now; runs will not be delivered until it is.'


def replied(body: bytes, status: int = 201) -> bytes:
    """An answer of the API."""
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (
        status,
        len(body),
        body,
    )


def channels_of(home: Path, workspace: str, *names: str, mode: int = 0o600) -> None:
    """A channels file of the default place; the variable of its secret is not set here."""
    path = home / ".agent-connect" / "workspace" / "workspaces" / workspace / "channels.json"
    path.parent.mkdir(parents=True)
    entry = {"type": "telegram", "token_env": "NOT_SET_IN_THIS_SHELL"}
    path.write_text(json.dumps({"v": 1, "channels": dict.fromkeys(names, entry)}))
    path.chmod(mode)


def registered(workspace: str, cwd: Path) -> bytes:
    """What the API says of its workspaces."""
    known = {"id": workspace, "cwd": str(cwd.resolve()), "primary": False, "trusted": True}
    return json.dumps({"v": 1, "workspaces": [known]}).encode()


async def scheduled(*more: str, capabilities: bytes = b"", **env: str) -> str:
    """Add a task for the channel ``ops``; what is said on stderr. It is taken whatever that is."""

    async def script(server: RawServer, peer: Peer) -> None:
        request = await peer.request()
        server.note(request)
        created = request[0].startswith(b"POST ")
        await peer.send(replied(CREATED) if created else replied(capabilities, 200))

    async with raw_server(script) as server:
        add = ("schedule", "add", "--cron", "0 9 * * *", *more, "hi")
        done = await asked(server, *add, **env)
    assert (0, b"added: t1") == (done.returncode, done.stdout[:9]), done.stderr
    return done.stderr.decode()


async def test_a_task_for_a_channel_that_is_not_there_is_added_with_a_warning(home: Path) -> None:
    """No channels file; one that others can use; one with another name; then one with that name."""
    assert WARNED in await scheduled(*TO)
    assert "" == await scheduled(), "it delivers nowhere"
    channels_of(home, "main", "ops", mode=0o644)
    assert WARNED in await scheduled(*TO)
    channels_of(home, "site", "opps")
    assert WARNED in await scheduled(*TO, "--in", "site")
    channels_of(home, "other", "ops")
    assert "" == await scheduled(*TO, "--in", "other")


async def test_a_workspace_by_its_path_is_looked_up_by_its_id(home: Path) -> None:
    """And one that cannot be told gives no warning: the task is added already."""
    known, at = registered("site", home), ("--in", str(home))
    assert WARNED in await scheduled(*TO, *at, capabilities=known)
    channels_of(home, "site", "ops")
    assert "" == await scheduled(*TO, *at, capabilities=known)
    assert "" == await scheduled(*TO, *at, capabilities=b"{}")


@pytest.mark.parametrize(
    ("running", "warned"), [({"ops": "failed"}, False), ({"x": "running"}, True)]
)
async def test_the_running_worker_knows_its_channels_better_than_the_file(
    running: dict[str, str], warned: bool, home: Path, tmp_path: Path
) -> None:
    """It reads the file at its start, and may have been told another."""
    if warned:
        channels_of(home, "main", "ops")
    status = {"channels": {"workspaces": {"main": {"state": "running", "channels": running}}}}
    (tmp_path / "status.json").write_text(json.dumps(status))
    said = await scheduled(*TO, AGENT_CONNECT_STATUS_FILE=str(tmp_path / "status.json"))
    assert warned == (WARNED in said)
