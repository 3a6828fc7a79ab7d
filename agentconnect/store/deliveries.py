"""The delivery store: worker id, bindings, ledger and parts of deferred deliveries, one database.

Must not be lost: fails closed, and nothing is ever minted over an existing one. Each awaited
write is on disk when it returns, one transaction each (deferred-delivery.md §8). A store that
cannot be used answers :class:`Unreadable`, or raises where there is no such answer, and heals
with the next call for which it opens soundly.
"""

import os
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from agentconnect.core.delivery import bindings as rules
from agentconnect.core.delivery import ledger
from agentconnect.core.delivery.bindings import Binding, Dropped, Purpose
from agentconnect.core.delivery.deciding import Known, Unreadable
from agentconnect.core.delivery.effects import Full, Recorded, Stale
from agentconnect.core.delivery.ledger import BindingId, DeliveryId, Entry, WorkerId
from agentconnect.core.errors import StoreUnreadableError
from agentconnect.core.task import SessionKey
from agentconnect.store import delivery_rows as rows
from agentconnect.store.delivery_file import DeliveryFile
from agentconnect.store.layout import Layout
from agentconnect.store.threads import OneThread

FORGET_BINDING_S = ledger.KEEP_S
"""A dropped binding's row; the name says whose it was without one."""

T = TypeVar("T")


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """For the status file."""

    in_progress: int = 0
    bindings: int = 0
    last_delivered_at: float | None = None


class Deliveries:
    """The one writer of the store. ``trouble`` is why it cannot be used, "" where it can."""

    def __init__(
        self,
        layout: Layout,
        wall_now: Callable[[], float],
        *,
        random: Callable[[int], bytes] = os.urandom,
        max_entries: int = ledger.MAX_ENTRIES,
    ) -> None:
        self.trouble = "it is not open yet"
        self._file = DeliveryFile(layout.deliveries, layout.older_deliveries, random)
        self._wall_now = wall_now
        self._random = random
        self._max_entries = max_entries
        self._thread = OneThread()

    @property
    def worker_id(self) -> WorkerId:
        """Of the store as last opened; "" before."""
        return self._file.worker_id

    async def open(self) -> None:
        """Open it, or found it. Raises: StoreUnreadableError; :meth:`open` may be tried again."""
        await self._do(_nothing)

    async def close(self) -> None:
        """Let go of the file."""
        await self._thread.run(self._file.close)

    # the ledger: what a courier asks for

    async def consult(self, delivery_id: DeliveryId, binding: BindingId) -> Known | Unreadable:
        """The effect ``Consult``."""

        def act(connection: sqlite3.Connection) -> Known:
            found = rows.bindings(connection, "WHERE id = ?", (binding,))
            return Known(
                worker_id=WorkerId(rows.worker_id(connection)),
                entry=rows.find(connection, delivery_id),
                binding=found[0] if found else None,
            )

        return await self._or_unreadable(act)

    async def begin(self, entry: Entry) -> Recorded | Full | Stale | Unreadable:
        """The effect ``Begin``: first-seen, on disk. At the cap the oldest that may go goes."""
        wall_now = self._wall_now()

        def act(connection: sqlite3.Connection) -> Recorded | Full | Stale | Unreadable:
            if rows.is_there(connection, entry.id):
                return Unreadable(reason="the delivery has a record already")
            where = "WHERE id = ? AND dropped_at IS NULL"
            if not rows.bindings(connection, where, (entry.binding,)):
                return Stale()
            room = self._max_entries - self._file.count
            if room <= 0:
                room += self._drop_lapsed(connection, wall_now)
            if room <= 0:
                ended_before = ledger.evictable_before(wall_now)
                room += rows.drop_oldest_ended(connection, ended_before)
            self._file.count = self._max_entries - room
            if room <= 0:
                return Full()
            rows.insert(connection, entry)
            self._file.count += 1
            return Recorded()

        return await self._or_unreadable(act)

    async def save(self, entry: Entry) -> Recorded | Unreadable:
        """The effect ``Save``: all but the text, which goes at the end.

        An entry that is not there any more is not made anew.
        """
        updated = await self._or_unreadable(lambda connection: rows.update(connection, entry))
        if isinstance(updated, Unreadable):
            return updated
        return Recorded() if updated else Unreadable(reason="the delivery's record is gone")

    async def text(self, delivery_id: DeliveryId) -> str | Unreadable:
        """The text of a delivery in progress."""
        found = await self._or_unreadable(lambda connection: rows.text(connection, delivery_id))
        return Unreadable(reason="the delivery's text is gone") if found is None else found

    async def unfinished(self) -> tuple[Entry, ...]:
        """What a start continues: in progress, or a notice owed; oldest first, without texts.

        Raises: StoreUnreadableError.
        """
        return await self._do(rows.unfinished)

    # bindings

    async def bind(self, key: SessionKey, purpose: Purpose = Purpose.DELIVERY) -> Binding:
        """The binding of a Session at a Turn, renewed or new.

        Whether it may have one says ``bindings.may_bind``. Raises: StoreUnreadableError.
        """
        wall_now, random = self._wall_now(), self._random(rules.RANDOM_BYTES)

        def act(connection: sqlite3.Connection) -> Binding:
            found = rows.bindings(
                connection,
                "WHERE purpose = ? AND room = ? AND tier = ? AND sender = ? AND dropped_at IS NULL",
                (purpose, key.room, key.tier, key.sender),
            )
            old = found[0] if found else None
            if old is not None and not rules.is_live(old, wall_now):
                rows.put_binding(connection, _dropped(old, Dropped.EXPIRED, wall_now))
            worker_id = WorkerId(rows.worker_id(connection))
            binding = rules.renewed(
                old, key, worker_id=worker_id, wall_now=wall_now, random=random, purpose=purpose
            )
            if binding != old:
                rows.put_binding(connection, binding)
            return binding

        return await self._do(act)

    async def binding(self, name: BindingId) -> Binding | None:
        """One row. Raises: StoreUnreadableError."""
        found = await self._do(lambda c: rows.bindings(c, "WHERE id = ?", (name,)))
        return found[0] if found else None

    async def drop_unattested(self, room: str, sender: str) -> tuple[Binding, ...]:
        """A Turn of the sender came in that is not attested: their bindings in the room go."""
        wall_now = self._wall_now()

        def act(connection: sqlite3.Connection) -> tuple[Binding, ...]:
            where = "WHERE room = ? AND sender = ? AND sender <> '' AND dropped_at IS NULL"
            found = rows.bindings(connection, where, (room, sender))
            return _drop(connection, [(b, Dropped.UNATTESTED) for b in found], wall_now)

        return await self._do(act)

    async def sweep(self, collaborators: frozenset[str]) -> tuple[Binding, ...]:
        """Drop the bindings of senders not listed and those that expired; forget what has lapsed.

        At start, and now and then. → the bindings dropped. Raises: StoreUnreadableError.
        """
        wall_now = self._wall_now()

        def act(connection: sqlite3.Connection) -> tuple[Binding, ...]:
            self._file.count -= self._drop_lapsed(connection, wall_now)
            connection.execute(
                "DELETE FROM bindings WHERE dropped_at < ?", (wall_now - FORGET_BINDING_S,)
            )
            found = rows.bindings(connection, "WHERE dropped_at IS NULL")
            judged = [
                (binding, why)
                for binding in found
                if (why := rules.to_drop(binding, wall_now=wall_now, collaborators=collaborators))
            ]
            return _drop(connection, judged, wall_now)

        return await self._do(act)

    async def removable(self, folders: Sequence[str]) -> tuple[str, ...]:
        """Of these export folders, those that no live binding and no entry in progress names.

        Raises: StoreUnreadableError.
        """
        wall_now = self._wall_now()

        def act(connection: sqlite3.Connection) -> tuple[str, ...]:
            return tuple(f for f in folders if _is_free(connection, f, wall_now))

        return await self._do(act)

    # looking

    async def counts(self) -> Counts:
        """Raises: StoreUnreadableError."""
        wall_now = self._wall_now()

        def act(connection: sqlite3.Connection) -> Counts:
            live = connection.execute(
                "SELECT count(*) FROM bindings"
                " WHERE dropped_at IS NULL AND expires > ? AND purpose = 'delivery'",
                (wall_now,),
            ).fetchone()
            return Counts(
                in_progress=rows.count_open(connection),
                bindings=int(live[0]),
                last_delivered_at=rows.last_delivered_at(connection),
            )

        return await self._do(act)

    def _drop_lapsed(self, connection: sqlite3.Connection, wall_now: float) -> int:
        """Thirty days from first-seen, and a day from its end: its keys may live that long."""
        seen, ended = ledger.lapsed_before(wall_now), ledger.evictable_before(wall_now)
        return rows.drop_lapsed(connection, seen, ended)

    async def _do(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Cancellation: a call that has started always finishes, and its value is returned."""
        try:
            value = await self._thread.run(partial(self._file.work, act))
        except StoreUnreadableError as error:
            self.trouble = str(error)
            raise
        self.trouble = ""
        return value

    async def _or_unreadable(self, act: Callable[[sqlite3.Connection], T]) -> T | Unreadable:
        try:
            return await self._do(act)
        except StoreUnreadableError:
            return Unreadable()


def _nothing(_: sqlite3.Connection) -> None:
    pass


def _dropped(binding: Binding, why: Dropped, wall_now: float) -> Binding:
    return msgspec.structs.replace(binding, dropped_at=wall_now, dropped_why=why.value)


def _drop(
    connection: sqlite3.Connection, found: list[tuple[Binding, Dropped]], wall_now: float
) -> tuple[Binding, ...]:
    dropped = tuple(_dropped(binding, why, wall_now) for binding, why in found)
    for binding in dropped:
        rows.put_binding(connection, binding)
    return dropped


def _is_free(connection: sqlite3.Connection, folder: str, wall_now: float) -> bool:
    if rows.folder_in_use(connection, folder):
        return False
    found = rows.bindings(connection, "WHERE folder = ?", (folder,))
    return not any(rules.is_live(binding, wall_now) for binding in found)
