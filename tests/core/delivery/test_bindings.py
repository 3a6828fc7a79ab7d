"""Bindings: minted, renewed, expired, dropped (§4)."""

import msgspec
import pytest

from agentconnect.core.delivery.bindings import (
    Binding,
    Dropped,
    Purpose,
    is_live,
    is_mine,
    may_bind,
    new_worker_id,
    renewed,
    to_drop,
)
from agentconnect.core.delivery.request import is_binding
from agentconnect.core.task import SessionKey, Tier
from tests.core.delivery.entries import WORKER

OWNER = SessionKey(room="!r:h", tier=Tier.OWNER)
ANN = SessionKey(room="!r:h", tier=Tier.GUEST, sender="@ann:h")
GUEST = SessionKey(room="!r:h", tier=Tier.GUEST)
DAY_S = 86_400.0
RANDOM = bytes(range(16))


def mint(key: SessionKey, now: float = 1000.0, old: Binding | None = None) -> Binding:
    return renewed(old, key, worker_id=WORKER, wall_now=now, random=RANDOM)


def test_a_binding_is_the_worker_and_random_bytes() -> None:
    """32 hex digits each, in the grammar of a request, with a folder of the same name."""
    made = mint(OWNER)
    assert f"{WORKER}.{RANDOM.hex()}" == made.id == made.folder
    assert is_binding(made.id)
    assert is_mine(made.id, WORKER)
    assert not is_mine(made.id, WORKER[:-1])
    assert RANDOM.hex() == new_worker_id(RANDOM)
    with pytest.raises(ValueError, match="16"):
        new_worker_id(b"x")


@pytest.mark.parametrize(("key", "life_s"), [(OWNER, 30 * DAY_S), (ANN, DAY_S)])
def test_a_turn_renews_the_same_one(key: SessionKey, life_s: float) -> None:
    """30 days for the owner, 24 hours for a collaborator, from the last Turn."""
    first = mint(key)
    assert 1000.0 + life_s == first.expires
    again = renewed(first, key, worker_id=WORKER, wall_now=5000.0, random=bytes(16))
    assert (first.id, first.created, 5000.0 + life_s) == (again.id, again.created, again.expires)


@pytest.mark.parametrize(
    ("later_s", "begun"), [(0.0, 1000.0), (59.9, 1000.0), (60.0, 1060.0), (-5.0, 995.0)]
)
def test_a_life_that_began_within_a_minute_goes_on(later_s: float, begun: float) -> None:
    """A turn behind another one changes nothing; a clock set back is followed."""
    first = mint(OWNER)
    now = 1000.0 + later_s
    again = renewed(first, OWNER, worker_id=WORKER, wall_now=now, random=bytes(16))
    assert (first.id, begun, begun + 30 * DAY_S) == (again.id, again.last_turn, again.expires)


@pytest.mark.parametrize("gone", [{"expires": 1.0}, {"dropped_at": 1.0}])
def test_one_out_of_force_is_not_taken_up_again(gone: dict[str, float]) -> None:
    """Its folder may be gone: another is minted."""
    old = msgspec.structs.replace(mint(OWNER), **gone)
    again = renewed(old, OWNER, worker_id=WORKER, wall_now=5000.0, random=bytes(16))
    assert old.id != again.id


def test_a_notice_has_no_folder() -> None:
    """It carries text only."""
    made = renewed(
        None, OWNER, worker_id=WORKER, wall_now=0.0, random=RANDOM, purpose=Purpose.NOTIFY
    )
    assert "" == made.folder


def test_who_gets_one() -> None:
    """The owner always, a collaborator with the opt-out, a guest never."""
    assert [(True, True), (False, True), (False, False)] == [
        (may_bind(key, unchecked=False), may_bind(key, unchecked=True))
        for key in (OWNER, ANN, GUEST)
    ]


def test_what_a_start_drops() -> None:
    """Expired ones, and those of senders who are not listed any more."""
    nobody: frozenset[str] = frozenset()
    assert to_drop(mint(OWNER), wall_now=2000.0, collaborators=nobody) is None
    assert Dropped.UNLISTED == to_drop(mint(ANN), wall_now=2000.0, collaborators=nobody)
    listed = frozenset({"@ann:h"})
    assert to_drop(mint(ANN), wall_now=2000.0, collaborators=listed) is None
    assert Dropped.EXPIRED == to_drop(mint(ANN), wall_now=DAY_S + 1000.0, collaborators=listed)
    assert not is_live(mint(ANN), DAY_S + 1000.0)
