"""An adapter at work, as the worker has it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import trio

from agentconnect.adapters.contract import Adapter

AdapterT = TypeVar("AdapterT", bound=Adapter)


@asynccontextmanager
async def running(adapter: AdapterT) -> AsyncIterator[AdapterT]:
    """The adapter with its processes' nursery."""
    async with trio.open_nursery() as worker:
        await worker.start(adapter.run)
        try:
            yield adapter
        finally:
            worker.cancel_scope.cancel()
