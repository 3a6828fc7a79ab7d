"""Bad input, bad networks and bad files: a sentence, never a trace, never a stuck relay."""

import os
from pathlib import Path

import httpx
import pytest
import trio

from agentconnect.core.errors import StoreUnreadableError
from agentconnect.embedded.faults import At, Fault
from tests.support.relay import Relay, running_relay

_UNKNOWN = '{"error":"The bearer is unknown."}'


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer nope", "Basic abc", "Bearer \u00e9", "Bearer " + "x" * 9000],
)
async def test_a_wrong_token_is_401_with_one_body(tmp_path: Path, authorization: str) -> None:
    """Every route and every kind of wrong bearer answers the same."""
    async with running_relay(tmp_path) as relay:
        headers = [(b"authorization", authorization.encode())] if authorization else []
        for method, path in (
            ("GET", "/v1/tasks"),
            ("POST", "/v1/tasks/x/ack"),
            ("POST", "/v1/results"),
            ("POST", "/v1/heartbeat"),
            ("POST", "/v1/room"),
            ("POST", "/v1/rooms/r/messages"),
            ("POST", "/v1/rooms/r/media"),
            ("GET", "/v1/capabilities"),
            ("GET", "/v1/media/local/x"),
            ("GET", "/v1/events/stream"),
        ):
            answer = await relay.client.request(method, relay.base + path, headers=headers)
            assert (answer.status_code, answer.text) == (401, _UNKNOWN)


async def test_health_needs_no_bearer(tmp_path: Path) -> None:
    """Liveness is told to anybody and takes no task."""
    async with running_relay(tmp_path) as relay:
        answer = await relay.client.get(relay.base + "/v1/healthz")
        assert answer.json() == {"ok": True}
        assert "server" not in answer.headers


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1]", b"null", b'"x"', b"\xff\xfe", b"[" * 60_000, b'{"id":1}', b'{"id":"x"}'],
)
async def test_malformed_json_is_400(tmp_path: Path, content: bytes) -> None:
    """What is not the JSON that was asked for is 400 with a sentence, on each route."""
    async with running_relay(tmp_path) as relay:
        routes = ["/v1/results", "/v1/room", "/v1/rooms/r/messages", "/v1/rooms/r/media"]
        for path in routes:
            answer = await relay.call("POST", path, content=content)
            assert answer.status_code == 400, path
            assert set(answer.json()) == {"error"}
        async with relay.visitor() as browser:
            for path in ("/page/login", f"/page/rooms/{relay.room}/messages", "/page/rooms"):
                assert (await browser.post(path, content=content)).status_code == 400


async def test_lone_surrogates_become_replacement_characters(tmp_path: Path) -> None:
    """An answer with half of a surrogate pair is taken, with U+FFFD in its place."""
    async with running_relay(tmp_path) as relay:
        await relay.say("go")
        (task,) = await relay.poll()
        raw = f'{{"id":"{task["id"]}","body":"a\\ud83db"}}'.encode()
        assert (await relay.call("POST", "/v1/results", content=raw)).json() == {"ok": True}
        assert (await relay.bodies())[-1] == "a\ufffdb"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/relay/v1/nothing", 404),
        ("GET", "/relay", 404),
        ("GET", "/relay/", 404),
        ("GET", "/page/nothing", 404),
        ("DELETE", "/relay/v1/tasks", 405),
        ("HEAD", "/relay/v1/tasks", 405),
        ("GET", "/relay/v1/results", 405),
        ("GET", "/page/login", 405),
        ("GET", "/relay/v1/tasks/", 404),
    ],
)
async def test_unknown_routes(tmp_path: Path, method: str, path: str, status: int) -> None:
    """What is not there is 404, a wrong method 405; nothing redirects."""
    async with running_relay(tmp_path) as relay:
        headers = {"authorization": f"Bearer {relay.secret}"}
        answer = await relay.client.request(method, relay.relay.origin + path, headers=headers)
        assert answer.status_code == status


@pytest.mark.parametrize("wait", ["", "nan", "-5", "abc", "1e9x", "inf"])
async def test_any_wait_is_answered(tmp_path: Path, wait: str) -> None:
    """A wait that is no number of seconds is none, or the cap."""
    async with running_relay(tmp_path) as relay:
        await relay.say("there already")
        answer = await relay.call("GET", f"/v1/tasks?wait={wait}")
        assert len(answer.json()["tasks"]) == 1


async def test_heads_beyond_64_kib_are_refused(tmp_path: Path) -> None:
    """A request head that never ends is cut off, and the relay goes on."""
    async with running_relay(tmp_path) as relay:
        try:
            headers = {"x-long": "a" * 1_000_000}
            answer = await relay.client.get(relay.base + "/v1/healthz", headers=headers)
            assert answer.status_code in (400, 431)
        except httpx.TransportError:
            pass
        assert (await relay.client.get(relay.base + "/v1/healthz")).status_code == 200


async def test_clients_that_hang_up_leave_nothing_behind(tmp_path: Path) -> None:
    """Polls, half-sent uploads and garbage that are cut off do not keep the relay from working."""
    async with running_relay(tmp_path) as relay:
        port = int(relay.relay.origin.rpartition(":")[2])
        head = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {relay.secret}\r\n"
        for data in (
            f"GET /relay/v1/tasks?wait=30 HTTP/1.1\r\n{head}\r\n",
            f"POST /relay/v1/results HTTP/1.1\r\n{head}Content-Length: 1000\r\n\r\n{{",
            "NONSENSE\r\n\r\n",
        ):
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            await stream.send_all(data.encode())
            await stream.aclose()
        with trio.fail_after(60):
            while relay.relay.open_polls(relay.agent):
                await trio.sleep(0.01)
        await relay.say("still here")
        assert len(await relay.poll()) == 1


async def test_an_error_inside_is_500_without_a_trace(tmp_path: Path) -> None:
    """A callable that breaks costs its own request; the answer quotes nothing of it."""

    async def broken() -> object:
        raise RuntimeError("/secret/path")

    async with running_relay(tmp_path, extras=broken) as relay, relay.visitor() as browser:
        answer = await browser.get("/page/extras")
        assert answer.status_code == 500
        assert "secret" not in answer.text
        assert (await browser.get("/page/state")).status_code == 200


@pytest.mark.parametrize("content", [b"", b"garbage, not a database at all" * 40])
async def test_a_file_that_is_no_database_is_never_replaced(tmp_path: Path, content: bytes) -> None:
    """An empty or foreign relay.db stops the start, and stays as it is."""
    path = trio.Path(tmp_path / "relay.db")
    await path.write_bytes(content)
    with pytest.raises(StoreUnreadableError):
        async with running_relay(tmp_path):
            pass
    assert await path.read_bytes() == content


async def test_files_are_for_the_owner_only(tmp_path: Path) -> None:
    """Database and folders are readable by nobody else, whatever the umask says."""
    before = os.umask(0o022)
    try:
        async with running_relay(tmp_path / "state"):
            folder = trio.Path(tmp_path / "state")
            assert (await folder.stat()).st_mode & 0o777 == 0o700
            for name in ("relay.db", "relay.db-wal"):
                assert (await (folder / name).stat()).st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


async def test_secrets_are_stored_as_hashes(tmp_path: Path) -> None:
    """Neither a bearer nor a link stands in any file of the state folder."""
    async with running_relay(tmp_path) as relay:
        secrets = [relay.secret.encode(), relay.setup.link_token.encode()]
        assert relay.secret not in repr(relay.setup)
        for path in await trio.Path(tmp_path).iterdir():
            if await path.is_file():
                data = await path.read_bytes()
                assert not any(secret in data for secret in secrets)


async def test_planned_faults(tmp_path: Path) -> None:
    """Each fault does what it says for as many calls as it was planned for."""
    async with running_relay(tmp_path) as relay:
        await _faults(relay)


async def _faults(relay: Relay) -> None:
    relay.faults.plan(Fault(method="POST", path="/v1/room", status=503, times=2))
    assert [(await relay.op("members")).status_code for _ in range(3)] == [503, 503, 200]
    relay.faults.plan(Fault(method="POST", path="/v1/room", skip=1, status=500))
    assert [(await relay.op("members")).status_code for _ in range(3)] == [200, 500, 200]
    relay.faults.plan(Fault(method="POST", path="/v1/room", drop=True))
    with pytest.raises(httpx.TransportError):
        await relay.op("message", body="applied")
    relay.faults.plan(Fault(method="POST", path="/v1/room", cut=True))
    with pytest.raises(httpx.TransportError):
        await relay.op("message", body="not applied")
    relay.faults.plan(Fault(method="POST", path="/v1/room", late_s=0.01))
    assert (await relay.op("members")).status_code == 200
    assert await relay.bodies() == ["applied"]
    relay.faults.skew_s = 3600
    await relay.op("message", body="later")
    first, second = await relay.relay.messages(relay.room)
    assert second.ts - first.ts > 3500
    assert ("POST", "/relay/v1/room") in relay.faults.seen


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("lost", ["drop", "cut"])
@pytest.mark.parametrize("at", list(At))
async def test_a_lost_answer_ends_where_it_was_told(
    tmp_path: Path, at: At, lost: str, reset: bool
) -> None:
    """An answer is lost before any byte, within its head, or within its body; ended or broken."""
    async with running_relay(tmp_path) as relay:
        fault = Fault(method="POST", path="/v1/room", at=at, reset=reset)
        fault.drop, fault.cut = lost == "drop", lost == "cut"
        relay.faults.plan(fault)
        body = b'{"op":"message","room_id":"%s","body":"hello"}' % relay.room.encode()
        head = b"POST /relay/v1/room HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
        lengths = b"Content-Length: %d\r\n\r\n" % len(body)
        stream = await trio.open_tcp_stream("127.0.0.1", relay.port)
        await stream.send_all(head % relay.secret.encode() + lengths + body)
        got, broke = b"", False
        try:
            while part := await stream.receive_some():
                got += part
        except trio.BrokenResourceError:
            broke = True
        await stream.aclose()
        before, _, after = got.partition(b"\r\n\r\n")
        if not reset:  # a reset may also take back what was sent
            assert bool(before) is (at is not At.START)
            assert bool(after) is (at is At.BODY)
        assert broke is reset
        assert await relay.bodies() == (["hello"] if lost == "drop" else [])
