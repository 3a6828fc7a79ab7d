"""Who a task is run for: the attested tier, the owner's cap, collaborators (worker.md §6, §20.5).

Owns the meaning of ``access.json`` and the one decision made from it. Nothing here raises anybody:
a cap only lowers, a collaborator needs the owner's list, the relay's word and no cap against it.
"""

import json
from collections.abc import Callable, Mapping
from enum import IntEnum

import msgspec

from agentconnect.core.task import Task, Tier, tier_of

NAMED_AT_MOST = 5  # entries of a broken map named in one sentence


class Rank(IntEnum):
    """What the owner's map can cap a sender at."""

    GUEST = 0
    TEAM = 1
    OWNER = 2


_RANKS = {rank.name.lower(): rank for rank in Rank}


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """How a task is run. A collaborator's tier is guest: it is the flag that lets it in."""

    tier: Tier
    collaborator: bool = False


Admit = Callable[[Task], Admission]


class AccessMap(msgspec.Struct, frozen=True, kw_only=True):
    """The caps of one reading. ``unknown``: senders whose value is no tier; they are guests."""

    caps: Mapping[str, Rank] = {}
    unknown: tuple[str, ...] = ()
    all_guests: bool = False

    def cap(self, user_id: str) -> Rank:
        """The most this sender can be here."""
        if self.all_guests:
            return Rank.GUEST
        return self.caps.get(user_id, Rank.OWNER)


ALL_GUESTS = AccessMap(all_guests=True)


def read_map(data: bytes) -> AccessMap:
    """The map in the bytes of ``access.json``. A sender named twice has the lower of the two.

    Raises: ValueError with what is wrong, for anything but an object with an object of caps.
    """
    try:
        top = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_Members)
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(top, _Members):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - of the file
    caps: dict[str, Rank] = {}
    unknown: dict[str, None] = {}
    for name, entries in top:
        if name != "tierMap":
            continue
        if not isinstance(entries, _Members):
            raise ValueError("its tierMap is not a JSON object")  # noqa: TRY004 - of the file
        for key, value in entries:
            user = key.strip()
            rank = _RANKS.get(value.strip().lower()) if isinstance(value, str) else None
            if rank is None:
                unknown[user] = None
            caps[user] = min(rank or Rank.GUEST, caps.get(user, Rank.OWNER))
    return AccessMap(caps=caps, unknown=tuple(unknown))


class _Members(list[tuple[str, object]]):
    """A JSON object with every member, repeated ones too."""


def admission(task: Task, cap: Rank, collaborators: frozenset[str]) -> Admission:
    """The tier a task runs at, and whether it is a collaborator's."""
    if tier_of(task) is Tier.OWNER:
        return Admission(tier=Tier.OWNER if cap is Rank.OWNER else Tier.GUEST)
    return Admission(
        tier=Tier.GUEST,
        collaborator=(
            cap >= Rank.TEAM
            and task.access_tier == "guest"
            and task.requested_access_tier == "team"
            and task.collaborator is True
            and task.user_id in collaborators
        ),
    )


def attested(task: Task) -> Admission:
    """The admission where the owner has set nothing: as attested, no collaborators."""
    return admission(task, Rank.OWNER, frozenset())


def broken_map(why: str, *, kept: bool) -> str:
    """What the owner is told of a map that cannot be used."""
    then = (
        "the last good one stays in force"
        if kept
        else "until it is mended everybody is a guest here"
    )
    return f"access.json cannot be used ({why}): {then}"


def unknown_values(users: tuple[str, ...]) -> str:
    """What the owner is told of entries that name no tier."""
    shown = ", ".join(_printable(user) for user in users[:NAMED_AT_MOST])
    more = f" and {len(users) - NAMED_AT_MOST} more" if len(users) > NAMED_AT_MOST else ""
    return f"access.json names no tier (guest, team, owner) for {shown}{more}: guest"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:120]) or '""'
