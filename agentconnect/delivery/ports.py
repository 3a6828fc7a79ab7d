"""What deliveries need of the relay client, as seams for tests and for ``app``."""

from collections.abc import Callable, Sequence
from typing import Protocol

from agentconnect.core.delivery.capability import Probe
from agentconnect.core.delivery.effects import Judged
from agentconnect.core.delivery.ledger import Part
from agentconnect.core.delivery.posting import Reply
from agentconnect.core.outcomes import OpResult


class Keys(Protocol):
    """Whether the relay keeps keys. ``probe`` is None before it was asked."""

    probe: Probe | None
    withdrawn: bool

    @property
    def trusted(self) -> bool: ...
    def withdraw(self) -> None: ...
    async def changed(self) -> None: ...
    async def ask(self) -> Probe: ...
    async def run(self) -> None:
        """Ask again each minute while keys are not to be trusted; until cancelled."""
        ...


class Posts(Protocol):
    """Keyed posts, each tried once; none raises for a failure of relay or disk."""

    async def text(self, room: str, key: str, text: str) -> Reply: ...
    async def file(self, room: str, key: str, folder: str, part: Part) -> Reply: ...
    async def judge(
        self,
        folder: str,
        parts: Sequence[Part],
        inspect: Callable[[str, bytes], str] | None = None,
    ) -> Judged: ...


class Messages(Protocol):
    """Posts without a key, for what may be lost."""

    async def message(
        self, room_id: str, body: str, *, mentions: Sequence[str] = (), key: str = ""
    ) -> OpResult: ...
