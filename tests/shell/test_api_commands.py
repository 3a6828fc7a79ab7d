"""``agent-connect notify`` and ``schedule``: what they send, and what they make of the answer."""

import io
import os
import sys
from pathlib import Path

import pytest
import trio

from agentconnect.cli.api import segment
from agentconnect.cli.main import main
from agentconnect.cli.notify import text_of
from agentconnect.cli.options import parse
from tests.support.raw_server import answering, raw_server

HALF = os.fsdecode(b"a\xffb")
"""An argument that is no UTF-8, as Python shows it."""
TO = ("--channel", "ops", "--to", "chat:x")


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
        done = await trio.run_process(
            [sys.executable, "-m", "agentconnect", "notify", *TO, "hi"],
            env={
                **os.environ,
                "AGENT_CONNECT_DAEMON_LISTEN": f"127.0.0.1:{server.port}",
                "AGENT_CONNECT_DAEMON_TOKEN": "x" * 40,
            },
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
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
