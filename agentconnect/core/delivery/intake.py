"""A request from its decision to its first-seen on disk; then it is the courier's.

The ledger first, then the binding, then the guard; nothing was sent to the relay when this hands
over (deferred-delivery.md §9).
"""

from agentconnect.core.delivery import deciding, ledger, posting
from agentconnect.core.delivery.answers import Answer, Final, Retry
from agentconnect.core.delivery.bindings import NOT_IN_FORCE
from agentconnect.core.delivery.courier import Courier, Run, digested, file_indexes
from agentconnect.core.delivery.deciding import Accept, Continue, Known, Unreadable
from agentconnect.core.delivery.effects import (
    Begin,
    Consult,
    Full,
    Judged,
    Recorded,
    Scan,
    Stale,
    Tell,
    World,
)
from agentconnect.core.delivery.ledger import Entry, Part, PartKind, PartState, Reason
from agentconnect.core.delivery.request import DeliverRequest


def deliver(request: DeliverRequest, world: World) -> Run[None]:
    """Run a request: exactly one ``Tell`` at least, unless it is given up before."""
    known: Known | Unreadable = yield Consult(id=request.id, binding=request.binding)
    circumstances = world.circumstances()
    decision = deciding.decide(request, known, circumstances, wall_now=world.wall_now())
    courier: Courier | None = None
    match decision:
        case Accept():
            courier = yield from _accept(request, decision, world)
        case Continue():
            courier = _continued(decision.entry, world)
        case _:
            yield Tell(answer=decision)
    del request, known, decision  # the text is on disk, and this may last a day
    if courier is not None:
        yield from courier.run()


def resume(entry: Entry, world: World) -> Run[None]:
    """Go on with a recorded delivery, or with the notice it owes."""
    courier = _continued(entry, world)
    del entry
    yield from courier.run()


def first_entry(request: DeliverRequest, decision: Accept, wall_now: float) -> Entry:
    """The entry as it is committed before anything else happens."""
    parts = [
        Part(kind=PartKind.FILE, name=file.shown_name, mime=file.mime or "", uri=file.uri)
        for file in request.files
    ]
    if request.speaks:
        # with no file to judge, the post is the next thing to happen: one commit for both
        state = PartState.WAITING if parts else PartState.TRYING
        parts.append(Part(kind=PartKind.TEXT, state=state))
    binding = decision.binding
    return Entry(
        id=request.id,
        worker_id=decision.worker_id,
        binding=binding.id,
        room=binding.room,
        sender=binding.sender,
        tier=binding.tier.value,
        folder=binding.folder,
        first_seen=wall_now,
        fingerprint=request.fingerprint,
        parts=tuple(parts),
        text=request.text if request.speaks else None,
    )


def _continued(entry: Entry, world: World) -> Courier:
    entry = ledger.rebased(entry, world.wall_now())
    unsure = {i for i, part in enumerate(entry.parts) if part.state is PartState.TRYING}
    return Courier(entry, world, unsure)


def _accept(request: DeliverRequest, decision: Accept, world: World) -> Run[Courier | None]:
    """What goes on with it once it is recorded; None: it was not, and that is told."""
    entry = first_entry(request, decision, world.wall_now())
    if decision.guarded:
        found: Judged = yield Scan(folder=entry.folder, text=entry.text, parts=_files(entry))
        if found.unfit:
            detail = f"part {found.at}: {found.unfit}"
            yield Tell(answer=Final(reason=Reason.REJECTED, detail=detail))
            return None
        entry = digested(entry, file_indexes(entry), found.found)
    refused = yield from record_first_seen(entry)
    if refused is not None:
        yield Tell(answer=refused)
        return None
    return Courier(entry, world, set())


def record_first_seen(entry: Entry) -> Run[Answer | None]:
    """Commit the entry; an answer where that cannot be done. Nothing was posted then."""
    recorded: Recorded | Full | Stale | Unreadable = yield Begin(entry=entry)
    match recorded:
        case Unreadable(reason=why):
            return Retry(retry_after_s=deciding.UNREADABLE_S, reason=why, expires_at=None)
        case Full():
            why = "the record of deliveries is full, and what it holds may not be dropped yet"
            return Retry(retry_after_s=posting.RETRY_CAP_S, reason=why, expires_at=None)
        case Stale():
            return Final(reason=Reason.REJECTED, detail=NOT_IN_FORCE)
        case _:
            return None


def _files(entry: Entry) -> tuple[Part, ...]:
    return tuple(entry.parts[i] for i in file_indexes(entry))
