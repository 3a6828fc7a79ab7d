"""The page's HTTP API: coming in, rooms, messages, files, members, agents."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentconnect.embedded import render
from tests.support.relay import Relay, running_relay


@asynccontextmanager
async def _page(folder: Path, **options: Any) -> AsyncIterator[tuple[Relay, httpx.AsyncClient]]:
    async with running_relay(folder, **options) as relay, relay.visitor() as browser:
        yield relay, browser


async def test_a_link_becomes_a_cookie_that_survives_a_restart(tmp_path: Path) -> None:
    """The cookie is HttpOnly and strict, outlives the relay's process, and ends at logout."""
    async with running_relay(tmp_path) as relay:
        assert (await relay.client.get(relay.relay.origin + "/page/state")).status_code == 401
        async with relay.visitor() as browser:
            (cookie,) = browser.cookies.jar
            assert cookie.has_nonstandard_attr("HttpOnly")
            assert cookie.get_nonstandard_attr("SameSite") == "strict"
            jar = dict(browser.cookies)
    async with running_relay(tmp_path) as relay:
        origin = relay.relay.origin
        async with httpx.AsyncClient(base_url=origin, cookies=jar, trust_env=False) as browser:
            assert (await browser.get("/page/state")).json()["me"]["user_id"] == relay.owner
            assert (await browser.post("/page/logout")).status_code == 200
        async with httpx.AsyncClient(base_url=origin, cookies=jar, trust_env=False) as browser:
            assert (await browser.get("/page/state")).status_code == 401


async def test_state_says_who_and_where(tmp_path: Path) -> None:
    """Rooms, members with tiers, agents and people of the visitor."""
    async with _page(tmp_path) as (relay, browser):
        guest, _ = await relay.relay.add_person(relay.room, "Gus")
        helper, _ = await relay.relay.add_person(relay.room, "Cora", "collaborator")
        state = (await browser.get("/page/state")).json()
        (room,) = state["rooms"]
        tiers = {m["user_id"]: (m["kind"], m["tier"]) for m in room["members"]}
        assert tiers == {
            relay.owner: ("person", "owner"),
            relay.agent: ("agent", ""),
            guest: ("person", "guest"),
            helper: ("person", "collaborator"),
        }
        assert state["agents"] == [
            {"user_id": relay.agent, "name": "Helper", "online": False, "mine": True}
        ]
        assert (room["moderator"], room["sensitive_data_filter"]) == (True, True)
        assert room["unread"] == 0
        assert state["limits"] == {"upload_bytes": 25 * 1024 * 1024}


async def test_messages_come_in_pages_with_everything_on_them(tmp_path: Path) -> None:
    """Oldest first, the newest page by default, older ones by `before`."""
    async with _page(tmp_path) as (relay, browser):
        path = f"/page/rooms/{relay.room}/messages"
        for number in range(5):
            await browser.post(path, json={"body": f"m{number}"})
        newest = (await browser.get(path, params={"limit": 2})).json()
        assert ([m["body"] for m in newest["messages"]], newest["more"]) == (["m3", "m4"], True)
        before = newest["messages"][0]["seq"]
        older = (await browser.get(path, params={"limit": 9, "before": before})).json()
        assert ([m["body"] for m in older["messages"]], older["more"]) == (
            ["m0", "m1", "m2"],
            False,
        )


async def test_repeated_send_is_one_message(tmp_path: Path) -> None:
    """The same transaction id twice is one message and one task."""
    async with _page(tmp_path) as (relay, browser):
        path = f"/page/rooms/{relay.room}/messages"
        first = await browser.post(path, json={"body": "hi", "txn": "t1"})
        again = await browser.post(path, json={"body": "hi", "txn": "t1"})
        assert first.json() == again.json()
        assert await relay.bodies() == ["hi"]
        assert len(await relay.poll()) == 1


async def test_script_in_a_message_is_text(tmp_path: Path) -> None:
    """HTML typed by anybody is shown, not run; links go only to http, https and mailto."""
    async with _page(tmp_path) as (relay, browser):
        await relay.op("message", body="<script>alert(1)</script> <img src=x onerror=y>")
        path = f"/page/rooms/{relay.room}/messages"
        (message,) = (await browser.get(path)).json()["messages"]
        assert "<script" not in message["html"]
        assert "<img" not in message["html"]
        assert "&lt;script&gt;" in message["html"]


@pytest.mark.parametrize(
    ("body", "present", "absent"),
    [
        ("[x](javascript:alert(1))", "[x]", "href"),
        ("[x](data:text/html,hi)", "[x]", "href"),
        ("[x](//evil.example)", "[x]", "href"),
        ("[x](http://e.example)", 'rel="noopener noreferrer nofollow"', "onclick"),
        ("![x](http://e.example/p.png)", "", "<img"),
        ("**b** `c`", "<strong>b</strong> <code>c</code>", ""),
        ("<b onclick=x>", "&lt;b", "<b"),
        ("|a|\n|-|\n|<i>|", "<table>", "<i>"),
        ("x" * 16_001 + "<b>", "&lt;b&gt;", "<b>"),
    ],
)
def test_rendering_is_safe(body: str, present: str, absent: str) -> None:
    """Markdown comes out as a few harmless tags."""
    html = render.html(body)
    assert present in html
    assert not absent or absent not in html


async def test_files_up_and_down(tmp_path: Path) -> None:
    """A picture is shown in place; a page or a drawing that could run is only for saving."""
    async with _page(tmp_path) as (relay, browser):
        path = f"/page/rooms/{relay.room}/media"
        for name, kind, how in (
            ("p.png", "image/png", "inline"),
            ("p.svg", "image/svg+xml", "attachment"),
            ("p.html", "text/html", "attachment"),
        ):
            sent = await browser.post(
                path, params={"name": name}, content=b"data", headers={"content-type": kind}
            )
            assert sent.status_code == 200
            listed = (await browser.get(f"/page/rooms/{relay.room}/messages")).json()["messages"]
            got = await browser.get(listed[-1]["file"]["url"])
            assert got.content == b"data"
            assert got.headers["content-disposition"].startswith(how)
            assert "sandbox" in got.headers["content-security-policy"]
            assert got.headers["x-content-type-options"] == "nosniff"


async def test_oversized_upload_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """Over 25 MiB is 413 by its declared and by its real length."""
    async with _page(tmp_path) as (relay, browser):
        path = f"/page/rooms/{relay.room}/media?name=a.bin"
        assert (await browser.post(path, content=bytes(26 * 1024 * 1024))).status_code == 413

        async def drip() -> AsyncIterator[bytes]:
            for _ in range(27):
                yield bytes(1024 * 1024)

        assert (await browser.post(path, content=drip())).status_code == 413
        assert (await browser.post(path, content=b"")).status_code == 400
        assert await relay.bodies() == []


async def test_rooms_members_and_settings(tmp_path: Path) -> None:
    """A moderator makes a room, brings people in at a tier, changes the flag, takes them out."""
    async with _page(tmp_path) as (relay, browser):
        made = await browser.post("/page/rooms", json={"name": "Lab", "agents": [relay.agent]})
        room = made.json()["room_id"]
        added = await browser.post(
            f"/page/rooms/{room}/members", json={"name": "Gus", "tier": "owner"}
        )
        guest, link = added.json()["user_id"], added.json()["link"]
        assert link.startswith(f"{relay.relay.origin}/#k=")
        await relay.say("as an owner", sender=guest, room=room)
        (task,) = await relay.poll()
        assert (task["access_tier"], task["sensitive_data_filter"]) == ("owner", True)
        settings = {"name": "Lab 2", "sensitive_data_filter": False}
        assert (
            await browser.post(f"/page/rooms/{room}/settings", json=settings)
        ).status_code == 200
        again = {"user_id": guest, "tier": "guest"}
        second = await browser.post(f"/page/rooms/{room}/members", json=again)
        assert second.json() == {"user_id": guest, "link": ""}
        await relay.say("as a guest", sender=guest, room=room)
        (task,) = await relay.poll()
        assert (task["access_tier"], task["sensitive_data_filter"]) == ("guest", False)
        async with relay.visitor(link.partition("#k=")[2]) as theirs:
            assert (
                await theirs.post(f"/page/rooms/{room}/settings", json=settings)
            ).status_code == 403
            gone = await browser.delete(f"/page/rooms/{room}/members/{guest}")
            assert gone.status_code == 200
            assert (await theirs.get(f"/page/rooms/{room}/messages")).status_code == 404


async def test_agents_are_made_and_removed(tmp_path: Path) -> None:
    """Token and command are told once; a removed identity's every call is 401."""
    async with _page(tmp_path) as (relay, browser):
        made = (await browser.post("/page/agents", json={"name": "Codex"})).json()
        gateway, _, secret = made["token"].partition("|")
        assert gateway == relay.base
        assert made["token"] in made["command"]
        room = (await browser.post("/page/dm", json={"user_id": made["user_id"]})).json()["room_id"]
        await relay.say("alone with it", room=room)
        assert len(await relay.poll(secret=secret)) == 1
        assert (await browser.delete(f"/page/agents/{made['user_id']}")).status_code == 200
        assert (await relay.call("GET", "/v1/tasks", secret=secret)).status_code == 401
        state = (await browser.get("/page/state")).json()
        assert [a["user_id"] for a in state["agents"]] == [relay.agent]


async def test_guests_cannot_reach_beyond_their_rooms(tmp_path: Path) -> None:
    """Somebody's foreign room, member list, agent and file answer like nothing at all."""
    async with _page(tmp_path) as (relay, browser):
        shared = await relay.relay.create_room("Shared", relay.owner)
        _, link = await relay.relay.add_person(shared, "Gus")
        await relay.relay.post_file(relay.room, relay.owner, "s.txt", b"secret")
        path = f"/page/rooms/{relay.room}/messages"
        url = (await browser.get(path)).json()["messages"][0]["file"]["url"]
        async with relay.visitor(link) as theirs:
            missing = await theirs.get("/page/rooms/!nowhere:local/messages")
            foreign = await theirs.get(f"/page/rooms/{relay.room}/messages")
            assert (missing.status_code, missing.text) == (foreign.status_code, foreign.text)
            assert missing.status_code == 404
            assert (await theirs.get(url)).status_code == 404
            assert (await theirs.delete(f"/page/agents/{relay.agent}")).status_code == 404
            dm = await theirs.post("/page/dm", json={"user_id": relay.agent})
            assert dm.status_code == 404
            state = (await theirs.get("/page/state")).json()
            assert state["agents"] == []


async def test_unread_is_counted_until_it_is_read(tmp_path: Path) -> None:
    """Others' messages count, one's own do not, and reading ends it."""
    async with _page(tmp_path) as (relay, browser):
        await relay.op("message", body="one")
        await relay.say("mine")
        last = (await relay.op("message", body="two")).json()["event_id"]
        seq = {m.event_id: m.seq for m in await relay.relay.messages(relay.room)}[last]
        assert (await browser.get("/page/state")).json()["rooms"][0]["unread"] == 1
        await browser.post(f"/page/rooms/{relay.room}/read", json={"seq": seq + 10**20})
        assert (await browser.get("/page/state")).json()["rooms"][0]["unread"] == 0


async def test_extras_come_from_the_callable(tmp_path: Path) -> None:
    """What the starting program adds is for the owner alone; without it there is nothing."""
    told = {"scheduled": [{"title": "Report"}]}

    async def telling() -> object:
        return told

    async with _page(tmp_path / "a") as (_, browser):
        assert (await browser.get("/page/extras")).json() == {}
    async with _page(tmp_path / "b", extras=telling) as (relay, browser):
        assert (await browser.get("/page/extras")).json() == told
        for tier in ("owner", "guest"):
            _, link = await relay.relay.add_person(relay.room, tier, tier)
            async with relay.visitor(link) as theirs:
                assert (await theirs.get("/page/extras")).json() == {}
        await browser.post("/page/logout")
        assert (await browser.get("/page/extras")).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "evil.example"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
    ],
)
async def test_foreign_pages_cannot_post(
    tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    """A rebound host name or another site's form is refused."""
    async with _page(tmp_path) as (relay, browser):
        path = f"/page/rooms/{relay.room}/messages"
        answer = await browser.post(path, json={"body": "x"}, headers=headers)
        assert answer.status_code == status


async def test_the_page_itself_has_a_strict_policy(tmp_path: Path) -> None:
    """HTML and scripts come from this origin only; nothing outside the folder is served."""
    async with _page(tmp_path) as (_, browser):
        page = await browser.get("/")
        assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src")
        for name in ("../server.py", "%2e%2e/server.py", "..%2fserver.py", "server.py", "none.js"):
            assert (await browser.get(f"/page/static/{name}")).status_code == 404
