"""What a request comes to before anything is done for it (deferred-delivery.md §9).

One function over what is known; the order of its lines is the order of the section. The ledger
is asked before the binding: a known id is answered from its entry, whatever became of its binding.
"""

import msgspec

from agentconnect.core.delivery.answers import Answer, Final, Retry, stored_answer
from agentconnect.core.delivery.bindings import Binding, is_mine, refusal
from agentconnect.core.delivery.ledger import Entry, Reason, WorkerId
from agentconnect.core.delivery.request import DeliverRequest

NOT_NOW_S = 60.0
"""The probe is repeated this often, so nothing changes sooner."""
UNREADABLE_S = 30.0


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What the store says about an id and a binding."""

    worker_id: WorkerId
    entry: Entry | None = None
    binding: Binding | None = None


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """The store cannot be read or written; never to be taken for an empty one."""

    reason: str = "the record of deliveries cannot be used"


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for every delivery at this moment.

    ``disabled``: why nothing new is taken, "" where it is (stopping counts too). ``keyed``: the
    last probe found a broker that honours keys, and no post has shown otherwise since.
    ``collaborators``: whom the owner lists. ``unchecked``: the owner lets theirs go unscanned.
    """

    disabled: str = ""
    keyed: bool = True
    stopping: bool = False
    collaborators: frozenset[str] = frozenset()
    unchecked: bool = False

    @property
    def guarded(self) -> bool:
        """Every delivery and notice passes the result guard (§9.6)."""
        return bool(self.collaborators) and not self.unchecked


class Continue(msgspec.Struct, frozen=True, kw_only=True):
    """In progress and idle: go on with it under its stored worker id."""

    entry: Entry


class Accept(msgspec.Struct, frozen=True, kw_only=True):
    """New and allowed, if the guard (where ``guarded``) finds nothing."""

    binding: Binding
    worker_id: WorkerId
    guarded: bool


Decision = Answer | Continue | Accept


def decide(
    request: DeliverRequest,
    known: Known | Unreadable,
    circumstances: Circumstances,
    *,
    wall_now: float,
) -> Decision:
    """The answer, or how the delivery goes on."""
    if isinstance(known, Unreadable):
        return Retry(retry_after_s=UNREADABLE_S, reason=known.reason, expires_at=None)
    if known.entry is not None:
        return _known(request, known.entry)
    if circumstances.disabled:
        return Retry(retry_after_s=NOT_NOW_S, reason=circumstances.disabled)
    if not is_mine(request.binding, known.worker_id):
        return Final(
            reason=Reason.NOT_MINE,
            detail="the binding was made by another worker, and this one has no record of the id",
        )
    why = refusal(
        known.binding,
        wall_now=wall_now,
        collaborators=circumstances.collaborators,
        unchecked=circumstances.unchecked,
    )
    if why or known.binding is None:
        return Final(reason=Reason.REJECTED, detail=why)
    return Accept(binding=known.binding, worker_id=known.worker_id, guarded=circumstances.guarded)


def _known(request: DeliverRequest, entry: Entry) -> Decision:
    if request.binding != entry.binding:
        return Final(
            reason=Reason.CONFLICT,
            detail="this id was first sent with another binding: resend it with that one",
            expires_at=entry.expires_at,
            binding=entry.binding,
        )
    if request.fingerprint != entry.fingerprint:
        return Final(
            reason=Reason.CONFLICT,
            detail="this id was first sent with another text or other files",
            expires_at=entry.expires_at,
        )
    return Continue(entry=entry) if entry.in_progress else stored_answer(entry)
