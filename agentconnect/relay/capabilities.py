"""Whether this relay takes keyed posts, and the key of one (relay-wire.md §3.9).

Enabled only by an answer that is understood whole; anything else means posts without keys. The key
is the same for the same post in every run, so a repeat can never become a second message.
"""

import hashlib
import logging
import re

import msgspec
import rfc8785
import trio

from agentconnect.core.errors import RelayError
from agentconnect.relay.http import Call, Http

log = logging.getLogger("agentconnect.relay")

RECHECK_S = 60.0
KNOWN_SOON_S = 2.0
TTL_MIN_S = 86_400
MESSAGES, MEDIA = "POST /v1/rooms/{}/messages", "POST /v1/rooms/{}/media"


class _Posts(msgspec.Struct):
    header: str
    ttl_seconds: int
    routes: list[str]


class _Answer(msgspec.Struct):
    room_post_idempotency: _Posts


class Capabilities:
    """What the probe found."""

    def __init__(self, http: Http, worker_id: str) -> None:
        self._http = http
        self._worker_id = worker_id
        self._keyed = False
        self._known = trio.Event()

    async def keyed(self) -> bool:
        """Whether posts may carry a key; waits a moment for the first probe."""
        if not self._known.is_set():
            with trio.move_on_after(KNOWN_SOON_S):
                await self._known.wait()
        return self._keyed

    def withdraw(self) -> None:
        """A keyed post came back without its echo: keys are not honoured after all."""
        if self._keyed:
            log.warning("the relay took a keyed post without saying so: posting without keys")
        self._keyed = False

    def key(self, post: str, part: int | str = 0) -> str:
        """The key of one post: of a task's file, of a placeholder."""
        return hashlib.sha256(rfc8785.dumps([self._worker_id, post, part])).hexdigest()

    async def run(self) -> None:
        """Probe, and again each minute while nothing is known; a clear answer is kept."""
        while True:
            try:
                answer = await self._http.send(Call(path="/v1/capabilities", within_s=10.0))
            except RelayError as error:
                clear = error.status in (404, 405)
            else:
                clear = True
                self._keyed = understands(answer.body)
            self._known.set()
            if clear:
                return
            await trio.sleep(RECHECK_S)


def understands(body: bytes) -> bool:
    """The strict reader: header, life and both routes, placeholders by any name."""
    try:
        posts = msgspec.json.decode(body, type=_Answer).room_post_idempotency
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    routes = {re.sub(r"\{[^{}]*\}", "{}", route.strip()) for route in posts.routes}
    return (
        posts.header.lower() == "idempotency-key"
        and posts.ttl_seconds >= TTL_MIN_S
        and {MESSAGES, MEDIA} <= routes
    )
