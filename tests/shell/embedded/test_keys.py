"""Keyed posts, sentence by sentence (deferred-delivery.md §11), on both routes."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from agentconnect.embedded.faults import Fault
from agentconnect.embedded.timing import Timing
from tests.support.relay import Clock, Relay, running_relay

KEY = "cd" * 32
Body = dict[str, Any]


def text(body: str = "late") -> Body:
    """A text's request."""
    return {"body": body}


def file(content: bytes = b"late", name: str = "a.txt") -> Body:
    """A file's request."""
    return {"content_b64": base64.b64encode(content).decode(), "filename": name}


ROUTES: dict[str, Callable[[], Body]] = {"messages": text, "media": file}
both = pytest.mark.parametrize("route", list(ROUTES))


async def post(
    relay: Relay, route: str, body: Body | None = None, *, key: str = KEY, room: str = ""
) -> httpx.Response:
    """One post on a route, by default the route's usual one under the usual key."""
    headers = {"idempotency-key": key} if key else {}
    path = f"/v1/rooms/{room or relay.room}/{route}"
    return await relay.call("POST", path, body or ROUTES[route](), headers=headers)


def told(answer: httpx.Response) -> tuple[int, str]:
    """How a post was answered: its status, and what the relay says of its key."""
    said = answer.headers.get("idempotency-status", "")
    return answer.status_code, said or answer.json().get("state", "")


async def count(relay: Relay) -> int:
    """How many messages the room has."""
    return len(await relay.relay.messages(relay.room))


@both
async def test_the_first_response_is_replayed_to_the_byte(tmp_path: Path, route: str) -> None:
    """Also after the relay was started again: what was promised for a day is on disk."""
    async with running_relay(tmp_path) as relay:
        setup = relay.setup
        first = await post(relay, route)
        assert (200, "created") == told(first)
        assert (200, "replayed") == told(await post(relay, route))
    async with running_relay(tmp_path, setup=setup) as relay:
        again = await post(relay, route)
        assert ((200, "replayed"), first.content) == (told(again), again.content)
        assert 1 == await count(relay)


@both
async def test_a_key_is_bound_to_method_room_and_body(tmp_path: Path, route: str) -> None:
    """The same key on the other route, in another room or with another body is a conflict."""
    other = {"messages": "media", "media": "messages"}[route]
    changed = {"messages": text("other"), "media": file(name="b.txt")}[route]
    async with running_relay(tmp_path) as relay:
        room = await relay.relay.create_room("Two", relay.owner, (relay.agent,))
        await post(relay, route)
        for answer in (
            await post(relay, other),
            await post(relay, route, room=room),
            await post(relay, route, changed),
        ):
            assert (409, {"state": "conflict"}) == (answer.status_code, answer.json())
        assert (200, "replayed") == told(await post(relay, route))
        assert (1, []) == (await count(relay), await relay.bodies(room))


@both
async def test_a_running_claim_is_a_lease_of_a_minute(tmp_path: Path, route: str) -> None:
    """``running`` for 60 s, then ``unknown`` to the end of the day, then the key is free."""
    clock = Clock()
    async with running_relay(tmp_path, timing=Timing(wall=clock)) as relay:
        raw = json.dumps(ROUTES[route]()).encode()
        await relay.relay.hold_key(relay.agent, KEY, route, relay.room, raw)

        async def ask() -> tuple[int, str]:
            headers = {"idempotency-key": KEY}
            path = f"/v1/rooms/{relay.room}/{route}"
            return told(await relay.call("POST", path, content=raw, headers=headers))

        assert (409, "running") == await ask()
        clock.forward(59)
        assert (409, "running") == await ask()
        clock.forward(2)
        assert (409, "unknown") == await ask()
        clock.forward(86_400 - 62)
        assert (409, "unknown") == await ask()
        assert 0 == await count(relay)
        clock.forward(2)
        assert (200, "created") == await ask()
        assert 1 == await count(relay)


@both
async def test_another_body_conflicts_with_what_still_runs(tmp_path: Path, route: str) -> None:
    """The digest is looked at first: waiting would not make it the same post."""
    async with running_relay(tmp_path) as relay:
        await relay.relay.hold_key(relay.agent, KEY, route, relay.room, b"something else")
        assert (409, "conflict") == told(await post(relay, route))


@both
async def test_a_key_belongs_to_one_identity(tmp_path: Path, route: str) -> None:
    """Another agent's same key with other content is a post of its own."""
    async with running_relay(tmp_path) as relay:
        other, token, _ = await relay.relay.add_agent("Other")
        room = await relay.relay.create_room("Both", relay.owner, (relay.agent, other))
        await post(relay, route, room=room)
        secret, headers = token.partition("|")[2], {"idempotency-key": KEY}
        path = f"/v1/rooms/{room}/{route}"
        body = {"messages": text("theirs"), "media": file(b"theirs")}[route]
        answer = await relay.call("POST", path, body, secret=secret, headers=headers)
        assert (200, "created") == told(answer)
        assert {relay.agent, other} == {m.sender for m in await relay.relay.messages(room)}


@pytest.mark.parametrize(
    ("route", "refused", "status"),
    [
        ("messages", text(" "), 400),
        ("messages", {"body": 5}, 400),
        ("messages", text("x" * 100_001), 413),
        ("media", {"content_b64": "no base64!"}, 400),
        ("media", {}, 400),
        ("media", file(b"x" * (25 * 1024 * 1024 + 1)), 413),
    ],
)
async def test_a_refused_post_releases_its_key(
    tmp_path: Path, route: str, refused: Body, status: int
) -> None:
    """Only outcomes are remembered: what comes next under the key is the first post."""
    async with running_relay(tmp_path) as relay:
        assert status == (await post(relay, route, refused or {"filename": "a"})).status_code
        assert 404 == (await post(relay, route, room="!nowhere:local")).status_code
        relay.faults.plan(Fault(method="POST", path=f"/{route}", status=503))
        assert 503 == (await post(relay, route)).status_code
        assert 0 == await count(relay)
        assert (200, "created") == told(await post(relay, route))


@both
async def test_a_lost_response_is_replayed(tmp_path: Path, route: str) -> None:
    """The post counts although nobody heard of it."""
    async with running_relay(tmp_path) as relay:
        relay.faults.plan(Fault(method="POST", path=f"/{route}", drop=True))
        with pytest.raises(httpx.TransportError):
            await post(relay, route)
        (only,) = await relay.relay.messages(relay.room)
        again = await post(relay, route)
        assert ((200, "replayed"), only.event_id) == (told(again), again.json()["event_id"])
        assert 1 == await count(relay)


@both
async def test_a_post_is_remembered_when_its_room_is_gone_for_the_agent(
    tmp_path: Path, route: str
) -> None:
    """Taken off the room afterwards: the resend learns that it was posted; a new key gets 404."""
    async with running_relay(tmp_path) as relay:
        first = await post(relay, route)
        async with relay.visitor() as browser:
            gone = await browser.delete(f"/page/rooms/{relay.room}/members/{relay.agent}")
        assert 200 == gone.status_code, gone.text
        again = await post(relay, route)
        assert ((200, "replayed"), first.json()) == (told(again), again.json())
        assert 404 == (await post(relay, route, key="ef" * 32)).status_code


@both
async def test_many_at_once_are_one_post(tmp_path: Path, route: str) -> None:
    """One is ``created``, the others ``replayed``, all with the same event."""
    found: list[httpx.Response] = []

    async def one(relay: Relay) -> None:
        found.append(await post(relay, route))

    async with running_relay(tmp_path) as relay:
        async with trio.open_nursery() as posting:
            for _ in range(10):
                posting.start_soon(one, relay)
        assert [(200, "created"), *[(200, "replayed")] * 9] == sorted(map(told, found))
        assert 1 == len({answer.json()["event_id"] for answer in found}) == await count(relay)


@both
async def test_without_a_key_all_is_as_it_was(tmp_path: Path, route: str) -> None:
    """Each post is one, and nothing is said of keys."""
    async with running_relay(tmp_path) as relay:
        for number in (1, 2):
            answer = await post(relay, route, key="")
            assert (200, number) == (answer.status_code, await count(relay))
            assert "idempotency-status" not in answer.headers


@pytest.mark.parametrize("key", ["short", "AB" * 32, "ab" * 33, "zz" * 32])
@both
async def test_what_is_no_key_is_refused(tmp_path: Path, route: str, key: str) -> None:
    """Never taken for a post without one."""
    async with running_relay(tmp_path) as relay:
        assert 400 == (await post(relay, route, key=key)).status_code
        assert 0 == await count(relay)


async def test_the_longest_text_of_a_delivery_is_taken_whole(tmp_path: Path) -> None:
    """100,000 characters; the page shows them, too."""
    async with running_relay(tmp_path) as relay:
        longest = "é" * 100_000
        assert (200, "created") == told(await post(relay, "messages", text(longest)))
        assert [longest] == await relay.bodies()


async def test_the_probe_needs_the_bearer_and_changes_nothing(tmp_path: Path) -> None:
    """The same answer again and again; 401 for anybody else, and no other way to ask."""
    async with running_relay(tmp_path) as relay:
        first = await relay.call("GET", "/v1/capabilities")
        again = await relay.call("GET", "/v1/capabilities")
        assert (200, first.content) == (again.status_code, again.content)
        assert 401 == (await relay.call("GET", "/v1/capabilities", secret="no")).status_code
        assert 405 == (await relay.call("POST", "/v1/capabilities", {})).status_code
        assert 0 == await count(relay)
