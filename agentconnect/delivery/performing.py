"""Carries out what a courier asks of disk and relay, and decides nothing (§9)."""

import trio

from agentconnect.core.delivery.deciding import Known, Unreadable
from agentconnect.core.delivery.effects import (
    Begin,
    Consult,
    Full,
    Judge,
    Judged,
    PostFile,
    PostText,
    Recorded,
    Save,
    Scan,
    Stale,
)
from agentconnect.core.delivery.posting import Reply
from agentconnect.core.errors import StoreUnreadableError
from agentconnect.delivery.destinations import SessionDestinations
from agentconnect.delivery.guarding import UnaskedGuard
from agentconnect.delivery.ports import Posts
from agentconnect.store.deliveries import Deliveries

TEXTS_AT_ONCE = 8
"""Texts of deliveries in memory; the others are on disk until it is their turn."""

Act = Consult | Scan | Judge | Begin | Save | PostText | PostFile
Outcome = Known | Unreadable | Judged | Recorded | Full | Stale | Reply


class Performer:
    """The effects that touch something."""

    def __init__(
        self,
        store: Deliveries,
        posts: Posts,
        guard: UnaskedGuard,
        destinations: SessionDestinations,
    ) -> None:
        self._store = store
        self._posts = posts
        self._guard = guard
        self._destinations = destinations
        self._texts = trio.CapacityLimiter(TEXTS_AT_ONCE)

    async def perform(self, effect: Act) -> Outcome:
        """Do it, in full. Cancellation: what the store has begun is finished."""
        match effect:
            case Consult():
                try:
                    await self._destinations.settle()
                except StoreUnreadableError:
                    return Unreadable()
                return await self._store.consult(effect.id, effect.binding)
            case Begin():
                return await self._store.begin(effect.entry)
            case Save():
                return await self._store.save(effect.entry)
            case Scan():
                return await self._scan(effect)
            case Judge():
                return await self._posts.judge(effect.folder, effect.parts)
            case PostText():
                return await self._post_text(effect)
            case PostFile():
                return await self._posts.file(effect.room, effect.key, effect.folder, effect.part)

    async def _post_text(self, effect: PostText) -> Reply | Unreadable:
        if effect.text is not None:
            return await self._posts.text(effect.room, effect.key, effect.text)
        async with self._texts:
            text = await self._store.text(effect.id)
            if isinstance(text, Unreadable):
                return text
            return await self._posts.text(effect.room, effect.key, text)

    async def _scan(self, effect: Scan) -> Judged:
        if effect.text is not None:
            why = await trio.to_thread.run_sync(self._guard.why_not, "", effect.text)
            if why:
                return Judged(unfit=f"the text is {why}", at=len(effect.parts))
        return await self._posts.judge(effect.folder, effect.parts, self._guard.why_not)
