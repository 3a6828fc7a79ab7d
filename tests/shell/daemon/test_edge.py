"""Every request passes the same checks in the same order, before a route is looked at (§2.2)."""

import json
from pathlib import Path

import pytest
import trio

from tests.support.daemon import NOTIFY, TOKEN, running
from tests.support.http_client import answer, call, head

ORIGIN = "https://tools.example"


async def test_a_page_that_is_listed_may_call(tmp_path: Path) -> None:
    """Its origin is echoed, with and without a refusal; credentials are never allowed."""
    async with running(tmp_path, origins=frozenset([ORIGIN])) as api:
        good = await api.call("POST", "/workspace/notify", NOTIFY, {"Origin": ORIGIN})
        bad = await api.call("POST", "/workspace/notify", {}, {"Origin": ORIGIN})
        other = await api.call("POST", "/workspace/notify", NOTIFY, {"Origin": "https://x.example"})
    assert [200, 400, 403] == [good.status, bad.status, other.status]
    for reply in (good, bad):
        assert ORIGIN == reply.header("access-control-allow-origin")
        assert "Origin" == reply.header("vary")
        assert "" == reply.header("access-control-allow-credentials")
    assert "Origin" == other.header("vary")
    assert "" == other.header("access-control-allow-origin")
    assert {"error": "Request denied by CORS policy"} == other.json


async def test_a_preflight_needs_no_token(tmp_path: Path) -> None:
    """A browser sends none with it; without a listed origin there is no preflight."""
    asks = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}
    async with running(tmp_path, origins=frozenset([ORIGIN])) as api:
        host = {"Host": f"127.0.0.1:{api.port}"}
        good = await call(api.port, "OPTIONS", "/workspace/notify", host | asks)
        bare = await call(
            api.port,
            "OPTIONS",
            "/workspace/notify",
            host | {"Access-Control-Request-Method": "GET"},
        )
    assert 204 == good.status
    assert ORIGIN == good.header("access-control-allow-origin")
    assert "POST" in good.header("access-control-allow-methods")
    assert b"" == good.body
    assert 401 == bare.status


async def test_every_refusal_is_json_that_nobody_stores(tmp_path: Path) -> None:
    """Body, type and cache header are the same before a route, at it and behind it."""
    async with running(tmp_path) as api:
        host = {"Host": f"127.0.0.1:{api.port}"}
        found = [
            await call(api.port, "GET", "/capabilities", {"Host": "evil.example"}),
            await call(api.port, "GET", "/capabilities", host),
            await api.call("GET", "/nope"),
            await api.call("PUT", "/scheduled-tasks"),
            await api.call("POST", "/workspace/notify", b"{"),
        ]
    assert [403, 401, 404, 405, 400] == [reply.status for reply in found]
    for reply in found:
        assert "application/json" == reply.header("content-type")
        assert "no-store" == reply.header("cache-control")
        assert reply.json["error"]
    assert "GET, POST" == found[3].header("allow")
    assert ["", "", "not_found", "method_not_allowed", "invalid_json"] == [r.code for r in found]


@pytest.mark.parametrize("path", ["/nope", "/workspace/notify"])
async def test_a_body_that_is_too_long_is_refused_before_the_route(
    tmp_path: Path, path: str
) -> None:
    """Stated or streamed, and who sends it whole before reading gets the answer too."""
    big = b" " * (10 * 1024 * 1024 + 1)
    async with running(tmp_path) as api:
        whole = await api.call("POST", path, big)
        async with await trio.open_tcp_stream("127.0.0.1", api.port) as stream:
            chunked = head("POST", path, {**api.headers, "Transfer-Encoding": "chunked"})
            block = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
            await stream.send_all(chunked + block * 11 + b"0\r\n\r\n")
            streamed = await answer(stream)
    assert [413, 413] == [whole.status, streamed.status]
    assert {"payload_too_large"} == {whole.code, streamed.code}


async def test_the_body_of_the_greatest_length_is_taken(tmp_path: Path) -> None:
    """The limit itself is allowed."""
    body = json.dumps(NOTIFY).encode()
    async with running(tmp_path) as api:
        padded = body + b" " * (10 * 1024 * 1024 - len(body))
        assert 200 == (await api.call("POST", "/workspace/notify", padded)).status


async def test_a_head_that_is_too_long_closes_the_connection(tmp_path: Path) -> None:
    """64 KiB of headers and no more; the next request is served."""
    async with running(tmp_path) as api:
        async with await trio.open_tcp_stream("127.0.0.1", api.port) as stream:
            await stream.send_all(head("GET", "/health", {**api.headers, "X-Long": "x" * 70_000}))
            refused = await answer(stream)
        assert 431 == refused.status
        async with await trio.open_tcp_stream("127.0.0.1", api.port) as stream:
            await stream.send_all(b"GET /health HTTP/1.1\r\nX-Long: " + b"x" * 70_000)
            assert 400 <= (await answer(stream)).status < 500
        assert 200 == (await api.call("GET", "/health")).status


async def test_a_slash_in_a_name_stays_in_its_segment(tmp_path: Path) -> None:
    """The raw path is matched: a workspace by its encoded path, and never by a decoded one."""
    async with running(tmp_path) as api:
        side = str((tmp_path / "side").resolve())
        encoded = side.replace("/", "%2F")
        assert 200 == (await api.call("POST", f"/workspaces/{encoded}/notify", NOTIFY)).status
        assert ["side"] == [workspace for workspace, _, _ in api.channels.sent]
        assert 404 == (await api.call("POST", f"/workspaces{side}/notify", NOTIFY)).status
        link = tmp_path / "link"
        link.symlink_to(tmp_path / "side")
        by_link = str(link).replace("/", "%2F")
        assert 200 == (await api.call("POST", f"/workspaces/{by_link}/notify", NOTIFY)).status
        assert 404 == (await api.call("POST", "/workspace%2Fnotify", NOTIFY)).status
        assert 404 == (await api.call("POST", "/workspace/notify/", NOTIFY)).status
        none = await api.call("POST", "/workspaces/%2Fno%2Fsuch/notify", NOTIFY)
        assert 3 == none.json["workspaceCount"]
        assert str(tmp_path) not in none.body.decode()


async def test_a_websocket_is_refused(tmp_path: Path) -> None:
    """There is none here."""
    asks = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
    }
    async with running(tmp_path) as api:
        lines = {**api.headers, **asks}
        text = "\r\n".join(["GET /health HTTP/1.1", *(f"{k}: {v}" for k, v in lines.items())])
        async with await trio.open_tcp_stream("127.0.0.1", api.port) as stream:
            await stream.send_all(text.encode() + b"\r\n\r\n")
            assert b" 403 " in await stream.receive_some(4096)


async def test_the_token_of_a_query_is_no_token(tmp_path: Path) -> None:
    """Only the header counts."""
    async with running(tmp_path) as api:
        host = {"Host": f"127.0.0.1:{api.port}"}
        assert 401 == (await call(api.port, "GET", f"/capabilities?token={TOKEN}", host)).status
        assert 200 == (await api.call("GET", "/capabilities?x=1")).status
