"""What nobody asks for: bindings that lapse, folders that may go, deliveries that wait for a run.

At start in this order: drop and collect, ask the relay for its keys, go on with what is unfinished;
then again and again (deferred-delivery.md §4, §5, §10).
"""

import itertools
import logging
from collections.abc import Callable, Sequence

import trio

from agentconnect.core.delivery.ledger import Entry
from agentconnect.core.delivery.request import is_binding
from agentconnect.core.errors import StoreUnreadableError
from agentconnect.delivery.destinations import SessionDestinations
from agentconnect.delivery.folders import ExportFolders
from agentconnect.delivery.ports import Keys
from agentconnect.delivery.standing import Standing
from agentconnect.store.deliveries import Deliveries

log = logging.getLogger("agentconnect.delivery")

LOOK_S = 60.0
TIDY_EVERY = 10
"""Looks between two collections of folders."""


class Upkeep:
    """The standing task beside the deliveries. ``resume`` starts a run unless there is one."""

    def __init__(
        self,
        standing: Standing,
        store: Deliveries,
        folders: ExportFolders,
        destinations: SessionDestinations,
        keys: Keys,
        resume: Callable[[Entry], None],
    ) -> None:
        self.started = trio.Event()
        self._standing = standing
        self._store = store
        self._folders = folders
        self._destinations = destinations
        self._keys = keys
        self._resume = resume
        self._unfinished = True
        self._complained: set[str] = set()

    def wanted(self) -> None:
        """Something that is recorded is not being run, though nobody ended it."""
        self._unfinished = True

    async def run(self) -> None:
        """Look after things until cancelled."""
        for looks in itertools.count():
            try:
                await self._look(tidy=looks % TIDY_EVERY == 0, first=looks == 0)
            except Exception:
                log.exception("the deliveries could not be looked after; again in a minute")
            self._standing.begun()
            self.started.set()
            self._destinations.ready.set()
            await trio.sleep(LOOK_S)

    async def _look(self, *, tidy: bool, first: bool) -> None:
        if tidy:
            await self._tidy()
        if first:
            await self._keys.ask()
        self._unfinished = self._unfinished or bool(self._store.trouble)
        await self._go_on()
        self._standing.look()

    async def _go_on(self) -> None:
        if not self._unfinished or self._standing.stopping:
            return
        try:
            entries = await self._store.unfinished()
        except StoreUnreadableError as error:
            log.warning("deliveries in progress wait: %s", error)
            return
        self._unfinished = False
        for entry in entries:
            self._resume(entry)

    async def _tidy(self) -> None:
        try:
            await self._destinations.settle()
            dropped = await self._store.sweep(self._standing.settings.collaborators)
            if dropped:
                log.info("%d bindings are no longer in force", len(dropped))
            names = await trio.to_thread.run_sync(self._folders.names)
            ours = [name for name in names if is_binding(name)]
            free = await self._store.removable(ours)
        except StoreUnreadableError as error:
            log.warning("export folders are kept: %s", error)
            return
        except OSError as error:
            log.warning("export folders cannot be looked at: %s", error.strerror or error)
            return
        await self._collect((*free, *(name for name in names if not is_binding(name))))

    async def _collect(self, names: Sequence[str]) -> None:
        for name in names:
            try:
                await trio.to_thread.run_sync(self._folders.remove, name)
            except OSError as error:
                if name not in self._complained:
                    self._complained.add(name)
                    why = error.strerror or error
                    log.warning("an export folder cannot be removed, %r: %s", name, why)
