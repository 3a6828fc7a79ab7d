"""What the conversations and connections of one adapter have to do with deferred delivery.

Joins the seam of ``core/delivery/ports`` to the extensions of a connection and to the ``_meta`` of
sessions (deferred-delivery.md §2, §4, §13). Until it is told of a service it offers nothing.
"""

import msgspec

from agentconnect.acp import (
    DELIVER,
    DELIVERS,
    DELIVERY,
    DESTINATION,
    NOTIFY,
    RECEIVES,
    AgentInfo,
    Bounds,
    Extensions,
    Meta,
    RequestRefused,
)
from agentconnect.core.delivery.answers import Retry, wire
from agentconnect.core.delivery.ports import DeliveryRefused, DeliveryService, Destinations
from agentconnect.core.task import SessionKey

AT_ONCE = Bounds(handled=1024, refused=16_384)
"""Of the listener: deliveries may take minutes, and a whole outbox may come in one go."""
TOO_MANY_RETRY_S = 5.0


class Later:
    """``local``: the agent is on this machine, so that it can fill an export folder."""

    def __init__(self, *, local: bool = True) -> None:
        self.service: DeliveryService | None = None
        self.delivers = False
        """What the agent said last."""
        self._destinations: Destinations | None = None
        self._local = local

    def join(self, service: DeliveryService, destinations: Destinations) -> None:
        """Offer it from now on."""
        self.service = service
        self._destinations = destinations
        service.declared(self.delivers, elsewhere=not self._local)

    def heard(self, info: AgentInfo) -> None:
        """An agent has said who it is."""
        self.delivers = info.delivers and self._local
        if self.service is not None:
            self.service.declared(self.delivers, elsewhere=not self._local)

    # --- connections ------------------------------------------------------------------------

    def in_turns(self) -> Extensions:
        """What a Turn's connection offers; a delivery is not among it."""
        if self.service is None:
            return Extensions()
        return Extensions(declared=(RECEIVES,), served={NOTIFY: self._notify})

    def standing(self, *, declare: bool) -> Extensions:
        """What the listener offers. Without the declaration the service says Retry by itself."""
        return Extensions(
            declared=(RECEIVES, DELIVERS) if declare else (RECEIVES,),
            served={NOTIFY: self._notify, DELIVER: self._deliver},
            overfull={DELIVER: _too_many()},
            bounds=AT_ONCE,
        )

    async def _deliver(self, params: msgspec.Raw) -> msgspec.Struct:
        assert self.service is not None
        try:
            return await self.service.deliver(params)
        except DeliveryRefused as refused:
            raise RequestRefused(refused.code, refused.message, refused.data) from None

    async def _notify(self, params: msgspec.Raw) -> msgspec.Struct:
        assert self.service is not None
        try:
            return await self.service.notify(params)
        except DeliveryRefused as refused:
            raise RequestRefused(refused.code, refused.message, refused.data) from None

    # --- sessions ---------------------------------------------------------------------------

    async def meta(self, key: SessionKey) -> Meta:
        """The ``_meta`` of a session that is opened or prompted now; empty where it gets none."""
        found: Meta = {}
        if self._destinations is None:
            return found
        if self._local and (delivery := await self._destinations.delivery(key)):
            found[DELIVERY] = delivery
        if destination := await self._destinations.destination(key):
            found[DESTINATION] = destination
        return found

    def folder(self, key: SessionKey) -> str | None:
        """The session's own export folder, a root of its permissions."""
        return self._destinations.folder_of(key) if self._destinations is not None else None


def _too_many() -> RequestRefused:
    said = wire(Retry(retry_after_s=TOO_MANY_RETRY_S, reason="too many deliveries at once"))
    return RequestRefused(said.code, said.message, said.body)
