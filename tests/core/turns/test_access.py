"""The owner's cap and the admission of collaborators (worker.md §6, §20.5)."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.task import Task, Tier, session_key_of
from agentconnect.core.turns.access import (
    ALL_GUESTS,
    AccessMap,
    Rank,
    admission,
    attested,
    read_map,
    unknown_values,
)

LISTED = frozenset({"@carl:x"})
THEIRS = {
    "id": "t1",
    "user_id": "@carl:x",
    "access_tier": "guest",
    "requested_access_tier": "team",
    "collaborator": True,
}


def task(**fields: object) -> Task:
    return msgspec.convert({"id": "t1", **fields}, Task)


# --- the map


def test_the_map_is_read_leniently_where_that_is_harmless() -> None:
    """Blanks and case do not matter, other members are ignored, a BOM is none of ours."""
    data = b'\xef\xbb\xbf{"version": 3, "tierMap": {" @a:x ": " GUEST ", "@b:x": "Team"}}'
    found = read_map(data)
    assert (Rank.GUEST, Rank.TEAM, Rank.OWNER) == tuple(map(found.cap, ["@a:x", "@b:x", "@c:x"]))
    assert found.unknown == ()
    assert read_map(b"{}").cap("@a:x") is Rank.OWNER


@pytest.mark.parametrize("value", ['"ownr"', '""', "null", "2", "true", '["owner"]', "{}"])
def test_a_typo_caps_at_guest_and_is_named(value: str) -> None:
    """Naming somebody with a word that is no tier must not leave them owner."""
    found = read_map(b'{"tierMap": {"@a:x": %s}}' % value.encode())
    assert found.cap("@a:x") is Rank.GUEST
    assert ("@a:x",) == found.unknown
    assert "@a:x" in unknown_values(found.unknown)


@pytest.mark.parametrize(
    "text",
    [
        '{"tierMap": {"@a:x": "guest", "@a:x": "owner"}}',
        '{"tierMap": {"@a:x": "owner", " @a:x": "guest"}}',
        '{"tierMap": {"@a:x": "guest"}, "tierMap": {"@a:x": "owner"}}',
    ],
)
def test_a_sender_named_twice_has_the_lower_tier(text: str) -> None:
    """JSON readers keep the last of two silently: that must not undo a cap."""
    assert read_map(text.encode()).cap("@a:x") is Rank.GUEST


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b'{"tierMap": []}',
        b'{"tierMap": null}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"tierMap": {"@a:x": ' + b"9" * 10_000 + b"}}",
    ],
)
def test_a_broken_map_is_an_error_and_nothing_else(data: bytes) -> None:
    """No content of the file can do more than be refused."""
    with pytest.raises(ValueError, match=r"it is not|tierMap"):
        read_map(data)


# --- tiers


def test_a_cap_only_lowers() -> None:
    """The tier used is the lower of attested and mapped; team and guest both mean guest."""
    owner, guest = task(access_tier="owner"), task(access_tier="guest")
    assert [Tier.GUEST, Tier.GUEST, Tier.OWNER] == [
        admission(owner, rank, LISTED).tier for rank in Rank
    ]
    assert {Tier.GUEST} == {admission(guest, rank, LISTED).tier for rank in Rank}


@pytest.mark.parametrize("word", ["OWNER", " owner", "owner ", "team", "", "own\x00er", "guest"])
def test_anything_but_owner_as_received_is_a_guest(word: str) -> None:
    """No stripping, no case folding, no third tier."""
    assert attested(task(access_tier=word)).tier is Tier.GUEST


def test_without_a_usable_map_nobody_is_owner() -> None:
    """The state of a file that was broken from the first look on."""
    assert ALL_GUESTS.cap("@owner:x") is Rank.GUEST
    assert AccessMap().cap("@owner:x") is Rank.OWNER


# --- collaborators


def test_a_listed_and_attested_sender_is_a_collaborator() -> None:
    """The owner's list and the relay's word together; the tier stays guest."""
    got = admission(task(**THEIRS), Rank.OWNER, LISTED)
    assert (Tier.GUEST, True) == (got.tier, got.collaborator)
    assert admission(task(**THEIRS), Rank.TEAM, LISTED).collaborator


@pytest.mark.parametrize(
    "change",
    [
        {"user_id": "@CARL:x"},
        {"user_id": ""},
        {"access_tier": "team"},
        {"access_tier": ""},
        {"requested_access_tier": "Team"},
        {"requested_access_tier": "owner"},
        {"requested_access_tier": ""},
        {"collaborator": False},
    ],
)
def test_anything_less_is_a_guest(change: dict[str, object]) -> None:
    """Each missing half alone leaves a guest."""
    assert not admission(task(**{**THEIRS, **change}), Rank.OWNER, LISTED).collaborator
    assert not admission(task(**THEIRS), Rank.GUEST, LISTED).collaborator
    assert not admission(task(**THEIRS), Rank.OWNER, frozenset()).collaborator


def test_an_owner_is_no_collaborator() -> None:
    """A listed sender who is attested owner runs as the owner, or capped, as a guest."""
    owner = task(**{**THEIRS, "access_tier": "owner"})
    assert not admission(owner, Rank.OWNER, LISTED).collaborator
    capped = admission(owner, Rank.TEAM, LISTED)
    assert (Tier.GUEST, False) == (capped.tier, capped.collaborator)


@given(
    st.sampled_from(["owner", "guest", "team", "", "Owner"]),
    st.sampled_from(["team", "owner", ""]),
    st.booleans(),
    st.sampled_from(["@carl:x", "@other:x", ""]),
    st.sampled_from(list(Rank)),
)
def test_nothing_but_the_owner_ever_raises_anybody(
    tier: str, requested: str, flag: bool, user: str, cap: Rank
) -> None:
    """Owner needs the attested word and no cap; a collaborator all five conditions."""
    one = task(user_id=user, access_tier=tier, requested_access_tier=requested, collaborator=flag)
    got = admission(one, cap, LISTED)
    assert (got.tier is Tier.OWNER) == (tier == "owner" and cap is Rank.OWNER)
    wanted = (tier, requested, flag, user) == ("guest", "team", True, "@carl:x")
    assert got.collaborator == (wanted and cap >= Rank.TEAM)


def test_each_collaborator_has_a_session_of_its_own() -> None:
    """The key is (room, sender); neither the owner's nor another collaborator's."""
    rooms = {"room_id": "!r:x"}
    carl, dora = task(**THEIRS, **rooms), task(**{**THEIRS, "user_id": "@dora:x"}, **rooms)
    keys = {session_key_of(one, Tier.GUEST, collaborator=True) for one in (carl, dora)}
    keys |= {session_key_of(carl, Tier.OWNER), session_key_of(carl, Tier.GUEST)}
    assert len(keys) == 4
    assert {True, False} == {key.collaborator for key in keys}
