"""Notify: one attempt, waited for, whatever becomes of who asked (§11.1)."""

import json
from pathlib import Path

import pytest
import trio

from tests.support.daemon import DELIVERY, NOTIFY, running, until
from tests.support.http_client import answer, head

CODES = {
    "missing": (503, "channel_worker_unavailable"),
    "full": (503, "channel_delivery_queue_full"),
    "timeout": (504, "channel_delivery_timeout"),
    "reject": (502, "channel_delivery_rejected"),
    "fail": (502, "channel_delivery_failed"),
}


@pytest.mark.parametrize("state", CODES)
async def test_each_way_to_fail_has_its_answer(tmp_path: Path, state: str) -> None:
    """Status, code and a fixed text; nothing says that it may be tried again."""
    async with running(tmp_path) as api:
        api.channels.default = state
        reply = await api.call("POST", "/workspace/notify", NOTIFY)
    assert CODES[state] == (reply.status, reply.code)
    assert {"error", "code"} == set(reply.json)
    assert "" == reply.header("retry-after")


async def test_two_equal_calls_are_two_messages(tmp_path: Path) -> None:
    """Each has an id of its own."""
    async with running(tmp_path) as api:
        first = await api.call("POST", "/workspace/notify", NOTIFY)
        second = await api.call("POST", "/workspace/notify", NOTIFY)
        ids = [wanted.delivery_id for _, wanted, _ in api.channels.sent]
    assert [first.json["deliveryId"], second.json["deliveryId"]] == ids
    assert 2 == len(set(ids))


async def test_the_primary_route_is_the_primary_workspace_alone(tmp_path: Path) -> None:
    """Neither falls back to the other."""
    async with running(tmp_path) as api:
        api.channels.workers["main"] = "missing"
        assert 503 == (await api.call("POST", "/workspace/notify", NOTIFY)).status
        assert 200 == (await api.call("POST", "/workspaces/side/notify", NOTIFY)).status
        api.channels.workers = {"side": "missing"}
        assert 503 == (await api.call("POST", "/workspaces/side/notify", NOTIFY)).status
        assert 200 == (await api.call("POST", "/workspaces/main/notify", NOTIFY)).status
    assert ["side", "main"] == [workspace for workspace, _, _ in api.channels.sent]


async def test_a_client_that_leaves_changes_nothing(tmp_path: Path) -> None:
    """The attempt that it asked for runs to its end."""
    async with running(tmp_path) as api:
        api.channels.gate = trio.Event()
        body = json.dumps(NOTIFY).encode()
        async with await trio.open_tcp_stream("127.0.0.1", api.port) as stream:
            await stream.send_all(head("POST", "/workspace/notify", api.headers, body))
            await until(lambda: len(api.channels.sent) == 1)
        assert 200 == (await api.call("GET", "/health")).status
        assert 0 == api.channels.finished
        api.channels.gate.set()
        await until(lambda: api.channels.finished == 1)


async def refuses(port: int) -> None:
    """Return when nothing listens there any more."""
    with trio.fail_after(60):
        while True:
            try:
                await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
            except OSError:
                return
            await trio.sleep(0.01)


async def test_a_request_that_is_being_handled_at_a_stop_is_answered(tmp_path: Path) -> None:
    """The socket closes first; what is under way ends, what is being read is refused."""
    async with running(tmp_path) as api:
        api.channels.gate = trio.Event()
        body = json.dumps(NOTIFY).encode()
        port = api.port
        async with (
            await trio.open_tcp_stream("127.0.0.1", port) as waiting,
            await trio.open_tcp_stream("127.0.0.1", port) as half,
        ):
            whole = head("POST", "/workspace/notify", api.headers, body)
            await waiting.send_all(whole)
            await half.send_all(whole[:-5])
            await until(lambda: len(api.channels.sent) == 1)
            api.intake.cancel()
            await refuses(port)
            await half.send_all(whole[-5:])
            late = await answer(half)
            api.channels.gate.set()
            reply = await answer(waiting)
    assert 200 == reply.status
    assert (503, "channel_worker_unavailable") == (late.status, late.code)


async def test_the_agent_is_not_asked(tmp_path: Path) -> None:
    """Notify works where the adapter has no sessions; session and task routes do not."""
    async with running(tmp_path, sessions=False) as api:
        assert 200 == (await api.call("POST", "/workspace/notify", NOTIFY)).status
        for method, path, body in (
            ("POST", "/session", {}),
            ("GET", "/scheduled-tasks", None),
            ("POST", "/scheduled-tasks", {"cron": "0 9 * * *", "prompt": "x"}),
        ):
            reply = await api.call(method, path, body)
            assert (503, "workspace_runtime_unavailable") == (reply.status, reply.code)
            assert "1" == reply.header("retry-after")


async def test_a_mistake_of_ours_is_one_of_the_six(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception without a code is a failure, and the server goes on."""

    async def broken(*_args: object, **_more: object) -> object:
        raise RuntimeError(str(DELIVERY))

    async with running(tmp_path) as api:
        monkeypatch.setattr(api.channels, "deliver", broken)
        reply = await api.call("POST", "/workspace/notify", NOTIFY)
        assert (502, "channel_delivery_failed") == (reply.status, reply.code)
        assert "!room1" not in reply.body.decode()
        assert 200 == (await api.call("GET", "/health")).status
