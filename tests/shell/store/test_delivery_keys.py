"""The keys that a worker posts under, as the page's relay asks for them beside it."""

from pathlib import Path

import pytest

from agentconnect.core.delivery.keys import NOTICE, part_key
from agentconnect.core.delivery.ledger import BindingId, DeliveryId, Entry, Part, PartKind, ended
from agentconnect.core.errors import StoreUnreadableError
from agentconnect.core.task import SessionKey, Tier
from agentconnect.store.deliveries import Deliveries
from agentconnect.store.delivery_record import posting_keys
from agentconnect.store.layout import Layout

OWNER = SessionKey(room="!r:h", tier=Tier.OWNER)


def entry_of(store: Deliveries, binding: BindingId, ident: str, number: int = 0) -> Entry:
    """A text that is about to be posted."""
    return Entry(
        id=DeliveryId(ident),
        worker_id=store.worker_id,
        binding=binding,
        room="!r:h",
        tier="owner",
        folder=binding,
        first_seen=1_800_000_000.0 + number,
        fingerprint="f",
        parts=(Part(kind=PartKind.TEXT),),
        text="t",
    )


async def test_the_keys_of_what_is_in_progress(tmp_path: Path) -> None:
    """Its parts and its notice; nothing of what has ended, nothing where there is no store."""
    layout = Layout(state_dir=tmp_path)
    layout.prepare()
    assert frozenset() == posting_keys(layout.deliveries)
    store = Deliveries(layout, lambda: 1_800_000_000.0)
    await store.open()
    binding = await store.bind(OWNER)
    going = entry_of(store, binding.id, "going")
    over = entry_of(store, binding.id, "over")
    for entry in (going, over):
        await store.begin(entry)
    await store.save(ended(over, 1_800_000_001.0))
    wanted = {part_key(store.worker_id, "going", part) for part in (0, NOTICE)}
    assert wanted == posting_keys(layout.deliveries)
    await store.close()


async def test_a_store_that_cannot_be_read(tmp_path: Path) -> None:
    """One kind of error, whatever lies there."""
    layout = Layout(state_dir=tmp_path)
    layout.prepare()
    layout.deliveries.write_text("{" * 5000)
    with pytest.raises(StoreUnreadableError):
        posting_keys(layout.deliveries)
