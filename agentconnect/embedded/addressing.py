"""Who is meant by a room message, and at which tier its sender speaks (relay-wire.md §20.1).

Pure. The tier is decided here alone; a Worker trusts what the relay attests.
"""

import re
from collections.abc import Sequence

import msgspec

from agentconnect.embedded.records import Kind, Member

OWNER = "owner"
COLLABORATOR = "collaborator"
GUEST = "guest"


class Attested(msgspec.Struct, frozen=True, kw_only=True):
    """What a task says of its sender."""

    access_tier: str
    requested_access_tier: str = ""
    collaborator: bool = False


def local_of(user_id: str) -> str:
    """``codex`` of ``@codex:local``."""
    return user_id[1:].partition(":")[0]


def mentions(body: str, user_id: str) -> bool:
    """Whether the full id stands in the text, not as part of a longer one."""
    return re.search(rf"(?<![\w.@-]){re.escape(user_id)}(?![\w-]|[.:]\w)", body) is not None


def addressed(
    body: str,
    members: Sequence[Member],
    sender: Member | None,
    reply_to_sender: str = "",
    also: Sequence[str] = (),
) -> list[str]:
    """The agents whom a message makes a task of, in the order of the members.

    ``also`` holds ids that a client mentioned beside the text.
    """
    agents = [member.user_id for member in members if member.kind is Kind.AGENT]
    if sender is None or sender.kind is Kind.AGENT:
        me = "" if sender is None else sender.user_id
        return [a for a in agents if a != me and (mentions(body, a) or a in also)]
    if sender.kind is not Kind.PERSON:
        return []
    head = body.lstrip().lower()
    named = [
        agent
        for agent in agents
        if _called(head, local_of(agent).lower())
        or mentions(body, agent)
        or agent == reply_to_sender
        or agent in also
    ]
    return agents if len(agents) == 1 else named


def _called(head: str, local: str) -> bool:
    rest = head.removeprefix(f"!{local}")
    return rest != head and (not rest or rest[0].isspace())


def attest(sender_id: str, owner_id: str, trust: str, member_tier: str | None) -> Attested:
    """What the relay attests of a sender to one agent.

    ``trust`` is the word the agent's owner has for the sender; ``member_tier`` what was entered
    for them in the room, None for somebody who is no longer in it.
    """
    if sender_id == owner_id or (trust == OWNER and member_tier is not None):
        return Attested(access_tier=OWNER)
    if member_tier == COLLABORATOR:
        return Attested(access_tier=GUEST, requested_access_tier="team", collaborator=True)
    return Attested(access_tier=GUEST)
