"""What a request comes to, in the order of §9."""

import msgspec
import pytest

from agentconnect.core.delivery.answers import Answer, Final, Retry, stored_answer
from agentconnect.core.delivery.bindings import Binding
from agentconnect.core.delivery.deciding import (
    Accept,
    Circumstances,
    Continue,
    Decision,
    Known,
    Unreadable,
    decide,
)
from agentconnect.core.delivery.ledger import BindingId, Entry, PartState, Reason, ended, with_part
from agentconnect.core.task import Tier
from tests.core.delivery.entries import BINDING, WORKER, entry, request

NOW = 2000.0
ANN = "@ann:h"


def binding(sender: str = "", **changes: object) -> Binding:
    plain = Binding(
        id=BINDING,
        room="!r:h",
        tier=Tier.GUEST if sender else Tier.OWNER,
        sender=sender,
        created=0.0,
        last_turn=0.0,
        expires=5000.0,
        folder=BINDING,
    )
    return msgspec.structs.replace(plain, **changes)


def known(known_entry: Entry | None = None, found: Binding | None = None) -> Known:
    return Known(worker_id=WORKER, entry=known_entry, binding=found)


def judged(known_now: Known | Unreadable, **circumstances: object) -> Decision:
    return decide(request(), known_now, Circumstances(**circumstances), wall_now=NOW)  # type: ignore[arg-type]


def final(decision: Decision) -> Reason:
    assert isinstance(decision, Final)
    assert decision.detail
    return decision.reason


def test_an_unreadable_store_answers_nothing_else() -> None:
    """Retry without ``expires_at``, whatever else holds."""
    told = judged(Unreadable(), disabled="no")
    assert isinstance(told, Retry)
    assert told.expires_at is None


def finished() -> Entry:
    return ended(with_part(entry(), 0, state=PartState.POSTED, event_id="$e"), NOW)


@pytest.mark.parametrize("found", [None, binding(), binding(expires=1.0), binding(dropped_at=1.0)])
def test_a_known_id_is_answered_from_its_entry(found: Binding | None) -> None:
    """Whatever became of its binding, and while deliveries are disabled as well."""
    assert stored_answer(finished()) == judged(known(finished(), found), disabled="no")
    assert Continue(entry=entry()) == judged(known(entry(), found), disabled="no")


def test_a_demoted_senders_known_delivery_goes_on() -> None:
    """It was accepted; only new ones are refused."""
    dropped = binding(ANN, dropped_at=1.0)
    assert isinstance(judged(known(entry(), dropped)), Continue)
    assert Reason.REJECTED == final(judged(known(None, dropped)))


@pytest.mark.parametrize("known_entry", [entry(), finished()])
def test_a_known_id_with_other_content_is_a_conflict(known_entry: Entry) -> None:
    """Under another binding the answer names the recorded one."""
    other = msgspec.structs.replace(known_entry, fingerprint="other")
    told = judged(known(other))
    assert Reason.CONFLICT == final(told)
    assert isinstance(told, Final)
    assert told.binding is None
    elsewhere = msgspec.structs.replace(known_entry, binding=BindingId("w.other"))
    told = judged(known(elsewhere))
    assert isinstance(told, Final)
    assert (Reason.CONFLICT, "w.other") == (told.reason, told.binding)
    assert told.expires_at == known_entry.expires_at


def test_a_new_id_while_disabled() -> None:
    """Retry, also under a binding of nobody's."""
    told = judged(known(), disabled="the relay keeps no keys")
    assert isinstance(told, Retry)
    assert "the relay keeps no keys" == told.reason


def test_another_workers_binding() -> None:
    """``not_mine``: go back to whoever made it."""
    foreign = Known(worker_id=type(WORKER)("0" * 32), entry=None, binding=None)
    assert Reason.NOT_MINE == final(judged(foreign))


@pytest.mark.parametrize(
    "found",
    [None, binding(expires=NOW), binding(dropped_at=NOW), binding(purpose="notify")],
)
def test_an_own_binding_out_of_force(found: Binding | None) -> None:
    """Missing, expired, dropped, or for notices only: rejected."""
    assert Reason.REJECTED == final(judged(known(None, found)))


@pytest.mark.parametrize(
    ("listed", "unchecked", "taken"),
    [({ANN}, True, True), ({ANN}, False, False), ({"@bob:h"}, True, False), (set(), True, False)],
)
def test_a_collaborators_binding(listed: set[str], unchecked: bool, taken: bool) -> None:
    """Only while the sender is listed and the opt-out is set, both judged now."""
    told = judged(known(None, binding(ANN)), collaborators=frozenset(listed), unchecked=unchecked)
    assert isinstance(told, Accept) is taken
    assert taken or final(told) == Reason.REJECTED


@pytest.mark.parametrize(
    ("listed", "unchecked", "guarded"),
    [(set(), False, False), (set(), True, False), ({ANN}, False, True), ({ANN}, True, False)],
)
def test_the_owners_delivery_is_guarded_too(
    listed: set[str], unchecked: bool, guarded: bool
) -> None:
    """While anybody is listed: their Turn can steer which binding the agent picks."""
    told = judged(known(None, binding()), collaborators=frozenset(listed), unchecked=unchecked)
    assert isinstance(told, Accept)
    assert guarded is told.guarded


def test_an_answer_is_no_promise_to_wait() -> None:
    """Every answer that is not Delivered names a reason."""
    for told in (judged(Unreadable()), judged(known()), judged(known(None, binding(expires=1.0)))):
        assert isinstance(told, Answer)
