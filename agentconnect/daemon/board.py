"""Where whoever starts a worker reads of its scheduled tasks: the page of ``cli local``."""

from collections.abc import Awaitable, Callable, Sequence

from agentconnect.core.daemon.outcomes import Shown

Source = Callable[[], Awaitable[Sequence[Shown]]]


class Board:
    """Empty while no daemon runs."""

    def __init__(self) -> None:
        self._source: Source | None = None

    def show(self, source: Source) -> None:
        """A daemon runs: this is what it tells."""
        self._source = source

    async def __call__(self) -> dict[str, object]:
        """The tasks as ``scheduled``; nothing where there are none."""
        tasks = () if self._source is None else await self._source()
        return {"scheduled": tasks} if tasks else {}
