"""What an adapter is, and what it is given (channel-delivery.md §15)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import trio

from agentconnect.core.channels.sending import Ask, DeliveryError, Outgoing, Reply


class Door(Protocol):
    """HTTP out: one request, one answer, nothing repeated and nothing followed."""

    async def ask(self, ask: Ask) -> Reply:
        """Raises: DeliveryError, transient, where there is no whole answer."""
        ...

    async def knock(self, url: str) -> None:
        """Connect to where ``url`` is and send nothing. Raises: DeliveryError."""
        ...

    async def aclose(self) -> None:
        """Close what is open. Never waits."""
        ...


class Adapter(Protocol):
    """One configured channel."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Its standing task: connects, keeps up what it needs, cleans up when cancelled.

        Raises: DeliveryError before it has started, where its credentials are refused.
        """
        ...

    async def send(self, outgoing: Outgoing) -> None:
        """One attempt; returning is "delivered". Raises: DeliveryError."""
        ...

    async def check(self) -> str:
        """Try all that can be tried without sending; a few words on what was found.

        Raises: DeliveryError.
        """
        ...


class Wired:
    """An adapter that needs its door and nothing else that lasts."""

    def __init__(self, door: Door) -> None:
        self.door = door

    async def start(self) -> None:
        """What has to work before it counts as started."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Stay until cancelled."""
        try:
            await self.start()
            task_status.started()
            await trio.sleep_forever()
        finally:
            await self.door.aclose()


async def in_order(chunks: Sequence[str], send: Callable[[int, str], Awaitable[None]]) -> None:
    """Send one after the other; the first that fails decides, and earlier ones stay (§15)."""
    for number, chunk in enumerate(chunks):
        try:
            await send(number, chunk)
        except DeliveryError as error:
            told = f"{error} chunks_sent={number}/{len(chunks)}" if len(chunks) > 1 else str(error)
            raise DeliveryError(error.disposition, told) from None
