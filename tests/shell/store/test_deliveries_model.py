"""The store beside the model of it that the histories run on: the same steps, the same answers."""

import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from agentconnect.core.delivery.bindings import Binding
from agentconnect.core.delivery.ledger import BindingId, DeliveryId, Entry, Reason, ended
from agentconnect.core.task import SessionKey, Tier
from agentconnect.store.deliveries import Deliveries
from agentconnect.store.layout import Layout
from tests.core.delivery.entries import entry
from tests.core.delivery.machine.store import CAP, Disk, Store

HOUR_S = 3600.0
PEOPLE = ("", "", "@ann:h", "@bob:h")


class Both:
    """The store and its model, under one clock and with the same random bytes."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now = 1_000_000.0
        self.real = Deliveries(
            Layout(state_dir=folder), lambda: self.now, random=_bytes(), max_entries=CAP
        )
        self.disk = Disk()
        self.model = Store(self.disk, _bytes())
        self.bindings: list[Binding] = []
        self.entries: list[Entry] = []

    async def bind(self) -> None:
        sender = self.rng.choice(PEOPLE)
        tier = Tier.GUEST if sender else Tier.OWNER
        key = SessionKey(room=self.rng.choice(("!a:h", "!b:h")), tier=tier, sender=sender)
        made = await self.real.bind(key)
        modelled = self.model.bind(key, self.now)
        assert modelled is not None
        assert _lasting(modelled) == _lasting(made)
        self.bindings.append(made)

    async def begin(self) -> None:
        if self.bindings:
            binding = self.rng.choice(self.bindings)
            fresh = msgspec.structs.replace(
                entry(f"d{self.rng.randrange(8)}", files=1, first_seen=self.now),
                binding=binding.id,
                worker_id=self.real.worker_id,
            )
            modelled = self.model.begin(fresh, self.now)
            assert type(modelled) is type(await self.real.begin(fresh))
            self.entries.append(fresh)

    async def end(self) -> None:
        if self.entries:
            chosen = self.rng.choice(self.entries)
            done = ended(chosen, self.now, self.rng.choice([None, Reason.REJECTED]))
            modelled = self.model.save(done)
            assert type(modelled) is type(await self.real.save(done))

    async def sweep(self) -> None:
        listed = frozenset(self.rng.sample(PEOPLE[2:], 1))
        self.model.sweep(self.now, listed)
        await self.real.sweep(listed)

    async def restart(self) -> None:
        await self.real.close()

    async def time(self) -> None:
        self.now += self.rng.choice((60.0, 5 * HOUR_S, 25 * HOUR_S, 24 * 31 * HOUR_S))

    async def compare(self) -> None:
        """Everything that can be asked for."""
        for number in range(8):
            name = DeliveryId(f"d{number}")
            known = await self.real.consult(name, BindingId("none"))
            assert self.model.consult(name, "none") == known
        assert self.model.unfinished() == sorted(
            await self.real.unfinished(), key=lambda found: list(self.disk.entries).index(found.id)
        )


@pytest.mark.parametrize("seed", range(12))
async def test_the_store_does_what_its_model_does(tmp_path: Path, seed: int) -> None:
    """Binding, beginning, ending, sweeping, restarting, in any order and at any time."""
    both = Both(tmp_path, seed)
    await both.real.open()
    steps = [both.bind, both.begin, both.begin, both.end, both.end, both.sweep]
    steps += [both.restart, both.time]
    for _ in range(60):
        await both.rng.choice(steps)()
        await both.compare()
    await both.real.close()


def _bytes() -> Callable[[int], bytes]:
    return random.Random(1).randbytes


def _lasting(binding: Binding) -> Binding:
    return msgspec.structs.replace(binding, id=BindingId(""), folder="")
