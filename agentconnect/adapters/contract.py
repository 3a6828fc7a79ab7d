"""The seam between a turn and one kind of agent (worker.md §7).

An adapter is handed a :class:`TurnContext` and an ``emit`` callable and returns :class:`Done`. It
never posts to a room, never reads a tier to decide access (beyond its class attribute) and never
raises for what an agent did: those endings are ``Done`` values. ``emit`` is synchronous and cheap.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec
import trio

from agentconnect.core.task import SessionKey, Task, Tier
from agentconnect.core.turns.events import Done, Event

Emit = Callable[[Event], None]


class TurnContext(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one turn needs, settled once. ``prompt`` is the person's text, never blank."""

    task: Task
    prompt: str
    tier: Tier
    key: SessionKey
    cwd: str


class AgentSession(Protocol):
    """One conversation with a local agent; at most one turn at a time."""

    async def turn(self, ctx: TurnContext, emit: Emit) -> Done:
        """Run one turn to its end.

        Cancellation: may be cancelled at any await; the process is then ended by :meth:`kill`.
        """
        ...

    async def interrupt(self) -> None:
        """Ask the running turn to stop (ACP: ``session/cancel``). Idempotent."""
        ...

    async def kill(self) -> None:
        """End this session's process group now (bounded, shielded inside). Idempotent."""
        ...


class Adapter(Protocol):
    """One kind of agent. ``run`` is its standing task: the nursery in which its processes live."""

    name: str
    serves_guests: bool
    """False: a guest is refused in the room and the agent is not started (worker.md §6)."""

    @property
    def remote(self) -> bool:
        """Killing a session only drops a connection; the agent may go on (worker.md §20.1)."""
        ...

    @property
    def shares_files(self) -> bool:
        """A path that its agent names is one of this machine (worker.md §20.1)."""
        ...

    async def preflight(self) -> str:
        """Check that the agent can be started; the one-line description for log and status.

        Raises: PreflightError with a sentence that says how to mend it.
        """
        ...

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Own the agent processes (sessions', spares') until cancelled; end them, bounded."""
        ...

    def session(self, key: SessionKey) -> AbstractAsyncContextManager[AgentSession]:
        """The conversation of ``key``; leaving the context lets the process go warm or end."""
        ...
