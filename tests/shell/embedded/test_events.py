"""Event streams: what changes is told once, in order, and goes on where a client left off."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import h11
import httpx
import pytest
import trio

from agentconnect.embedded.timing import Timing
from tests.support.relay import Clock, Relay, running_relay

Frame = dict[str, Any]


class Stream:
    """Frames of one open stream, read off a bare connection."""

    def __init__(self, socket: trio.SocketStream) -> None:
        self._socket = socket
        self._wire = h11.Connection(h11.CLIENT)
        self._text = b""
        self.comments: list[str] = []

    async def ask(self, target: str, headers: dict[str, str]) -> None:
        """Send the request."""
        asked = h11.Request(method="GET", target=target, headers=list(headers.items()))
        await self._socket.send_all(self._wire.send(asked) or b"")
        await self._socket.send_all(self._wire.send(h11.EndOfMessage()) or b"")

    async def next(self) -> Frame:
        """The next frame that is not a comment."""
        with trio.fail_after(60):
            while True:
                while b"\n\n" not in self._text:
                    await self._more()
                text, _, self._text = self._text.partition(b"\n\n")
                if text.startswith(b":"):
                    self.comments.append(text.decode())
                    continue
                pairs = [line.partition(": ") for line in text.decode().split("\n")]
                frame: Frame = {name: value for name, _, value in pairs}
                return {**frame, "data": json.loads(frame["data"])}

    async def comment(self, wanted: str) -> None:
        """Wait for a comment; only before the first frame."""
        with trio.fail_after(60):
            while not self._text.count(wanted.encode() + b"\n\n"):
                await self._more()

    async def _more(self) -> None:
        event = self._wire.next_event()
        if event is h11.NEED_DATA:
            self._wire.receive_data(await self._socket.receive_some())
        elif isinstance(event, h11.Response):
            assert event.status_code == 200
        elif isinstance(event, h11.Data):
            self._text += bytes(event.data)
        else:
            raise AssertionError("the stream ended")

    async def until(self, event: str) -> Frame:
        """The next frame of one kind."""
        while True:
            frame = await self.next()
            if frame.get("event") == event:
                return frame


@asynccontextmanager
async def _follow(origin: httpx.URL | str, target: str, **headers: str) -> AsyncIterator[Stream]:
    url = httpx.URL(origin)
    async with await trio.open_tcp_stream(url.host, url.port or 80) as socket:
        stream = Stream(socket)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        await stream.ask(target, {"host": f"{url.host}:{url.port}", **named})
        await stream.comment(": open")
        yield stream


def _page(browser: httpx.AsyncClient, target: str, **headers: str) -> Any:
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    return _follow(browser.base_url, target, cookie=cookie, **headers)


async def _cursor(browser: httpx.AsyncClient) -> int:
    return int((await browser.get("/page/state")).json()["cursor"])


async def test_page_sees_a_message_change(tmp_path: Path) -> None:
    """A message, its edit, its reaction and its end arrive in order with the message as it is."""
    async with running_relay(tmp_path) as relay, relay.visitor() as browser:
        cursor = await _cursor(browser)
        async with _page(browser, f"/page/events?cursor={cursor}") as stream:
            event = (await relay.op("message", body="⏳ On it...")).json()["event_id"]
            assert (await stream.until("message"))["data"]["message"]["event_id"] == event
            await relay.op("edit", event_id=event, body="**done**")
            edited = (await stream.until("edit"))["data"]["message"]
            assert (edited["body"], edited["edited"]) == ("**done**", True)
            assert "<strong>done</strong>" in edited["html"]
            await relay.op("react", event_id=event, key="👍")
            reacted = (await stream.until("react"))["data"]["message"]
            assert reacted["reactions"] == [{"key": "👍", "senders": [relay.agent]}]
            await relay.op("redact", event_id=event)
            assert (await stream.until("redact"))["data"]["message"]["redacted"] is True


async def test_page_goes_on_after_a_restart(tmp_path: Path) -> None:
    """With its last id a client gets exactly what it missed, restart of the relay included."""
    async with running_relay(tmp_path) as relay, relay.visitor() as browser:
        cursor = await _cursor(browser)
        await relay.say("one")
        async with _page(browser, f"/page/events?cursor={cursor}") as stream:
            seen = await stream.until("message")
        await relay.say("two")
        jar = dict(browser.cookies)
    async with (
        running_relay(tmp_path) as relay,
        httpx.AsyncClient(base_url=relay.relay.origin, cookies=jar, trust_env=False) as browser,
    ):
        await relay.say("three")
        async with _page(browser, "/page/events?cursor=0", last_event_id=seen["id"]) as stream:
            bodies = [(await stream.until("message"))["data"]["message"]["body"] for _ in "23"]
        assert bodies == ["two", "three"]


async def test_a_cursor_from_nowhere_is_reset(tmp_path: Path) -> None:
    """A cursor older than the log, or newer than it ever was, tells the page to start over."""
    clock = Clock()
    async with (
        running_relay(tmp_path, timing=Timing(wall=clock)) as relay,
        relay.visitor() as browser,
    ):
        async with _page(browser, "/page/events?cursor=999999") as stream:
            assert (await stream.next())["event"] == "reset"
        await relay.say("old")
        clock.forward(2 * 86_400)
        await relay.say("new")
        await relay.relay.prune()
        async with _page(browser, "/page/events?cursor=1") as stream:
            assert (await stream.next())["event"] == "reset"


async def test_foreign_rooms_are_not_told_of(tmp_path: Path) -> None:
    """A stream tells only of the rooms its person is in; being brought in is told."""
    async with running_relay(tmp_path) as relay:
        shared = await relay.relay.create_room("Shared", relay.owner)
        guest, link = await relay.relay.add_person(shared, "Gus")
        async with relay.visitor(link) as browser:
            cursor = await _cursor(browser)
            async with _page(browser, f"/page/events?cursor={cursor}") as stream:
                await relay.say("secret")
                await relay.say("for all", room=shared)
                assert (await stream.next())["data"]["message"]["body"] == "for all"
                async with relay.visitor() as owner:
                    body = {"user_id": guest, "tier": "guest"}
                    await owner.post(f"/page/rooms/{relay.room}/members", json=body)
                assert (await stream.until("room"))["data"]["room_id"] == relay.room


async def test_presence_and_comments(tmp_path: Path) -> None:
    """A worker's first call shows it online; a silent stream says that it lives."""
    timing = Timing(comment_s=0.05, sweep_s=0.05)
    async with running_relay(tmp_path, timing=timing) as relay, relay.visitor() as browser:
        async with _page(browser, "/page/events") as stream:
            await stream.comment(": keepalive")
            await relay.poll()
            frame = await stream.until("presence")
            assert frame["data"] == {"user_id": relay.agent, "online": True}
            await relay.say("x")
            await stream.until("message")
        assert ": keepalive" in stream.comments


def _worker(relay: Relay, cursor: str = "") -> Any:
    headers = {"authorization": f"Bearer {relay.secret}", "accept": "text/event-stream"}
    if cursor:
        headers["last_event_id"] = cursor
    return _follow(relay.base, "/relay/v1/events/stream", **headers)


async def test_worker_stream_has_rising_cursors(tmp_path: Path) -> None:
    """Without a cursor only what is new; with one, what came after it."""
    async with running_relay(tmp_path) as relay:
        await relay.say("before")
        async with _worker(relay) as stream:
            await relay.say("after")
            first = await stream.next()
            assert (first["data"]["type"], int(first["id"])) == ("message", first["data"]["cursor"])
        await relay.say("later")
        async with _worker(relay, first["id"]) as stream:
            second = await stream.next()
            assert int(second["id"]) > int(first["id"])


@pytest.mark.parametrize("cursor", ["9" * 5000, "9" * 19, "-1", "1e3", "x", "0"])
async def test_any_cursor_opens_a_stream(tmp_path: Path, cursor: str) -> None:
    """In the query or the header, a page's or a worker's: never a 500, and what is new comes."""
    async with running_relay(tmp_path) as relay, relay.visitor() as browser:
        bearer = f"Bearer {relay.secret}"
        target = "/relay/v1/events/stream"
        async with (
            _follow(relay.base, f"{target}?cursor={cursor}", authorization=bearer) as asked,
            _worker(relay, cursor) as told,
            _page(browser, f"/page/events?cursor={cursor}") as page,
        ):
            await relay.say("new")
            for stream in (asked, told):
                while (await stream.next())["data"]["type"] != "message":
                    pass
            assert (await page.next())["event"]


async def test_a_fifth_stream_of_one_identity_is_refused(tmp_path: Path) -> None:
    """Four streams are open, the next is 503; one that closed makes room."""
    async with running_relay(tmp_path) as relay, trio.open_nursery() as work:
        opened = trio.Semaphore(0)
        leave = trio.Event()

        async def hold() -> None:
            async with _worker(relay) as stream:
                assert stream is not None
                opened.release()
                await leave.wait()

        for _ in range(4):
            work.start_soon(hold)
        for _ in range(4):
            await opened.acquire()
        assert (await relay.call("GET", "/v1/events/stream")).status_code == 503
        leave.set()
