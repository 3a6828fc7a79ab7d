"""Planted text, target, token and secrets: in no log, answer, argument list or environment."""

import os
from pathlib import Path

import pytest

from agentconnect.core.channels.ipc import Channel
from agentconnect.core.destination import Code
from tests.shell.channels.rig import SECRET, TARGET, TEXT, hook, managed, request
from tests.support.raw_server import RawServer, answering, patient, raw_server

TOKEN = "planted-token-of-a-bot"
PATH = "planted-path-of-a-webhook"
HIDDEN = (SECRET, TARGET, TEXT, TOKEN, PATH)


def talkative(server: RawServer) -> bytes:
    """An answer that repeats all that it was told."""
    body = f'{{"errcode":"{TARGET}","error":"{TEXT} to {TARGET} by {TOKEN}","ok":false}}'
    return b"HTTP/1.1 403 %b\r\nX: %b\r\nContent-Length: %d\r\n\r\n%b" % (
        TEXT.encode(),
        TOKEN.encode(),
        len(body),
        body.encode(),
    )


def told(pid: int, name: str) -> str:
    """What the system shows of a process."""
    return Path(f"/proc/{pid}/{name}").read_text()


async def test_nothing_planted_is_in_a_log_an_answer_an_argument_or_an_environment(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """For good endings, refusals that quote it all, no connection, and a death."""
    caplog.set_level("DEBUG")
    options = {"homeserver": "http://127.0.0.1:1", "msgtype": "m.text"}
    said: list[str] = []
    async with raw_server(patient) as good, raw_server(answering(talkative(good))) as bad:
        channels = {
            "good": hook(good.port, PATH),
            "bad": hook(bad.port, PATH),
            "gone": hook(1, PATH),
            "matrix": Channel(type="matrix", options=options, secrets={"token": TOKEN}),
            "telegram": Channel(
                type="telegram",
                options={"base_url": f"http://127.0.0.1:{bad.port}"},
                secrets={"token": TOKEN},
            ),
        }
        async with managed({"main": channels}) as rig:
            for name, code in (
                ("good", None),
                ("bad", Code.REJECTED),
                ("gone", Code.FAILED),
                ("matrix", Code.REJECTED),  # the id is none of Matrix
                ("telegram", Code.REJECTED),
                ("none", Code.UNAVAILABLE),
            ):
                ended = await rig.workers.deliver("main", request(channel=name), source="notify")
                assert code == ended.code
                said.append(repr(ended))
            said.append(repr(rig.workers.status()))
            said += [told(rig.children[0].pid, name) for name in ("cmdline", "environ")]
            os.kill(rig.children[0].pid, 9)
            await rig.until("main", "crashed")
            said += [child.stderr_tail(100_000) for child in rig.children]
    said += [caplog.text, *capfd.readouterr()]
    assert "channel delivery failed" in caplog.text
    assert "diagnostic=HTTP 403" in caplog.text
    for hidden in HIDDEN:
        assert [] == [text for text in said if hidden in text]


async def test_the_environment_of_a_worker_is_what_an_interpreter_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing of ours, and no proxy."""
    monkeypatch.setenv("AGENT_CONNECT_TOKEN", "https://relay|planted")
    monkeypatch.setenv("OPS_MATRIX_TOKEN", "planted")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:planted@proxy")
    async with raw_server(patient) as server, managed({"main": {"ops": hook(server.port)}}) as rig:
        environ = told(rig.children[0].pid, "environ")
    assert "PATH=" in environ
    assert "planted" not in environ
