"""The adapter ``apprise``: any service that the library knows, in worker threads (§15.9).

The library is an extra and says of a failure only that it was one: everything but an address that
it cannot read is transient.
"""

import importlib
import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import trio

from agentconnect.core.channels.sending import DeliveryError, Outgoing, bad_target

MISSING = "it needs a part that is not installed: pip install 'agentconnect[apprise]'"
_THREADS = 4
_FORCED = "retry=0&overflow=split&cto=5&rto=15"


class AppriseAdapter:
    """One library object for each label."""

    def __init__(self, targets: Mapping[str, Mapping[str, str]]) -> None:
        self._urls = {label: forced(target["url"]) for label, target in targets.items()}
        self._limiter = trio.CapacityLimiter(_THREADS)
        self._loaded: dict[str, Any] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Nothing of it lasts but what was loaded."""
        await self._load()
        task_status.started()
        await trio.sleep_forever()

    async def check(self) -> str:
        """As ``Adapter``: reads the addresses; the library can try no more without sending."""
        await self._load()
        return f"{len(self._loaded)} addresses are understood; nothing more can be tried"

    async def send(self, outgoing: Outgoing) -> None:
        """As ``Adapter``. Cancellation: the thread goes on alone."""
        found = self._loaded.get(outgoing.target.id)
        if outgoing.target.type != "chat" or found is None:
            raise bad_target("this channel has no such destination")
        try:
            result = await trio.to_thread.run_sync(
                lambda: found.notify(body=outgoing.text),
                abandon_on_cancel=True,
                limiter=self._limiter,
            )
        except Exception as error:  # noqa: BLE001 - a library's, whose text may hold anything
            raise DeliveryError("transient", type(error).__name__) from None
        if not result:
            unread = getattr(result, "name", "") == "NOMATCH"
            why = "the library reports a failure"
            raise DeliveryError("permanent" if unread else "transient", why)

    async def _load(self) -> None:
        try:
            self._loaded = await trio.to_thread.run_sync(_understood, self._urls)
        except ImportError:
            raise DeliveryError("permanent", MISSING) from None


def _understood(urls: Mapping[str, str]) -> dict[str, Any]:
    """One library object for each label. Blocking for a second: the library loads all it has."""
    library = importlib.import_module("apprise")
    logging.getLogger("apprise").setLevel(logging.CRITICAL)
    loaded = {}
    for label, url in urls.items():
        asset = library.AppriseAsset(storage_mode=library.PersistentStoreMode.MEMORY)
        loaded[label] = library.Apprise(asset=asset)
        if not loaded[label].add(url):
            raise DeliveryError("permanent", "one of its addresses is none the library knows")
    return loaded


def forced(url: str) -> str:
    """``url`` with our limits, whatever its own query says of them."""
    parts = urlsplit(url)
    names = {pair.partition("=")[0] for pair in _FORCED.split("&")}
    kept = [pair for pair in parts.query.split("&") if pair and pair.partition("=")[0] not in names]
    return urlunsplit(parts._replace(query="&".join((*kept, _FORCED))))
