"""What a delivery adds to its bare keyed post, with a small and with a full record, in turns."""

import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import trio

from agentconnect.core.delivery import ledger
from agentconnect.core.redaction import shapes_in
from agentconnect.core.relay.credential import build
from agentconnect.core.task import SessionKey, Tier
from agentconnect.delivery.desk import DeliveryDesk
from agentconnect.delivery.folders import ExportFolders
from agentconnect.delivery.standing import DeliverySettings
from agentconnect.embedded.server import open_embedded
from agentconnect.relay import RelayConfig, open_relay
from agentconnect.store import delivery_rows as rows
from agentconnect.store.deliveries import Deliveries
from agentconnect.store.journal import open_journal
from agentconnect.store.layout import Layout
from tests.bench.measures import Figures

RECORDS = (10, 10_000)
DAYS_2 = 2 * 86_400


class Subject:
    """A desk whose record holds so many entries, all but one old enough to make room."""

    def __init__(self, desk: DeliveryDesk, store: Deliveries, relay: Any, room: str) -> None:
        self.posts = relay.keyed
        self._desk = desk
        self._store = store
        self._room = room
        self._binding = ""

    async def begin(self, entries: int) -> None:
        """Mint a binding, deliver once, fill the record."""
        self._desk.declared(True)
        await self._desk.probe()
        key = SessionKey(room=self._room, tier=Tier.OWNER)
        meta = await self._desk.destinations.delivery(key)
        if meta is None:
            raise RuntimeError(f"no binding: {self._desk.enabled}")
        self._binding = meta.binding
        await self.deliver()
        await self._store._do(lambda connection: _fill(connection, entries))
        await self._store.close()  # opened again, it counts what is there
        await self.deliver()
        found = await self._store._do(rows.count)
        if found != min(entries + 1, ledger.MAX_ENTRIES):
            raise RuntimeError(f"the record holds {found} entries, not {entries}")

    async def deliver(self) -> None:
        """One text, from the request to its answer."""
        params = {"id": uuid.uuid4().hex, "binding": self._binding, "text": "built"}
        await self._desk.deliver(msgspec.Raw(msgspec.json.encode(params)))


def _fill(connection: Any, entries: int) -> None:
    columns = [row[1] for row in connection.execute("PRAGMA table_info(deliveries)")][1:]
    past = {
        "id": "'c' || n",
        "first_seen": f"first_seen - {DAYS_2}",
        "finished_at": f"finished_at - {DAYS_2}",
    }
    names, values = ", ".join(columns), ", ".join(past.get(name, name) for name in columns)
    connection.execute(
        f"WITH RECURSIVE counted(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM counted"
        f" WHERE n < {entries}) INSERT INTO deliveries ({names})"
        f" SELECT {values} FROM counted, (SELECT * FROM deliveries LIMIT 1)"
    )


@asynccontextmanager
async def subject_at(folder: Path, token: str, room: str, entries: int) -> AsyncIterator[Subject]:
    """A desk with a relay client of its own, on the embedded relay."""
    layout = Layout(state_dir=folder)
    layout.prepare()
    folders = ExportFolders(layout.export)
    folders.prepare()
    config = RelayConfig(
        credential=build(token=token),
        status_path=layout.connection_status,
        guard_path=layout.guard,
        media_dir=layout.media,
        delivery_root=str(layout.export),
    )
    async with (
        open_journal(layout.journal) as journal,
        open_relay(config, journal) as relay,
        trio.open_nursery() as work,
    ):
        store = Deliveries(layout, time.time)
        desk = DeliveryDesk(
            store=store,
            posts=relay.keyed,
            rooms=relay.rooms,
            keys=relay.capabilities,
            folders=folders,
            settings=DeliverySettings(),
            scan=shapes_in,
        )
        await work.start(desk.run)
        subject = Subject(desk, store, relay, room)
        await subject.begin(entries)
        yield subject
        await desk.stop(5.0)
        work.cancel_scope.cancel()


async def deliveries(folder: Path, rounds: int) -> Figures:
    """Milliseconds by what was done: ``bare``, and a delivery at each size of the record."""
    found: Figures = {"bare": [], **{str(entries): [] for entries in RECORDS}}
    async with open_embedded(folder / "relay") as relay:
        setup = await relay.ensure_local("bench", "owner")
        small, full = (folder / str(entries) for entries in RECORDS)
        args = setup.agent_token, setup.room_id
        async with (
            subject_at(small, *args, RECORDS[0]) as at_small,
            subject_at(full, *args, RECORDS[1]) as at_full,
        ):

            async def bare() -> None:
                await at_small.posts.text(setup.room_id, uuid.uuid4().hex * 2, "built")

            acts = {"bare": bare, "10": at_small.deliver, "10000": at_full.deliver}
            for number in range(rounds + 5):
                for name, act in acts.items():
                    began = time.perf_counter()
                    await act()
                    if number >= 5:  # the first ones fill the caches
                        found[name].append((time.perf_counter() - began) * 1e3)
    return found


def lines(found: Figures) -> list[str]:
    """For reading: the figures, what a delivery adds, and the ratio of what it adds."""
    bare, small, full = (median(found[name]) for name in ("bare", "10", "10000"))
    ratio = (full - bare) / (small - bare)
    return [
        f"a bare keyed post: {bare:.2f} ms",
        f"a delivery adds at 10 entries: {small - bare:.2f} ms (whole: {small:.2f} ms)",
        f"a delivery adds at 10,000 entries: {full - bare:.2f} ms (whole: {full:.2f} ms)",
        f"added at 10,000 to added at 10: {ratio:.2f} (target ≤ 1.3)",
    ]
