"""Bindings: where a Session's deliveries may go, for how long, and what takes them away.

deferred-delivery.md §4. A binding is a destination, not a credential; one per Session key, renewed
by each Turn. Random bytes and the time come in; the rows are in ``store/deliveries``.
"""

from enum import StrEnum

import msgspec

from agentconnect.core.delivery.ledger import HOUR_S, BindingId, WorkerId
from agentconnect.core.task import SessionKey, Tier

OWNER_LIFE_S = 30 * 24 * HOUR_S
COLLABORATOR_LIFE_S = 24 * HOUR_S
"""What the Worker can know: outside a Turn it does not learn that a grant was taken back."""

RENEW_AFTER_S = 60.0
"""A life that began so lately is not begun anew: a turn does not wait for the disk for that."""

RANDOM_BYTES = 16
NOT_IN_FORCE = "this binding is no longer in force"


class Purpose(StrEnum):
    """What a row is for: ``_ag2/deliver``, or ``_ag2/notify`` (without a folder; owners only)."""

    DELIVERY = "delivery"
    NOTIFY = "notify"


class Dropped(StrEnum):
    """Why a binding takes nothing more."""

    EXPIRED = "expired"
    UNATTESTED = "unattested"
    UNLISTED = "unlisted"


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """One row. ``folder`` is a name below the delivery root, "" where there is none."""

    id: BindingId
    purpose: Purpose = Purpose.DELIVERY
    room: str
    tier: Tier
    sender: str = ""
    created: float
    last_turn: float
    expires: float
    folder: str = ""
    dropped_at: float | None = None
    dropped_why: str = ""

    @property
    def collaborator(self) -> bool:
        return bool(self.sender)


def new_worker_id(random: bytes) -> WorkerId:
    """32 hex digits of 16 random bytes."""
    return WorkerId(_hex(random))


def is_mine(binding: str, worker_id: str) -> bool:
    """Whether this worker minted it, going by its name."""
    return binding.startswith(f"{worker_id}.")


def may_bind(key: SessionKey, *, unchecked: bool) -> bool:
    """Whether a Session gets a binding: the owner's always, a collaborator's with the opt-out.

    ``unchecked``: AGENT_CONNECT_UNCHECKED_COLLABORATORS is set on this machine.
    """
    return unchecked if key.collaborator else key.tier is Tier.OWNER


def renewed(
    existing: Binding | None,
    key: SessionKey,
    *,
    worker_id: WorkerId,
    wall_now: float,
    random: bytes,
    purpose: Purpose = Purpose.DELIVERY,
) -> Binding:
    """The binding of a Session key at a Turn: the live one with its life begun anew, or a new one.

    The live one as it is within ``RENEW_AFTER_S``: its end, as it is told, is then off by as much.
    One that has expired or was dropped is never taken up again: its folder may be gone.
    """
    life_s = COLLABORATOR_LIFE_S if key.collaborator else OWNER_LIFE_S
    if existing is not None and is_live(existing, wall_now):
        if 0 <= wall_now - existing.last_turn < RENEW_AFTER_S:
            return existing
        return msgspec.structs.replace(existing, last_turn=wall_now, expires=wall_now + life_s)
    name = BindingId(f"{worker_id}.{_hex(random)}")
    return Binding(
        id=name,
        purpose=purpose,
        room=key.room,
        tier=key.tier,
        sender=key.sender,
        created=wall_now,
        last_turn=wall_now,
        expires=wall_now + life_s,
        folder=name if purpose is Purpose.DELIVERY else "",
    )


def is_live(binding: Binding, wall_now: float) -> bool:
    """Neither dropped nor expired."""
    return binding.dropped_at is None and wall_now < binding.expires


def refusal(
    binding: Binding | None, *, wall_now: float, collaborators: frozenset[str], unchecked: bool
) -> str:
    """Why nothing new may go to this binding of ours, as a sentence; "" where it may (§9.5)."""
    if binding is None or binding.purpose is not Purpose.DELIVERY:
        return "this worker has no such binding"
    if not is_live(binding, wall_now):
        return NOT_IN_FORCE
    if not binding.collaborator:
        return ""
    if binding.sender not in collaborators:
        return "the sender this binding belongs to is not a listed collaborator any more"
    if not unchecked:
        return "collaborators' deliveries are not allowed on this machine any more"
    return ""


def to_drop(binding: Binding, *, wall_now: float, collaborators: frozenset[str]) -> Dropped | None:
    """What a start makes of a binding that is not dropped yet; None: it stays.

    Run now and then as well: an expiry that is written down is not undone by a clock set back.
    """
    if not is_live(binding, wall_now):
        return Dropped.EXPIRED
    if binding.collaborator and binding.sender not in collaborators:
        return Dropped.UNLISTED
    return None


def _hex(random: bytes) -> str:
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"{RANDOM_BYTES} random bytes are needed")
    return random.hex()
