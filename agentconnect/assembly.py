"""The two desks, put together around the relay client: the turns', and the deliveries'."""

import os
import time

import msgspec
import trio

from agentconnect.core.delivery.capability import overlap
from agentconnect.delivery.desk import DeliveryDesk
from agentconnect.delivery.folders import ExportFolders
from agentconnect.relay import Relay
from agentconnect.status.writer import StatusWriter
from agentconnect.store.deliveries import Deliveries
from agentconnect.store.journal import Journal
from agentconnect.turns.desk import Desk
from agentconnect.wiring import Parts


def deliveries(parts: Parts, relay: Relay, status: StatusWriter) -> DeliveryDesk | None:
    """What runs deferred deliveries, where the agent is of a kind that has them."""
    if parts.delivery is None:
        return None
    folders = ExportFolders(parts.where.export)
    inside = overlap(os.path.realpath(folders.root), relay.egress_roots)
    return DeliveryDesk(
        store=Deliveries(parts.where, time.time),
        posts=relay.keyed,
        rooms=relay.rooms,
        keys=relay.capabilities,
        folders=folders,
        settings=msgspec.structs.replace(parts.delivery, overlap=inside),
        scan=parts.scan,
        on_status=status.delivery,
    )


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
