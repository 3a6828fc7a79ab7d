"""For authors of agents: what is finished after its turn reaches the room (``_ag2/deliver``).

Needs nothing but the standard library and works with asyncio, Trio and plain threads. The guide is
docs/delivering.md.
"""

from agentconnect.deliver.answers import Part
from agentconnect.deliver.driving import deliver, deliver_blocking, error_of
from agentconnect.deliver.errors import (
    DeliverError,
    DifferentContentError,
    InvalidDeliveryError,
    OutboxError,
    OutboxFullError,
)
from agentconnect.deliver.outbox import Entry, Outbox
from agentconnect.deliver.request import File
from agentconnect.deliver.sender import Sender
from agentconnect.deliver.wire import (
    CAPABILITY,
    DELIVER,
    NOTIFY,
    Destination,
    declared,
    destination,
    notify_destination,
    notify_params,
)

__all__ = [
    "CAPABILITY",
    "DELIVER",
    "NOTIFY",
    "DeliverError",
    "Destination",
    "DifferentContentError",
    "Entry",
    "File",
    "InvalidDeliveryError",
    "Outbox",
    "OutboxError",
    "OutboxFullError",
    "Part",
    "Sender",
    "declared",
    "deliver",
    "deliver_blocking",
    "destination",
    "error_of",
    "notify_destination",
    "notify_params",
]
