"""Where what a Session finishes later may go: its binding, its folder, its destination for notices.

Minted and renewed as Sessions are opened and prompted, taken away when a Turn is no longer attested
(deferred-delivery.md §4, §5, §13).
"""

import logging
import os

import trio

from agentconnect.core.delivery.answers import rfc3339
from agentconnect.core.delivery.bindings import Purpose, may_bind
from agentconnect.core.delivery.ports import DeliveryMeta
from agentconnect.core.errors import StoreUnreadableError
from agentconnect.core.relay.envelope import is_room_id
from agentconnect.core.task import SessionKey, Tier
from agentconnect.delivery.folders import ExportFolders
from agentconnect.delivery.standing import Standing
from agentconnect.store.deliveries import Deliveries

log = logging.getLogger("agentconnect.delivery")

KNOWN_SOON_S = 2.0
"""The first Turn after a start may come before the relay has said that it keeps keys."""


class SessionDestinations:
    """Satisfies ``Destinations``; nothing in here raises."""

    def __init__(self, standing: Standing, store: Deliveries, folders: ExportFolders) -> None:
        self.ready = trio.Event()
        self._standing = standing
        self._store = store
        self._folders = folders
        self._told: dict[SessionKey, str] = {}
        self._revoked: set[tuple[str, str]] = set()
        """Bindings that have to go, and could not be written down yet."""

    async def delivery(self, key: SessionKey) -> DeliveryMeta | None:
        """The binding of a Session that is opened or prompted; None: it gets none."""
        allowed = may_bind(key, unchecked=self._standing.settings.unchecked)
        if not allowed or not is_room_id(key.room):
            return None
        if self._standing.declared and not self.ready.is_set():
            with trio.move_on_after(KNOWN_SOON_S):
                await self.ready.wait()
        if not self._standing.enabled:
            return None
        try:
            await self.settle()
            binding = await self._store.bind(key)
            folder = await trio.to_thread.run_sync(self._folders.make, binding.folder)
        except StoreUnreadableError as error:
            log.warning("no binding for a session: %s", error)
            return None
        except OSError as error:
            log.warning("no export folder for a session: %s", error.strerror or error)
            return None
        finally:
            self._standing.look()
        self._told[key] = folder
        expires_at = rfc3339(binding.expires) or ""
        return DeliveryMeta(binding=binding.id, export_dir=folder, expires_at=expires_at)

    async def destination(self, key: SessionKey) -> str | None:
        """Where ``_ag2/notify`` of this Session goes; None for all but the owner's.

        Each owner Session has one: no agent declares that it would use it (§2, §13).
        """
        if self._standing.stopping:  # the store may be closed already, and is not opened anew
            return None
        if key.tier is not Tier.OWNER or key.collaborator or not is_room_id(key.room):
            return None
        try:
            return (await self._store.bind(key, Purpose.NOTIFY)).id
        except StoreUnreadableError as error:
            log.warning("no destination for a session: %s", error)
            return None
        finally:
            self._standing.look()

    def folder_of(self, key: SessionKey) -> str | None:
        """The export folder last told to this Session, if any."""
        return self._told.get(key)

    async def unattested(self, room: str, sender: str) -> None:
        """A Turn of this sender came in that is not attested: its bindings in the room go.

        Those of senders who are not listed went at the start.
        """
        if sender not in self._standing.settings.collaborators:
            return
        self._revoked.add((room, sender))
        try:
            await self.settle()
        except StoreUnreadableError as error:  # nothing new is taken until it can be read
            log.warning("a binding is dropped as soon as that can be written down: %s", error)

    async def settle(self) -> None:
        """Write down what has to go; before anything is decided. Raises: StoreUnreadableError."""
        for room, sender in tuple(self._revoked):
            dropped = await self._store.drop_unattested(room, sender)
            self._revoked.discard((room, sender))
            for key in [k for k in self._told if (k.room, k.sender) == (room, sender)]:
                del self._told[key]
            if dropped:
                log.info("room=%s a binding is dropped: its sender is not attested", room)


def usable(folders: ExportFolders) -> str:
    """Make the delivery root; why it cannot be used, "" where it can. Blocking."""
    try:
        folders.prepare()
    except OSError as error:
        return f"{os.fspath(folders.root)}: {error.strerror or error}"
    return ""
