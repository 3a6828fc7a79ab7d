"""Presence: what this node is and how much it has in hand, once a minute (relay-wire.md §3.4).

Best effort. Started once the guard is held and ended with the poller: two clients announcing one
bearer is a split brain. A relay without the route is asked again later and later, never given up.
"""

import logging
from collections.abc import Callable

import trio

from agentconnect.core.errors import RelayError
from agentconnect.core.relay.envelope import presence_text
from agentconnect.relay.http import Call, Http, to_json

log = logging.getLogger("agentconnect.relay")

EVERY_S = 60.0
ABSENT_MAX_S = 1800.0
WITHIN_S = 10.0
CAPABILITIES = ("task-ack", "heartbeat", "result-skip-markers", "reject")


class Heartbeat:
    """The sender. ``status`` gives its word for what this node does; blank: it is left out."""

    def __init__(
        self,
        http: Http,
        *,
        version: str,
        inflight: Callable[[], int],
        allowed: Callable[[], bool] = lambda: True,
    ) -> None:
        self._http = http
        self._version = version
        self._inflight = inflight
        self._allowed = allowed
        self.status: Callable[[], str] = lambda: ""

    async def run(self) -> None:
        """Send every minute until cancelled; not while another one polls with our bearer."""
        absent_s = EVERY_S
        while True:
            wait_s = EVERY_S
            try:
                if self._allowed():
                    await self._http.send(self._call())
                absent_s = EVERY_S
            except RelayError as error:
                log.debug("heartbeat: %s", error)
                if error.status in (404, 405):
                    wait_s, absent_s = absent_s, min(2 * absent_s, ABSENT_MAX_S)
            await trio.sleep(wait_s)

    def _call(self) -> Call:
        body: dict[str, object] = {
            "client": "agentconnect",
            "package_version": self._version,
            "protocol_version": 1,
            "tier": "owner",
            "inflight": self._inflight(),
            "capabilities": CAPABILITIES,
        }
        if status := presence_text(self.status()):  # null would erase what the relay knows
            body["status"] = status
        return Call(method="POST", path="/v1/heartbeat", content=to_json(body), within_s=WITHIN_S)
