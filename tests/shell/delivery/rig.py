"""The deliveries' desk with its store and the real relay client, against the scriptable broker."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import trio

from agentconnect.core.delivery.ports import DeliveryMeta, DeliveryRefused
from agentconnect.core.redaction import shapes_in
from agentconnect.core.relay.credential import build
from agentconnect.core.status import DeliveryBlock
from agentconnect.core.task import SessionKey, Tier
from agentconnect.delivery.desk import DeliveryDesk
from agentconnect.delivery.folders import ExportFolders
from agentconnect.delivery.standing import DeliverySettings
from agentconnect.relay import RelayConfig, open_relay
from agentconnect.store.deliveries import Deliveries
from agentconnect.store.delivery_record import read_record
from agentconnect.store.journal import open_journal
from agentconnect.store.layout import Layout
from tests.support.fake_broker import Answer, FakeBroker

OWNER = SessionKey(room="!r:h", tier=Tier.OWNER)
BOB = SessionKey(room="!r:h", tier=Tier.GUEST, sender="@bob:h")
LATER = {"Retry-After": "60"}
"""Longer than a run waits by itself: the agent is told Retry at once."""


class Wall:
    """A wall clock that a test may set."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead_s


@dataclass
class Rig:
    """What a test looks at."""

    broker: FakeBroker
    desk: DeliveryDesk
    store: Deliveries
    layout: Layout
    relay: Any
    wall: Wall
    life: trio.CancelScope
    blocks: list[DeliveryBlock] = field(default_factory=list)

    async def bind(self, key: SessionKey = OWNER) -> DeliveryMeta:
        """What a Session of this key is told."""
        meta = await self.desk.destinations.delivery(key)
        assert meta is not None
        return meta

    async def send(self, name: str, binding: str, text: str | None = None, **more: Any) -> Any:
        """``_ag2/deliver``: its result, or the data of its error with its ``code``."""
        params = {"id": name, "binding": binding, "text": text, **more}
        return await self.send_raw(json.dumps({k: v for k, v in params.items() if v is not None}))

    async def send_raw(self, params: str | bytes) -> Any:
        raw = params if isinstance(params, bytes) else params.encode()
        with trio.fail_after(60):
            try:
                return msgspec.to_builtins(await self.desk.deliver(msgspec.Raw(raw)))
            except DeliveryRefused as refused:
                return {"code": refused.code, "message": refused.message, **refused.data}

    async def notify(self, destination: str, text: str) -> Any:
        """``_ag2/notify``: its result, or the data of its error."""
        raw = json.dumps({"destination": destination, "text": text}).encode()
        with trio.fail_after(60):
            try:
                return msgspec.to_builtins(await self.desk.notify(msgspec.Raw(raw)))
            except DeliveryRefused as refused:
                return {"code": refused.code, **refused.data}

    def entry(self, name: str) -> Any:
        """One delivery as it is on disk; None where there is none."""
        return json.loads(read_record(self.layout.deliveries))["deliveries"].get(name)

    async def until(self, condition: Callable[[], Any], within_s: float = 60.0) -> None:
        """Wait for a state that nobody announces."""
        with trio.fail_after(within_s):
            while not condition():
                await trio.sleep(0.01)


def put(meta: DeliveryMeta, name: str, content: bytes = b"content") -> dict[str, str]:
    """A file in a binding's folder, as a delivery names it."""
    path = Path(meta.export_dir) / name
    path.write_bytes(content)
    return {"uri": path.as_uri()}


def posted(rig: Rig) -> list[str]:
    """The rooms' texts and files, in the order in which they came."""
    return [m["body"] for m in rig.broker.messages.values()] + [
        file["filename"] for file in rig.broker.files
    ]


def damage(path: Path) -> bytes:
    """Make a database unreadable; what it held, for :func:`mend`."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    whole = path.read_bytes()
    path.write_bytes(b"x" * len(whole))
    return whole


@asynccontextmanager
async def running(
    broker: FakeBroker,
    state_dir: Path,
    *,
    keyed: bool = True,
    declared: bool = True,
    scan: Any = shapes_in,
    wall: Wall | None = None,
    max_entries: int = 10_000,
    stop_s: float = 5.0,
    recheck_s: float = 60.0,
    **settings: Any,
) -> AsyncIterator[Rig]:
    """The desk, looked after and ready, stopped with the context."""
    if keyed:
        broker.keyed()
    layout = Layout(state_dir=state_dir)
    layout.prepare()
    folders = ExportFolders(layout.export)
    folders.prepare()
    wall = wall or Wall()
    config = RelayConfig(
        credential=build(token=f"{broker.base}|{broker.secret}"),
        status_path=layout.connection_status,
        guard_path=layout.guard,
        media_dir=layout.media,
        delivery_root=str(layout.export),
        keys_recheck_s=recheck_s,
    )
    async with (
        open_journal(layout.journal) as journal,
        open_relay(config, journal) as relay,
        trio.open_nursery() as work,
    ):
        store = Deliveries(layout, wall, max_entries=max_entries)
        blocks: list[DeliveryBlock] = []
        desk = DeliveryDesk(
            store=store,
            posts=relay.keyed,
            rooms=relay.rooms,
            keys=relay.capabilities,
            folders=folders,
            settings=DeliverySettings(**settings),
            scan=scan,
            on_status=blocks.append,
            wall_now=wall,
            unit=lambda: 0.0,
        )
        desk.declared(declared)
        life = trio.CancelScope()

        async def live(*, task_status: trio.TaskStatus[None]) -> None:
            with life:
                await desk.run(task_status=task_status)

        await work.start(live)
        with trio.fail_after(60):
            await desk.probe()
        yield Rig(broker, desk, store, layout, relay, wall, life, blocks)
        await desk.stop(stop_s)
        work.cancel_scope.cancel()


__all__ = ["BOB", "LATER", "OWNER", "Answer", "Rig", "Wall", "damage", "posted", "put", "running"]
