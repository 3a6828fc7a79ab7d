"""What the conversations of one adapter have in common."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from agentconnect.adapters.acp_conversation import Reach
from agentconnect.adapters.acp_later import Later
from agentconnect.adapters.contract import TurnContext
from agentconnect.adapters.trouble import Trouble
from agentconnect.core.task import SessionKey
from agentconnect.core.turns import addressing
from agentconnect.core.turns import wording_acp as wording
from agentconnect.core.turns.session import SessionLimits


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What all conversations of one adapter share. ``cwd`` is absolute and resolved."""

    cwd: str
    reach: Reach = Reach.CHILD
    mode: str = ""
    asking_mode: str = ""
    login: str = ""
    execute_allowed: bool = False
    attachment_max_bytes: int = 10 * 1024 * 1024
    limits: SessionLimits = SessionLimits()
    inline_dir: Path | None = None


class Shared(msgspec.Struct, kw_only=True):
    """What the conversations of one run tell each other."""

    wall_clock: Callable[[], float]
    trouble: Trouble = msgspec.field(default_factory=Trouble)
    """Tells the owner, not the room, what a turn failed of."""
    later: Later = msgspec.field(default_factory=Later)
    resume_broken: bool = False
    load_missing_said: set[SessionKey] = msgspec.field(default_factory=set)
    unread_said: set[SessionKey] = msgspec.field(default_factory=set)


def framing_of(
    ctx: TurnContext, settings: SessionSettings, files: Sequence[str], unread: Sequence[str]
) -> str:
    """What stands before a prompt: who asks where, and of which files."""
    return wording.framing(
        sender=ctx.task.sender_name,
        room=ctx.task.room_name,
        cwd=settings.cwd,
        files=files,
        unread=unread,
        sends_files=settings.reach is not Reach.ELSEWHERE,
        collaborator=ctx.task.user_id if ctx.key.collaborator else "",
        around=addressing.preamble(ctx.task),
    )
