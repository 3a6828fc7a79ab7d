"""The page's calls on one message and on one person's link."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from agentconnect.embedded.answers import PLACEHOLDER
from tests.support.relay import Relay, running_relay


@asynccontextmanager
async def _two(tmp_path: Path) -> AsyncIterator[tuple[Relay, httpx.AsyncClient, httpx.AsyncClient]]:
    """The owner's browser and a guest's."""
    async with running_relay(tmp_path) as relay:
        _, link = await relay.relay.add_person(relay.room, "Ana")
        async with relay.visitor() as owner, relay.visitor(link) as guest:
            yield relay, owner, guest


def _message(relay: Relay, event: str) -> str:
    return f"/page/rooms/{relay.room}/messages/{event}"


async def _shown(relay: Relay, browser: httpx.AsyncClient) -> list[dict[str, object]]:
    answer = await browser.get(f"/page/rooms/{relay.room}/messages")
    found: list[dict[str, object]] = answer.json()["messages"]
    return found


async def test_a_reaction_is_one_however_often_it_is_put(tmp_path: Path) -> None:
    """Put twice it is one, taken back twice it is none; each has its own."""
    async with _two(tmp_path) as (relay, owner, guest):
        path = _message(relay, await relay.say("hello")) + "/reaction"
        for browser in (owner, owner, guest):
            assert (await browser.post(path, json={"key": "👍"})).json() == {"ok": True}
        (message,) = await _shown(relay, guest)
        people = [m["user_id"] for m in (await owner.get("/page/state")).json()["people"]]
        assert message["reactions"] == [{"key": "👍", "senders": [relay.owner, "@ana:local"]}]
        assert set(people) == {relay.owner, "@ana:local"}
        for _ in range(2):
            assert (await owner.post(path, json={"key": "👍", "on": False})).status_code == 200
        (message,) = await _shown(relay, guest)
        assert message["reactions"] == [{"key": "👍", "senders": ["@ana:local"]}]


@pytest.mark.parametrize("key", ["", "   ", "x" * 17, "a\nb"])
async def test_a_reaction_is_one_short_sign(tmp_path: Path, key: str) -> None:
    """Blank, long and broken ones are refused with a sentence."""
    async with _two(tmp_path) as (relay, owner, _):
        path = _message(relay, await relay.say("hello")) + "/reaction"
        assert (await owner.post(path, json={"key": key})).status_code == 400


async def test_one_person_s_reactions_on_a_message_are_bounded(tmp_path: Path) -> None:
    """Twelve different ones, then no more; the same again is still fine."""
    async with _two(tmp_path) as (relay, owner, _):
        path = _message(relay, await relay.say("hello")) + "/reaction"
        codes = [(await owner.post(path, json={"key": str(n)})).status_code for n in range(13)]
        assert codes == [200] * 12 + [400]
        assert (await owner.post(path, json={"key": "3"})).status_code == 200


async def test_only_who_wrote_a_message_removes_it(tmp_path: Path) -> None:
    """Others are refused, strangers' rooms and unknown messages are nothing, twice is nothing."""
    async with _two(tmp_path) as (relay, owner, guest):
        event = await relay.say("mine")
        await owner.post(_message(relay, event) + "/reaction", json={"key": "👍"})
        assert (await guest.delete(_message(relay, event))).status_code == 403
        other = await relay.relay.create_room("Other", relay.owner)
        foreign = f"/page/rooms/{other}/messages/{event}"
        assert (await guest.delete(foreign)).status_code == 404
        assert (await owner.delete(foreign)).status_code == 404
        assert (await owner.delete(_message(relay, event))).json() == {"ok": True}
        assert (await owner.delete(_message(relay, event))).status_code == 404
        (message,) = await _shown(relay, guest)
        assert (message["redacted"], message["body"], message["html"]) == (True, "", "")
        assert message["reactions"] == []


async def test_a_removed_message_asks_nothing_any_more(tmp_path: Path) -> None:
    """What no worker has been given yet is withdrawn; what one is at goes on."""
    async with _two(tmp_path) as (relay, owner, _):
        given = await relay.say("given")
        (task,) = await relay.poll()
        waiting = await relay.say("waiting")
        for event in (given, waiting):
            assert (await owner.delete(_message(relay, event))).status_code == 200
        assert await relay.poll() == []
        assert (await relay.complete(task["id"], "done")).json() == {"ok": True}
        assert (await relay.bodies())[-1] == "done"


async def test_a_new_link_ends_the_old_one(tmp_path: Path) -> None:
    """By the relay's owner alone, for another person; browsers that came by the old one are out."""
    async with running_relay(tmp_path) as relay:
        ana, link = await relay.relay.add_person(relay.room, "Ana")
        path = f"/page/people/{ana}/link"
        async with relay.visitor() as owner, relay.visitor(link) as guest:
            assert (await owner.get("/page/state")).json()["me"]["admin"] is True
            assert (await guest.get("/page/state")).json()["me"]["admin"] is False
            assert (await guest.post(path, json={})).status_code == 403
            for nobody in (relay.agent, "@nobody:local"):
                assert (await owner.post(f"/page/people/{nobody}/link", json={})).status_code == 404
            assert (
                await owner.post(f"/page/people/{relay.owner}/link", json={})
            ).status_code == 400
            made = (await owner.post(path, json={})).json()
            assert made["user_id"] == ana
            assert (await guest.get("/page/state")).status_code == 401
            new = made["link"].partition("#k=")[2]
            for token, status in ((link, 401), (new, 200)):
                answer = await guest.post("/page/login", json={"token": token})
                assert answer.status_code == status
            state = await owner.get("/page/state")
            assert new not in state.text


async def test_the_owner_s_newest_links_stay_valid(tmp_path: Path) -> None:
    """Sixteen starts' links open the page, the seventeenth start ends the first one's."""
    links = []
    for _ in range(2):
        async with running_relay(tmp_path) as relay:
            links.append(relay.setup.link_token)
    async with running_relay(tmp_path) as relay:
        for link in links:
            async with relay.visitor(link):
                pass
        for _ in range(14):
            await relay.relay.ensure_local("Helper", "Olivia")
        async with relay.visitor(links[1]) as browser:
            answer = await browser.post("/page/login", json={"token": links[0]})
            assert answer.status_code == 401


async def test_a_running_message_tells_what_it_showed(tmp_path: Path) -> None:
    """The steps so far come with it while it runs, bounded, and not with the answer."""
    async with _two(tmp_path) as (relay, owner, _):
        await relay.say("go")
        (task,) = await relay.poll()
        event = (await relay.op("message", body=PLACEHOLDER)).json()["event_id"]
        for number in range(30):
            body = f"{PLACEHOLDER}\n\nstep {number}"
            await relay.op("edit", event_id=event, body=body)
            await relay.op("edit", event_id=event, body=body)
        steps = (await _shown(relay, owner))[-1]["steps"]
        assert steps == [f"{PLACEHOLDER}\n\nstep {number}" for number in range(10, 30)]
        await relay.op("edit", event_id=event, body="Done.")
        await relay.complete(task["id"], "[REPLIED]\n\nDone.")
        assert (await _shown(relay, owner))[-1]["steps"] == []
