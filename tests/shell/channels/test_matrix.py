"""The adapter ``matrix`` against a double, for what has to be asked before a message is sent.

The real server is in ``tests/im``.
"""

from collections.abc import Mapping
from urllib.parse import unquote

import pytest

from agentconnect.core.channels.ipc import Channel
from agentconnect.core.channels.sending import DeliveryError
from tests.shell.channels.doubles import Answer, Provider, Seen, out, running

BOT = "@bot:hs"


class Homeserver:
    """The client API for one bot: its rooms, their members, its account data."""

    def __init__(self, rooms: Mapping[str, Mapping[str, str]], encrypted: str = "") -> None:
        self.rooms = {room: dict(members) for room, members in rooms.items()}
        self.direct: dict[str, list[str]] = {}
        self.encrypted = encrypted
        self.aliases: dict[str, str] = {}
        self.messages: list[tuple[str, str]] = []
        self.asked: list[str] = []
        self.stores = True

    def __call__(self, seen: Seen) -> Answer:
        path = [unquote(part) for part in seen.path.removeprefix("/_matrix/client/v3/").split("/")]
        self.asked.append(path[-1] if path[0] == "rooms" else path[0])
        match path:
            case ["account", "whoami"]:
                return 200, {"user_id": BOT, "device_id": "D"}
            case ["directory", "room", alias] if alias in self.aliases:
                return 200, {"room_id": self.aliases[alias], "servers": ["hs"]}
            case ["rooms", room, "state", "m.room.member", person]:
                member = self.rooms.get(room, {}).get(person)
                return (200, {"membership": member}) if member else (404, _no("M_NOT_FOUND"))
            case ["rooms", room, "state", "m.room.encryption"]:
                if self.rooms.get(room, {}).get(BOT) != "join":
                    return 403, _no("M_FORBIDDEN")
                return (200, {}) if room == self.encrypted else (404, _no("M_NOT_FOUND"))
            case ["user", "@bot:hs", "account_data", "m.direct"] if seen.method == "PUT":
                self.direct = seen.json if self.stores else self.direct
                return (200, {}) if self.stores else (500, {})
            case ["user", "@bot:hs", "account_data", "m.direct"]:
                return (200, self.direct) if self.direct else (404, _no("M_NOT_FOUND"))
            case ["createRoom"]:
                room = f"!made{len(self.rooms)}"
                self.rooms[room] = {BOT: "join", seen.json["invite"][0]: "invite"}
                return 200, {"room_id": room}
            case ["rooms", room, "send", "m.room.message", _]:
                self.messages.append((room, seen.json["body"]))
                return 200, {"event_id": "$e"}
        return 404, _no("M_NOT_FOUND")


def _no(word: str) -> dict[str, str]:
    return {"errcode": word, "error": "no"}


def channel(provider: Provider) -> Channel:
    return Channel(
        type="matrix",
        options={"homeserver": provider.url, "msgtype": "m.text"},
        secrets={"token": "t"},
    )


async def test_a_person_gets_a_room_once() -> None:
    """It is written down for the next process, beside those that are there already."""
    home = Homeserver({"!other": {BOT: "join", "@bob:hs": "join"}})
    home.direct = {"@bob:hs": ["!other"]}
    async with Provider(home).running() as provider:
        for text in ("one", "two"):
            async with running(channel(provider)) as adapter:
                await adapter.send(out("user", "@ann:hs", text))
    assert [("!made1", "one"), ("!made1", "two")] == home.messages
    assert {"@bob:hs": ["!other"], "@ann:hs": ["!made1"]} == home.direct


@pytest.mark.parametrize(
    ("members", "found"),
    [
        ({BOT: "join", "@ann:hs": "join"}, True),
        ({BOT: "join", "@ann:hs": "invite"}, True),
        ({BOT: "leave", "@ann:hs": "join"}, False),
        ({BOT: "join", "@ann:hs": "leave"}, False),
        ({}, False),
    ],
)
async def test_a_direct_room_counts_where_both_are(members: dict[str, str], found: bool) -> None:
    """Else a new one is made."""
    home = Homeserver({"!old": members})
    home.direct = {"@ann:hs": ["!old"]}
    async with Provider(home).running() as provider, running(channel(provider)) as adapter:
        await adapter.send(out("user", "@ann:hs"))
    assert [("!old" if found else "!made1", "hello")] == home.messages


async def test_a_room_that_cannot_be_written_down_is_used_all_the_same() -> None:
    """The message is what was asked for."""
    home = Homeserver({})
    home.stores = False
    async with Provider(home).running() as provider, running(channel(provider)) as adapter:
        await adapter.send(out("user", "@ann:hs"))
    assert [("!made0", "hello")] == home.messages


async def test_no_plain_text_goes_into_an_encrypted_room() -> None:
    """The server would take it; the answer is remembered for a while."""
    home = Homeserver({"!r": {BOT: "join"}}, encrypted="!r")
    async with Provider(home).running() as provider, running(channel(provider)) as adapter:
        for _ in range(2):
            with pytest.raises(DeliveryError, match="encrypted") as refused:
                await adapter.send(out("chat", "!r"))
            assert "permanent" == refused.value.disposition
    assert [] == home.messages
    assert 1 == home.asked.count("m.room.encryption")


async def test_a_room_that_tells_us_nothing_is_not_written_to() -> None:
    """Whether it is encrypted is not known then."""
    home = Homeserver({"!r": {BOT: "leave"}})
    async with Provider(home).running() as provider, running(channel(provider)) as adapter:
        with pytest.raises(DeliveryError, match="M_FORBIDDEN") as refused:
            await adapter.send(out("chat", "!r"))
    assert "permanent" == refused.value.disposition
    assert [] == home.messages


async def test_an_alias_is_looked_up_once_in_a_while() -> None:
    """And an unknown one is refused for good."""
    home = Homeserver({"!r": {BOT: "join"}})
    home.aliases = {"#ops:hs": "!r"}
    async with Provider(home).running() as provider, running(channel(provider)) as adapter:
        await adapter.send(out("chat", "#ops:hs", "one"))
        await adapter.send(out("chat", "#ops:hs", "two"))
        with pytest.raises(DeliveryError) as refused:
            await adapter.send(out("chat", "#none:hs"))
    assert "permanent" == refused.value.disposition
    assert [("!r", "one"), ("!r", "two")] == home.messages
    assert 2 == home.asked.count("directory")


async def test_a_server_that_is_away_at_the_start_is_no_reason_not_to_start(
    free_port: int,
) -> None:
    """It may be back at the first send; then only that one fails."""
    away = Channel(
        type="matrix",
        options={"homeserver": f"http://127.0.0.1:{free_port}", "msgtype": "m.text"},
        secrets={"token": "t"},
    )
    async with running(away) as adapter:
        with pytest.raises(DeliveryError) as refused:
            await adapter.send(out("chat", "!r"))
    assert "transient" == refused.value.disposition
