"""The two desks, put together around the relay client: the turns', and the deliveries'."""

import os
import time
from typing import Protocol, runtime_checkable

import msgspec
import trio

from agentconnect.adapters.contract import Adapter
from agentconnect.core.delivery.capability import overlap
from agentconnect.core.delivery.ports import DeliveryService, Destinations
from agentconnect.delivery.desk import DeliveryDesk
from agentconnect.delivery.folders import ExportFolders
from agentconnect.relay import Relay
from agentconnect.status.writer import StatusWriter
from agentconnect.store.deliveries import Deliveries
from agentconnect.store.journal import Journal
from agentconnect.turns.desk import Desk
from agentconnect.wiring import Parts


@runtime_checkable
class Delivering(Protocol):
    """An adapter whose agent may deliver later."""

    def deliver_by(self, service: DeliveryService, destinations: Destinations) -> None:
        """Offer deferred delivery; before any agent is started."""
        ...

    async def listener(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """The agent's standing connection, until cancelled; ends at once where there is none."""
        ...


def deliveries(parts: Parts, relay: Relay, status: StatusWriter) -> DeliveryDesk | None:
    """What runs deferred deliveries, where the agent is of a kind that has them.

    Before any agent is started: what is offered is said in the first message to it.
    """
    if parts.delivery is None:
        return None
    folders = ExportFolders(parts.where.export)
    inside = overlap(os.path.realpath(folders.root), relay.egress_roots)
    later = DeliveryDesk(
        store=Deliveries(parts.where, time.time),
        posts=relay.keyed,
        rooms=relay.rooms,
        keys=relay.capabilities,
        folders=folders,
        settings=msgspec.structs.replace(parts.delivery, overlap=inside),
        scan=parts.scan,
        on_status=status.delivery,
    )
    if isinstance(parts.adapter, Delivering):
        parts.adapter.deliver_by(later, later.destinations)
    return later


async def listen(adapter: Adapter) -> None:
    """Hold the agent's standing connection until cancelled, where there is one."""
    if isinstance(adapter, Delivering):
        await adapter.listener()


def desk(
    parts: Parts,
    relay: Relay,
    record: Journal,
    work: trio.Nursery,
    later: DeliveryDesk | None,
) -> Desk:
    """Where tasks come in."""
    return Desk(
        adapter=parts.adapter,
        rooms=relay.rooms,
        results=relay.results,
        record=record,
        settings=parts.turns,
        work=work,
        admit=parts.admit,
        scan=parts.scan,
        unattested=later.destinations.unattested if later else None,
    )
