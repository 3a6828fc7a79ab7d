"""Whether deliveries are offered right now, why not, and who waits for that to change.

deferred-delivery.md §2, §3, §11. The rules are ``core/delivery/capability``; here are the facts.
"""

import logging
import time
from collections.abc import Callable

import msgspec
import trio

from agentconnect.core.delivery.capability import Conditions, Probe, reasons, sentence
from agentconnect.core.delivery.courier import STOPPING
from agentconnect.core.delivery.deciding import Circumstances
from agentconnect.core.delivery.ports import Listening
from agentconnect.core.status import DeliveryBlock, DeliveryState
from agentconnect.delivery.ports import Keys
from agentconnect.store.deliveries import Counts, Deliveries

log = logging.getLogger("agentconnect.delivery")


class DeliverySettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner set, read at start.

    ``collaborators``: the listed ones. ``unchecked``: AGENT_CONNECT_UNCHECKED_COLLABORATORS.
    ``overlap``: the Turn egress root that contains the export folder; ``folder``: why that folder
    cannot be used.
    """

    collaborators: frozenset[str] = frozenset()
    unchecked: bool = False
    overlap: str = ""
    folder: str = ""


class Standing:
    """The conditions, and the world that a courier sees. ``on_change`` hears of each change."""

    def __init__(
        self,
        settings: DeliverySettings,
        keys: Keys,
        store: Deliveries,
        *,
        wall_now: Callable[[], float] = time.time,
        unit: Callable[[], float],
    ) -> None:
        self.settings = settings
        self.declared = False
        self.elsewhere = False
        self.listener = Listening.DOWN
        self.stopping = False
        self.on_change: Callable[[], None] = lambda: None
        self.wall_now = wall_now
        self.mono_now = trio.current_time
        self.unit = unit
        self._keys = keys
        self._store = store
        self._known: tuple[str, ...] | None = None
        self._begun = False
        self._changed = trio.Event()

    def reasons(self) -> tuple[str, ...]:
        """Why deliveries are not offered; empty where they are."""
        probe: Probe | None = self._keys.probe
        return reasons(
            Conditions(
                declared=self.declared,
                elsewhere=self.elsewhere,
                probe=probe,
                overlap=self.settings.overlap,
                folder=self.settings.folder,
                store=self._store.trouble,
                withdrawn=self._keys.withdrawn,
            )
        )

    @property
    def enabled(self) -> bool:
        return not self.stopping and not self.reasons()

    def circumstances(self) -> Circumstances:
        """What holds for every delivery at this moment."""
        return Circumstances(
            disabled=STOPPING if self.stopping else " ".join(self.reasons()),
            keyed=self._keys.trusted,
            stopping=self.stopping,
            collaborators=self.settings.collaborators,
            unchecked=self.settings.unchecked,
        )

    def look(self) -> None:
        """Something may have changed: tell whoever has to know. Cheap."""
        now = self.reasons()
        if now == self._known:
            return
        self._known = now
        if self._begun:
            self._say()
        self.notify()

    def begun(self) -> None:
        """All was asked once: what does not hold from now on is worth a line in the log."""
        if not self._begun:
            self._begun = True
            self._say()

    def _say(self) -> None:
        log.info("deliveries after a turn: %s", " ".join(self.reasons()) or "offered")

    def notify(self) -> None:
        """Wake whoever waits for a change."""
        self._changed.set()
        self._changed = trio.Event()
        self.on_change()

    async def changed(self, known: bool) -> bool:
        """Wait until ``enabled`` is not ``known``; what it is then."""
        while self.enabled == known:
            await self._changed.wait()
        return not known

    def block(self, counts: Counts, in_flight: int) -> DeliveryBlock:
        """The block of the status file."""
        why = self.reasons()
        state = DeliveryState.DISABLED if why else DeliveryState.ENABLED
        if self._keys.withdrawn:
            state = DeliveryState.WITHDRAWN
        if self.stopping:
            state, why = DeliveryState.DISABLED, (f"{sentence(STOPPING)}.",)
        return DeliveryBlock(
            state=state,
            reason=" ".join(why),
            listener=self.listener.value,
            in_flight=in_flight,
            in_progress=counts.in_progress,
            last_delivered_at=counts.last_delivered_at,
            bindings=counts.bindings,
        )
