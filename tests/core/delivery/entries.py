"""Entries and requests for tests."""

import json

from agentconnect.core.delivery.ledger import (
    BindingId,
    DeliveryId,
    Entry,
    Part,
    PartKind,
    WorkerId,
)
from agentconnect.core.delivery.request import DeliverRequest, read_deliver

WORKER = WorkerId("9f86d081884c7d659a2feaa0c55ad015")
BINDING = BindingId(f"{WORKER}.{'0' * 32}")


def request(
    name: str = "x", *, text: str | None = "done", files: int = 0, binding: str = BINDING
) -> DeliverRequest:
    """A valid request with so many files of the binding's folder."""
    listed = [{"uri": f"file:///export/{binding}/{number}"} for number in range(files)]
    plain = {"id": name, "binding": binding, "text": text, "files": listed}
    found = read_deliver(json.dumps(plain).encode())
    assert isinstance(found, DeliverRequest), found
    return found


def entry(
    name: str = "x", *, text: str | None = "done", files: int = 0, first_seen: float = 1000.0
) -> Entry:
    """An entry in progress, nothing of it posted."""
    parts = [
        Part(kind=PartKind.FILE, name=f"f{number}", uri=f"file:///export/{BINDING}/{number}")
        for number in range(files)
    ]
    if text:
        parts.append(Part(kind=PartKind.TEXT))
    return Entry(
        id=DeliveryId(name),
        worker_id=WORKER,
        binding=BINDING,
        room="!r:h",
        folder=BINDING,
        first_seen=first_seen,
        fingerprint=request(name, text=text, files=files).fingerprint,
        parts=tuple(parts),
        text=text,
    )
