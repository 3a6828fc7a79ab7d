"""A running agent that is dialled: the door, the turns, the paths, the loss of the connection."""

import json
import logging
import shutil
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from agentconnect.acp.links import dialler
from agentconnect.adapters.acp import AcpAdapter, AcpSettings
from agentconnect.adapters.acp_session import AcpSession
from agentconnect.core.acp.endpoint import Endpoint, endpoint
from agentconnect.core.errors import PreflightError, SettingsError
from agentconnect.core.task import Attachment
from agentconnect.core.turns.events import Done, Event, FileOffered, Reason
from tests.shell.acp.later import DELIVERED, Service
from tests.shell.acp.rig import Outcome, Rig, until
from tests.support.remote_agent import RemoteAgent, remote_agent


class Dialled(Rig):
    """The adapter of :class:`Rig`, dialling instead of starting."""

    def __init__(
        self,
        folder: Path,
        dial: Endpoint,
        token: Callable[[], Awaitable[str]] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(folder, {}, {"dial": dial, **settings})
        self.adapter = AcpAdapter(
            AcpSettings(cwd=str(self.work), dial=dial, **settings),
            environment={},
            store=self.store,
            wall_clock=lambda: self.now(),
            token=token,
        )


async def turns(rig: Rig, *texts: str, during: Any = None) -> list[Outcome]:
    """Each text as a turn of one running adapter."""
    outcomes = []
    async with trio.open_nursery() as agents:
        await agents.start(rig.adapter.run)
        for text in texts:
            outcomes.append(await rig.turn(text, during=during))
        agents.cancel_scope.cancel()
    return outcomes


async def preflight(rig: Rig) -> str:
    async with trio.open_nursery() as agents:
        await agents.start(rig.adapter.run)
        try:
            return await rig.adapter.preflight()
        except PreflightError as error:
            return str(error)
        finally:
            agents.cancel_scope.cancel()


def there(agent: RemoteAgent) -> Endpoint:
    return endpoint(agent.url, allow_remote=False)


def elsewhere(agent: RemoteAgent) -> Endpoint:
    """The same server, seen as one on another machine."""
    found = there(agent)

    class Elsewhere(Endpoint, frozen=True, kw_only=True):
        @property
        def loopback(self) -> bool:
            return False

    return Elsewhere(host=found.host, port=found.port, resource=found.resource, secure=False)


async def test_each_turn_dials_and_continues(tmp_path: Path) -> None:
    """One message in each text frame; the second turn loads, and its replay is not shown."""
    async with remote_agent() as agent:
        rig = Dialled(tmp_path, there(agent))
        first, second = await turns(rig, "#say one", "#say two\n#history")
    assert (Done(reason=Reason.COMPLETED), "one") == (first.done, first.answer)
    assert ("two[turns 2]", []) == (second.answer, second.notices)
    assert ["/acp", "/acp"] == agent.paths
    assert 0 == agent.open
    assert all("\n" not in frame for frame in agent.frames)
    assert [
        *("initialize", "session/new", "session/prompt"),
        *("initialize", "session/load", "session/prompt"),
    ] == agent.methods()


async def test_the_preflight_dials_once_and_opens_no_session(tmp_path: Path) -> None:
    """And leaves no connection behind."""
    async with remote_agent() as agent:
        rig = Dialled(tmp_path, there(agent))
        assert "acp: remote 3" == await preflight(rig)
        await until(lambda: agent.open == 0)
    assert ["initialize"] == agent.methods()


async def test_the_bearer_is_read_for_each_dial(tmp_path: Path) -> None:
    """A rotated one needs no restart."""
    bearers = iter(("first", "second"))

    async def token() -> str:
        return next(bearers)

    async with remote_agent() as agent:
        await turns(Dialled(tmp_path, there(agent), token), "#say one", "#say two")
    assert ["Bearer first", "Bearer second"] == [h["authorization"] for h in agent.handshakes]


async def test_a_dialled_agent_delivers_over_a_connection_of_its_own(tmp_path: Path) -> None:
    """Dialled once more and held beside the turns' connections; dialled again when it is lost."""
    asked = {"id": "d", "method": "_ag2/deliver", "params": {"id": "d"}}
    async with remote_agent() as agent, trio.open_nursery() as agents:
        agent.delivers = True
        service = Service(tmp_path)
        rig = Dialled(tmp_path, there(agent), listener_pause_s=0.01)
        rig.adapter.deliver_by(service, service)
        await agents.start(rig.adapter.run)
        await rig.adapter.preflight()
        await agents.start(rig.adapter.listener)
        await until(lambda: "up" in service.states)
        (listener,) = agent.late
        assert "one" == (await rig.turn("#say one")).answer
        prompted = agent.sent("session/prompt")["_meta"]["ag2/delivery"]
        assert str(tmp_path / "export" / "-room-test") == prompted["export_dir"]
        await listener.write(asked)
        await until(lambda: {"result": DELIVERED, "jsonrpc": "2.0", "id": "d"} in agent.received)
        await listener.socket.aclose(1011, "restarted")
        await until(lambda: service.states.count("up") == 2)
        assert 2 == len(agent.late)
        agents.cancel_scope.cancel()


async def test_an_agent_elsewhere_delivers_nothing(tmp_path: Path) -> None:
    """It cannot fill a folder of this machine: it gets no listener and no binding."""
    async with remote_agent() as agent, trio.open_nursery() as agents:
        agent.delivers = True
        service = Service(tmp_path)
        rig = Dialled(tmp_path, elsewhere(agent), remote_cwd="/srv")
        rig.adapter.deliver_by(service, service)
        await agents.start(rig.adapter.run)
        await rig.adapter.preflight()
        await rig.adapter.listener()  # returns at once
        await rig.turn("#say one")
        assert not service.said
        assert "_meta" not in agent.sent("session/prompt")
        assert {"ag2/receive": True} == agent.sent("initialize")["_meta"]
        assert ([], []) == (agent.late, service.states)
        agents.cancel_scope.cancel()


async def test_cookies_come_back(tmp_path: Path) -> None:
    """Sticky routing: also over connections, and replaced when they change."""
    async with remote_agent() as agent:
        agent.cookie = "route=a; Path=/"
        rig = Dialled(tmp_path, there(agent))
        await turns(rig, "#say one", "#say two")
        agent.cookie = "route=a; Path=/; Max-Age=0"
        await turns(rig, "#say three", "#say four")
    assert [None, "route=a", "route=a", None] == [h.get("cookie") for h in agent.handshakes]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "refused the connection at the door (HTTP 401)"),
        (403, "refused the connection at the door (HTTP 403)"),
        (503, "cannot be reached: it answered HTTP 503"),
    ],
)
async def test_a_refusal_at_the_door(status: int, words: str, tmp_path: Path) -> None:
    """Said at the start and in a turn, with the setting, never with the bearer."""

    async def token() -> str:
        return "wrong-bearer"

    async with remote_agent() as agent:
        agent.bearer, agent.status = "right", status
        rig = Dialled(tmp_path, there(agent), token)
        assert words in await preflight(rig)
        (outcome,) = await turns(rig, "#say x")
    assert Reason.FAILED is outcome.done.reason
    assert words in outcome.done.note
    assert ("AGENT_CONNECT_ACP_TOKEN" in outcome.done.note) == (status != 503)
    assert "wrong-bearer" not in outcome.done.note
    assert "install" not in outcome.done.note


async def test_a_closed_door_is_unreachable(tmp_path: Path) -> None:
    """Nothing is started instead, and nobody is told to install anything."""
    async with remote_agent() as agent:
        where = there(agent)
    rig = Dialled(tmp_path, where)
    sentence = await preflight(rig)
    (outcome,) = await turns(rig, "#say x")
    for text in (sentence, outcome.done.note):
        assert "annot be reached" in text
        assert where.shown in text
        assert "install" not in text
    assert "" == outcome.answer


async def test_something_else_behind_the_door(tmp_path: Path) -> None:
    """A server that hangs up, or speaks another protocol, is unreachable too."""

    async def rude(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()

    async def smtp(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.send_all(b"220 mail.test ESMTP\r\n")
            await stream.receive_some()

    for number, server in enumerate((rude, smtp)):
        async with trio.open_nursery() as nursery:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, server, [listener])
            port = listener.socket.getsockname()[1]
            folder = tmp_path / str(number)
            folder.mkdir()
            where = endpoint(f"ws://127.0.0.1:{port}", allow_remote=False)
            with trio.fail_after(60):
                assert "cannot be reached" in await preflight(Dialled(folder, where))
            nursery.cancel_scope.cancel()


async def test_a_door_that_nobody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded: the turn's own deadline is not used up by knocking."""
    import agentconnect.acp.dial as dial

    monkeypatch.setattr(dial, "DIAL_LIMIT_S", 0.3)

    async def mute(stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, mute, [listener])
        where = endpoint(f"ws://localhost:{listener.socket.getsockname()[1]}", allow_remote=False)
        assert "cannot be reached: no answer within" in await preflight(Dialled(tmp_path, where))
        nursery.cancel_scope.cancel()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
async def test_tls_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate nobody vouches for is refused with the reason; a known one passes."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    await trio.run_process(
        [
            *("openssl", *words.split(), "-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        capture_stderr=True,
    )
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    async with remote_agent(tls) as agent:
        where = endpoint(f"wss://localhost:{agent.port}/acp", allow_remote=False)
        sentence = await preflight(Dialled(tmp_path, where))
        assert "cannot be reached: its certificate is not valid" in sentence
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        agent.cookie = "route=a; Path=/; Secure"
        rig = Dialled(tmp_path, where)
        first, second = await turns(rig, "#say one", "#say two")
    assert ("one", "two") == (first.answer, second.answer)
    assert "route=a" == agent.handshakes[-1]["cookie"]


async def test_a_bearer_that_no_header_carries(tmp_path: Path) -> None:
    """Said without its value."""

    async def token() -> str:
        return "a\r\nX-Evil: 1"

    async with remote_agent() as agent:
        sentence = await preflight(Dialled(tmp_path, there(agent), token))
    assert "AGENT_CONNECT_ACP_TOKEN" in sentence
    assert "Evil" not in sentence
    assert [] == agent.handshakes


async def test_a_cancel_reaches_it(tmp_path: Path) -> None:
    """``session/cancel`` over the wire; the partial text is kept."""

    async def interrupt(session: AcpSession, events: list[Event]) -> None:
        await until(lambda: events)
        await session.interrupt()

    async with remote_agent() as agent:
        (outcome,) = await turns(Dialled(tmp_path, there(agent)), "#hang", during=interrupt)
    assert (Reason.CANCELLED, "working") == (outcome.done.reason, outcome.answer)
    assert "session/cancel" in agent.methods()


async def test_one_that_ignores_the_cancel_is_dropped(tmp_path: Path) -> None:
    """All that can be done from here; and at once, whatever it does."""

    async def kill(session: AcpSession, events: list[Event]) -> None:
        await until(lambda: events)
        await session.interrupt()
        await session.kill()

    async with remote_agent() as agent:
        rig = Dialled(tmp_path, there(agent))
        assert rig.adapter.remote
        with trio.fail_after(60):
            (outcome,) = await turns(rig, "#deaf\n#say never", during=kill)
        assert "working" == outcome.answer
        await until(lambda: agent.open == 0)
        (after,) = await turns(rig, "#say on")
    assert "on" == after.answer


async def test_a_lost_connection_is_one_failed_turn(tmp_path: Path) -> None:
    """What was said stays; it may go on over there, and that is said."""
    async with remote_agent() as agent:
        rig = Dialled(tmp_path, there(agent))
        lost, after = await turns(rig, "#say so far\n#drop", "#say back\n#history")
    assert (Reason.FAILED, "so far") == (lost.done.reason, lost.answer)
    assert "may still be working" in lost.done.note
    assert "try to continue" in lost.done.note
    assert "process" not in lost.done.note
    assert "back[turns 2]" == after.answer


async def test_large_messages_pass_and_larger_ones_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound of stdio holds here too."""
    import agentconnect.acp.dial as dial

    async with remote_agent() as agent:
        rig = Dialled(tmp_path, there(agent))
        (outcome,) = await turns(rig, "#huge 8000000\n#say !")
        assert 8_000_001 == len(outcome.answer)
        monkeypatch.setattr(dial, "MAX_LINE_BYTES", 1024 * 1024)
        (outcome,) = await turns(rig, "#say before\n#huge 2000000")
    assert Reason.FAILED is outcome.done.reason
    assert "more than 1 MiB" in outcome.done.note
    assert "before" == outcome.answer


async def test_the_directory_sent_is_root_and_record(tmp_path: Path) -> None:
    """The session is retired when that changes, not when ours does."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    async with remote_agent() as agent:
        rig = Dialled(tmp_path, there(agent), remote_cwd=str(theirs))
        (outcome,) = await turns(
            rig, f"#ask-write x.txt\n#ask-write {theirs}/y\n#ask-write {rig.work}/z\n#prompt"
        )
        assert "[yes][yes][no]" == outcome.answer[:14]
        assert f"Your working directory is {theirs}" in outcome.answer
        assert str(theirs) == agent.sent("session/new")["cwd"]
        (entry,) = json.loads((rig.state / "sessions.json").read_text())["sessions"]
        assert str(theirs) == entry["cwd"]
        moved = Dialled(tmp_path, there(agent), remote_cwd=str(tmp_path))
        (outcome,) = await turns(moved, "#history")
    assert "working directory has changed" in outcome.notices[0]
    assert "[turns 1]" == outcome.answer


async def test_an_agent_elsewhere_has_paths_of_its_own(tmp_path: Path) -> None:
    """Judged as text, never by our disk; no link of its files, no word on sending them."""
    inside, outside = tmp_path / "root", tmp_path / "other"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    async with remote_agent() as agent:
        rig = Dialled(tmp_path, elsewhere(agent), remote_cwd=str(inside))
        (outcome,) = await turns(
            rig,
            f"#ask-write link/x\n#ask-write ../other/x\n#ask-write ~/x\n"
            f"#ask-write {inside}/a/../b\n#link file://{inside}/b\n#prompt",
        )
    assert outcome.answer.startswith("[yes][no][no][yes]")
    assert [] == [event for event in outcome.events if isinstance(event, FileOffered)]
    assert "cannot be sent from here" in outcome.notices[0]
    assert "[file:" not in outcome.answer
    assert "(file:" not in outcome.answer


async def test_a_file_for_an_agent_elsewhere_names_no_path_of_ours(tmp_path: Path) -> None:
    """The bytes and the name are the same; one on this machine is told where the file is."""
    report = tmp_path / "a report.txt"
    report.write_bytes(b"words")
    file = Attachment(path=str(report), name="a report.txt", mime="text/plain", ok=True)
    sent = []
    for number, place in enumerate((there, elsewhere)):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with remote_agent() as agent, trio.open_nursery() as agents:
            rig = Dialled(folder, place(agent))
            await agents.start(rig.adapter.run)
            await rig.turn("#say x", attachments=(file,))
            agents.cancel_scope.cancel()
            sent.append(agent.sent("session/prompt")["prompt"][1]["resource"])
        assert rig.adapter.shares_files == (place is there)
    assert [report.as_uri(), "attachment:a%20report.txt"] == [each["uri"] for each in sent]
    assert ["d29yZHM="] * 2 == [each["blob"] for each in sent]


async def test_a_loopback_agent_may_link_files(tmp_path: Path) -> None:
    """Its files are this machine's."""
    async with remote_agent() as agent:
        (outcome,) = await turns(Dialled(tmp_path, there(agent)), "#link file:///tmp/a%20b")
    (offered,) = [event for event in outcome.events if isinstance(event, FileOffered)]
    assert "/tmp/a b" == offered.path


async def test_without_the_extra_it_is_a_setting_that_cannot_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Said at the start, with the line that installs it."""
    import sys

    monkeypatch.setitem(sys.modules, "agentconnect.acp.dial", None)

    async def token() -> str:
        return ""

    with pytest.raises(SettingsError, match=r"agentconnect\[dial\]"):
        dialler(endpoint("ws://localhost", allow_remote=False), token)


async def test_nothing_of_the_bearer_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor of the query of the address."""

    async def token() -> str:
        return "very-secret"

    caplog.set_level(logging.DEBUG)
    async with remote_agent() as agent:
        where = endpoint(f"{agent.url}?key=query-secret", allow_remote=False)
        rig = Dialled(tmp_path, where, token)
        await turns(rig, "#say one\n#drop", "#say two")
        assert ["/acp?key=query-secret"] * 2 == agent.paths
    ours = [r.getMessage() for r in caplog.records if r.name.startswith("agentconnect")]
    assert not any("secret" in line for line in ours)
    assert "query-secret" not in where.shown
