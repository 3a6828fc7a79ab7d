"""Conversations of the daemon: prompted as the client says, without a room (channel-delivery §2.3).

They run as the owner's sessions do: the same process, environment, permission rule, memory and
settings; only the content of a prompt goes as it came, and updates are heard as they come.
"""

from functools import partial
from typing import Any

import msgspec
import trio

from agentconnect.acp import Agent
from agentconnect.adapters import acp_endings as endings
from agentconnect.adapters.acp_conversation import Conversation, Hear
from agentconnect.adapters.acp_pool import AgentPool
from agentconnect.adapters.acp_session import AcpSession
from agentconnect.adapters.acp_shared import SessionSettings, Shared
from agentconnect.adapters.contract import Emit
from agentconnect.core.task import SessionKey, Tier
from agentconnect.core.turns.events import Done, Event, Reason
from agentconnect.store.sessions import SessionStore

ROOM = "daemon:"
"""Before the daemon's id of a session, where a room's id would stand; no room is called so."""


class DirectEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a prompt ended: ``stop_reason`` is the agent's word, "" where the turn failed."""

    stop_reason: str
    interrupted: bool = False


class DirectSession(AcpSession):
    """One conversation of the daemon."""

    async def prompt(
        self, blocks: tuple[dict[str, Any], ...], meta: dict[str, Any], hear: Hear | None
    ) -> DirectEnd:
        """Run one prompt to its end; ``hear`` gets its updates in wire order, before the end does.

        Never raises for what the agent did. Cancellation: its process is ended.
        """
        said: list[str] = []
        done = await self._alone(partial(self._direct, blocks, meta, hear, said), _drop)
        if done.reason is Reason.CANCELLED:
            return DirectEnd(stop_reason="cancelled", interrupted=self._interrupted)
        return DirectEnd(stop_reason=said[-1] if said else "", interrupted=self._interrupted)

    async def open(self) -> bool:
        """Have the conversation open, its process warm; False where the agent would not."""
        done = await self._alone(_nothing, _drop)
        return done.reason is Reason.COMPLETED

    async def _direct(
        self,
        blocks: tuple[dict[str, Any], ...],
        meta: dict[str, Any],
        hear: Hear | None,
        said: list[str],
        agent: Agent,
        conversation: Conversation,
        emit: Emit,
    ) -> Done:
        if self._interrupted:
            return Done(reason=Reason.CANCELLED)
        begin = conversation.open(emit, None, hear)
        stop_reason = await self._settled(agent, conversation, blocks, meta, begin)
        said.append(stop_reason)
        return endings.stopped(stop_reason, by_us=self._interrupted)


class Bridge:
    """The conversations of one workspace, each with a process of its own."""

    def __init__(
        self,
        pool: AgentPool,
        settings: SessionSettings,
        store: SessionStore | None,
        shared: Shared,
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._store = store
        self._shared = shared

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the processes until cancelled; then all of them end."""
        await self._pool.run(task_status=task_status)

    def session(self, session_id: str) -> DirectSession:
        """The conversation of the daemon's session of that id; nothing is started yet."""
        return DirectSession(
            SessionKey(room=ROOM + session_id, tier=Tier.OWNER),
            settings=self._settings,
            pool=self._pool,
            store=self._store,
            shared=self._shared,
        )


async def _nothing(_agent: Agent, _conversation: Conversation, _emit: Emit) -> Done:
    return Done(reason=Reason.COMPLETED)


def _drop(_event: Event) -> None:
    """There is no room to tell."""
