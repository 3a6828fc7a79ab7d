"""What the daemon works with and does not make: the channels, and conversations with agents."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec
import trio

from agentconnect.core.daemon.host import WorkerRequest
from agentconnect.core.destination import Code

Hear = Callable[[msgspec.Raw], None]


class Attempt(Protocol):
    """How one delivery ended; ``code`` is None where it was delivered."""

    @property
    def code(self) -> Code | None: ...


class Channels(Protocol):
    """The channel workers."""

    async def deliver(self, workspace: str, wanted: WorkerRequest, *, source: str) -> Attempt:
        """One attempt, logged. Cancellation: the caller leaves, the attempt goes on."""
        ...

    async def settled(self) -> None:
        """Return when every worker runs or has failed once."""
        ...

    def skipped(self, workspace: str) -> None:
        """A turn ended well and had nothing to deliver."""
        ...

    def refusal(self, workspace: str) -> Code | None:
        """Why nothing can be delivered from there now."""
        ...

    def status(self) -> Mapping[str, object]:
        """By workspace, for the status file."""
        ...

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the workers until they are stopped; started at once."""
        ...

    async def stop(self) -> None:
        """Let attempts finish, then end the workers; bounded."""
        ...


class End(Protocol):
    """How a prompt ended: the agent's stop reason, "" where the turn failed."""

    @property
    def stop_reason(self) -> str: ...

    @property
    def interrupted(self) -> bool: ...


class Talk(Protocol):
    """One conversation with an agent; one prompt at a time."""

    async def open(self) -> bool:
        """Have it open and warm; False where the agent would not."""
        ...

    async def prompt(
        self, blocks: tuple[dict[str, Any], ...], meta: dict[str, Any], hear: Hear | None
    ) -> End:
        """Run one prompt to its end. Never raises for what the agent did."""
        ...

    async def interrupt(self) -> None:
        """Ask the running prompt to stop. Idempotent."""
        ...

    async def kill(self) -> None:
        """End its process now."""
        ...

    async def retire(self) -> None:
        """It is over for good."""
        ...


class Bridge(Protocol):
    """The conversations of one workspace."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the agents' processes until cancelled."""
        ...

    def session(self, session_id: str) -> Talk:
        """A conversation; nothing is started yet."""
        ...


@runtime_checkable
class Bridging(Protocol):
    """An adapter that the daemon can hold conversations with."""

    def bridge(self, cwd: str) -> Bridge:
        """The conversations of one canonical folder."""
        ...
