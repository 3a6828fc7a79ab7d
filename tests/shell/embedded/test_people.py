"""Who is addressed, at which tier a sender speaks, and what the concierge grants."""

from pathlib import Path
from typing import Any

import pytest

from agentconnect.embedded import addressing, concierge
from agentconnect.embedded.records import Kind, Member
from tests.support.relay import Relay, running_relay


def _member(user_id: str, kind: Kind) -> Member:
    return Member(user_id=user_id, name="", kind=kind, owner_id="", tier="", moderator=False)


_ANN = _member("@ann:local", Kind.PERSON)
_CODEX = _member("@codex:local", Kind.AGENT)
_OTHER = _member("@other:local", Kind.AGENT)


@pytest.mark.parametrize(
    ("body", "sender", "members", "reply_to", "expected"),
    [
        ("hello", _ANN, [_ANN, _CODEX], "", ["@codex:local"]),
        ("hello", _ANN, [_ANN, _CODEX, _OTHER], "", []),
        ("!codex do it", _ANN, [_ANN, _CODEX, _OTHER], "", ["@codex:local"]),
        ("  !CoDeX\ndo it", _ANN, [_ANN, _CODEX, _OTHER], "", ["@codex:local"]),
        ("!codexx do it", _ANN, [_ANN, _CODEX, _OTHER], "", []),
        ("please !codex", _ANN, [_ANN, _CODEX, _OTHER], "", []),
        ("ask @other:local.", _ANN, [_ANN, _CODEX, _OTHER], "", ["@other:local"]),
        ("mail x@other:local", _ANN, [_ANN, _CODEX, _OTHER], "", []),
        ("@other:localhost", _ANN, [_ANN, _CODEX, _OTHER], "", []),
        (
            "@other:local and @codex:local",
            _ANN,
            [_ANN, _CODEX, _OTHER],
            "",
            ["@codex:local", "@other:local"],
        ),
        ("yes", _ANN, [_ANN, _CODEX, _OTHER], "@other:local", ["@other:local"]),
        ("an answer", _CODEX, [_ANN, _CODEX], "", []),
        ("!other go", _CODEX, [_ANN, _CODEX, _OTHER], "", []),
        ("over to @other:local", _CODEX, [_ANN, _CODEX, _OTHER], "", ["@other:local"]),
        ("me, @codex:local", _CODEX, [_ANN, _CODEX, _OTHER], "", []),
        ("hello", None, [_ANN, _CODEX], "", []),
    ],
)
def test_who_is_addressed(
    body: str, sender: Member | None, members: list[Member], reply_to: str, expected: list[str]
) -> None:
    """A message reaches the agents it names, answers, or is alone with."""
    assert expected == addressing.addressed(body, members, sender, reply_to)


@pytest.mark.parametrize(
    ("sender", "trust", "tier", "expected"),
    [
        ("@own:l", "", "", ("owner", "", False)),
        ("@bob:l", "", "", ("guest", "", False)),
        ("@bob:l", "", "owner", ("guest", "", False)),
        ("@bob:l", "owner", "", ("owner", "", False)),
        ("@bob:l", "guest", "owner", ("guest", "", False)),
        ("@bob:l", "", "collaborator", ("guest", "team", True)),
        ("@bob:l", "owner", "collaborator", ("owner", "", False)),
        ("@bob:l", "owner", None, ("guest", "", False)),
        ("@bob:l", "", None, ("guest", "", False)),
    ],
)
def test_what_is_attested(
    sender: str, trust: str, tier: str | None, expected: tuple[str, str, bool]
) -> None:
    """Owner is who registered the agent or is trusted by them; all others are guests."""
    said = addressing.attest(sender, "@own:l", trust, tier)
    assert expected == (said.access_tier, said.requested_access_tier, said.collaborator)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("trust @bob:local", ("trust", "@bob:local")),
        (" Untrust  `@bob:local`. ", ("untrust", "@bob:local")),
        ("allow @bob:local", ("allow", "@bob:local")),
        ("trust bob", None),
        ("trust @bob", None),
        ("I trust @bob:local", None),
        ("trust @bob:local and @eve:local", None),
    ],
)
def test_what_is_a_command(body: str, expected: tuple[str, str] | None) -> None:
    """Only a whole message of one verb and one full id is a command."""
    said = concierge.command(body)
    assert expected == (None if said is None else (said.verb, said.user_id))


async def _tier(relay: Relay, sender: str, secret: str = "") -> tuple[Any, ...]:
    await relay.say("who am I", sender=sender)
    (task,) = await relay.poll(secret=secret)
    await relay.complete(task["id"], "[no-send]")
    return (
        task["access_tier"],
        task.get("requested_access_tier", ""),
        task.get("collaborator", False),
    )


async def test_tiers_over_the_wire(tmp_path: Path) -> None:
    """Owner, guest and collaborator arrive in the task as such."""
    async with running_relay(tmp_path) as relay:
        guest, _ = await relay.relay.add_person(relay.room, "Gus")
        helper, _ = await relay.relay.add_person(relay.room, "Cora", "collaborator")
        assert await _tier(relay, relay.owner) == ("owner", "", False)
        assert await _tier(relay, guest) == ("guest", "", False)
        assert await _tier(relay, helper) == ("guest", "team", True)


async def _concierge_room(relay: Relay, sender: str, link: str = "") -> str:
    async with relay.visitor(link) as browser:
        answer = await browser.post("/page/dm", json={"user_id": "@sutando-concierge:local"})
        room: str = answer.json()["room_id"]
        return room


async def test_trust_reaches_all_agents_at_once_and_is_taken_back(tmp_path: Path) -> None:
    """`trust` in the concierge's direct message lists every agent of the owner; so does the end."""
    async with running_relay(tmp_path) as relay:
        other, _, _ = await relay.relay.add_agent("Second")
        guest, _ = await relay.relay.add_person(relay.room, "Gus")
        room = await _concierge_room(relay, relay.owner)
        await relay.say(f"trust {guest}", room=room)
        reply = (await relay.bodies(room))[-1]
        assert relay.agent in reply
        assert other in reply
        assert (await _tier(relay, guest))[0] == "owner"
        await relay.say(f"untrust {guest}", room=room)
        assert other in (await relay.bodies(room))[-1]
        assert (await _tier(relay, guest))[0] == "guest"


async def test_trust_taken_back_reaches_what_still_waits(tmp_path: Path) -> None:
    """A task asked while trusted and served after the trust ended is a guest's."""
    async with running_relay(tmp_path) as relay:
        guest, _ = await relay.relay.add_person(relay.room, "Gus")
        room = await _concierge_room(relay, relay.owner)
        await relay.say(f"trust {guest}", room=room)
        await relay.say("asked while trusted", sender=guest)
        await relay.say(f"untrust {guest}", room=room)
        (task,) = await relay.poll()
        assert task["access_tier"] == "guest"


async def test_trust_said_elsewhere_grants_nothing(tmp_path: Path) -> None:
    """In the agent's room the words are an ordinary message, with a pointer added."""
    async with running_relay(tmp_path) as relay:
        guest, _ = await relay.relay.add_person(relay.room, "Gus")
        await relay.say(f"trust {guest}")
        assert "@sutando-concierge:local" in (await relay.bodies())[-1]
        (task,) = await relay.poll()
        assert task["task"] == f"trust {guest}"
        assert (await _tier(relay, guest))[0] == "guest"


async def test_trust_said_by_somebody_without_agents_grants_nothing(tmp_path: Path) -> None:
    """A guest who tells the concierge to trust them gets a sentence and nothing else."""
    async with running_relay(tmp_path) as relay:
        guest, link = await relay.relay.add_person(relay.room, "Gus")
        room = await _concierge_room(relay, guest, link)
        await relay.say(f"trust {guest}", sender=guest, room=room)
        assert "no agents" in (await relay.bodies(room))[-1]
        assert (await _tier(relay, guest))[0] == "guest"


async def test_agents_mention_each_other_by_full_id_only(tmp_path: Path) -> None:
    """An agent's message is a task of another only where it writes that agent's full id."""
    async with running_relay(tmp_path) as relay:
        other, token, _ = await relay.relay.add_agent("Second")
        room = await relay.relay.create_room("Both", relay.owner, (relay.agent, other))
        secret = token.partition("|")[2]
        await relay.op("message", room_id=room, body="second, over to you")
        assert await relay.poll(secret=secret) == []
        await relay.op("message", room_id=room, body=f"over to you, {other}")
        (task,) = await relay.poll(secret=secret)
        assert (task["user_id"], task["access_tier"]) == (relay.agent, "guest")
