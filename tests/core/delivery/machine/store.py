"""A model of the delivery store: what is on disk survives a kill, and may be lost or unreadable."""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from agentconnect.core.delivery import bindings as rules
from agentconnect.core.delivery import founding, ledger
from agentconnect.core.delivery.bindings import Binding
from agentconnect.core.delivery.deciding import Known, Unreadable
from agentconnect.core.delivery.effects import Full, Recorded, Stale
from agentconnect.core.delivery.ledger import Entry, WorkerId
from agentconnect.core.task import SessionKey

CAP = 4
NOBODY = WorkerId("")


@dataclass
class Disk:
    """``deliveries.db``: ``there``, and ``sound`` or not."""

    there: bool = False
    sound: bool = True
    worker_id: WorkerId = NOBODY
    entries: dict[str, Entry] = field(default_factory=dict)
    bindings: dict[str, Binding] = field(default_factory=dict)


class Store:
    """One process's view of the disk."""

    def __init__(self, disk: Disk, random: Callable[[int], bytes]) -> None:
        self.disk = disk
        self._random = random
        self._seen = False

    def usable(self) -> bool:
        """Open it if that can be done."""
        match founding.founding(database=self.disk.there, older=False, seen=self._seen):
            case founding.Founding.REFUSE:
                return False
            case founding.Founding.MINT:
                fresh = Disk(there=True, worker_id=rules.new_worker_id(self._random(16)))
                self.disk.__dict__.update(fresh.__dict__)
        self._seen = True
        return self.disk.sound

    def consult(self, delivery_id: str, binding: str) -> Known | Unreadable:
        if not self.usable():
            return Unreadable()
        return Known(
            worker_id=self.disk.worker_id,
            entry=self.disk.entries.get(delivery_id),
            binding=self.disk.bindings.get(binding),
        )

    def begin(self, entry: Entry, wall_now: float) -> Recorded | Full | Stale | Unreadable:
        if not self.usable() or entry.id in self.disk.entries:
            return Unreadable()
        binding = self.disk.bindings.get(entry.binding)
        if binding is None or binding.dropped_at is not None:
            return Stale()
        entries = self.disk.entries
        if len(entries) >= CAP:
            self._forget(wall_now)
        if len(entries) >= CAP:
            before = ledger.evictable_before(wall_now)
            done = [(e.finished_at or 0.0, e.id) for e in entries.values() if not e.in_progress]
            if done and min(done)[0] < before:
                del entries[min(done)[1]]
        if len(entries) >= CAP:
            return Full()
        entries[entry.id] = entry
        return Recorded()

    def _forget(self, wall_now: float) -> None:
        seen, ended = ledger.lapsed_before(wall_now), ledger.evictable_before(wall_now)
        for known in list(self.disk.entries.values()):
            if known.first_seen < seen and (known.finished_at or wall_now) < ended:
                del self.disk.entries[known.id]

    def save(self, entry: Entry) -> Recorded | Unreadable:
        if not self.usable() or entry.id not in self.disk.entries:
            return Unreadable()
        text = self.disk.entries[entry.id].text if entry.in_progress else None
        self.disk.entries[entry.id] = msgspec.structs.replace(entry, text=text)
        return Recorded()

    def text(self, delivery_id: str) -> str | Unreadable:
        found = self.disk.entries.get(delivery_id) if self.usable() else None
        return Unreadable() if found is None or found.text is None else found.text

    def unfinished(self) -> list[Entry]:
        owed = ledger.Notice.OWED
        entries = self.disk.entries.values()
        open_ones = [e for e in entries if e.in_progress or e.notice is owed]
        return [msgspec.structs.replace(e, text=None) for e in open_ones]

    def bind(self, key: SessionKey, wall_now: float) -> Binding | None:
        if not self.usable():
            return None
        old = None
        for binding in list(self.disk.bindings.values()):
            named = (binding.room, binding.tier, binding.sender) == (key.room, key.tier, key.sender)
            if named and binding.dropped_at is None:
                if rules.is_live(binding, wall_now):
                    old = binding
                else:
                    self.drop(binding, wall_now)
        made = rules.renewed(
            old,
            key,
            worker_id=self.disk.worker_id,
            wall_now=wall_now,
            random=self._random(16),
        )
        self.disk.bindings[made.id] = made
        return made

    def drop(self, binding: Binding, wall_now: float) -> None:
        self.disk.bindings[binding.id] = msgspec.structs.replace(binding, dropped_at=wall_now)

    def sweep(self, wall_now: float, collaborators: frozenset[str]) -> None:
        self._forget(wall_now)
        for binding in list(self.disk.bindings.values()):
            if binding.dropped_at is None and rules.to_drop(
                binding, wall_now=wall_now, collaborators=collaborators
            ):
                self.drop(binding, wall_now)
