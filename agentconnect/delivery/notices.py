"""``_ag2/notify``: a line for the owner's room that may be lost (deferred-delivery.md §13)."""

import trio

from agentconnect.core.delivery import bindings as rules
from agentconnect.core.delivery.bindings import Binding, Purpose
from agentconnect.core.delivery.ports import NotifyResult
from agentconnect.core.delivery.request import NotifyRequest
from agentconnect.core.errors import StoreUnreadableError
from agentconnect.core.outcomes import OpResult
from agentconnect.core.task import Tier
from agentconnect.delivery.guarding import UnaskedGuard
from agentconnect.delivery.ports import Messages
from agentconnect.delivery.standing import Standing
from agentconnect.store.deliveries import Deliveries


class Notices:
    """Posts what an agent says between its Turns, once and without a record."""

    def __init__(
        self, standing: Standing, store: Deliveries, rooms: Messages, guard: UnaskedGuard
    ) -> None:
        self._standing = standing
        self._store = store
        self._rooms = rooms
        self._guard = guard

    async def post(self, request: NotifyRequest) -> NotifyResult:
        """Post it, or say why not. Never raises."""
        if self._standing.stopping:
            return _held("the worker is stopping")
        try:
            destination = await self._store.binding(request.destination)
        except StoreUnreadableError:
            return _held("the record of destinations cannot be read")
        finally:
            self._standing.look()
        if destination is None or not _is_owners(destination):
            return _held("this worker has no such destination")
        if not rules.is_live(destination, self._standing.wall_now()):
            return _held("this destination is no longer in force")
        if self._standing.settings.collaborators:
            # a collaborator's Turn may steer the agent; that the room is one of the owner's
            # Sessions is what the destination's row says
            why = await trio.to_thread.run_sync(self._guard.why_not, "", request.text)
            if why:
                return _held(f"the text is {why}")
        return _told(await self._rooms.message(destination.room, request.text))


def _is_owners(row: Binding) -> bool:
    return row.purpose is Purpose.NOTIFY and row.tier is Tier.OWNER and not row.collaborator


def _held(reason: str) -> NotifyResult:
    return NotifyResult(posted=False, reason=reason)


def _told(result: OpResult) -> NotifyResult:
    if result.ok:
        return NotifyResult(posted=True)
    if result.cooling_s:
        return _held(f"the room takes no posts for {result.cooling_s:.0f} s")
    if result.maybe_sent:
        return _held("it may not have been posted: the relay's answer was lost")
    said = f" (HTTP {result.status})" if result.status else ""
    return _held(f"the relay did not take it{said}")
