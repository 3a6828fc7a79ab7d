"""The event channel: what happens in the rooms, as a stream (relay-wire.md §19). Off unless asked.

Its own connection, its own waits; nothing it does touches the delivery of tasks, so every failure
ends in here. The sink's return means durable: it is given each event at least once and must not
mind a repeat. The wait between two connections falls back to its first rung only when the cursor
moved, so that a relay which accepts and drops is not hammered.
"""

import logging
import random
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Protocol

import msgspec
import trio

from agentconnect.core.errors import AuthRejectedError, RelayError
from agentconnect.core.relay.cadence import Backoff, jittered
from agentconnect.core.relay.sse import Event, Frame, Reader, after_skip, read_event
from agentconnect.relay.http import Call, Http

log = logging.getLogger("agentconnect.relay")

SILENCE_S = 120.0
"""No byte for so long, keepalives included, is a dead path that looks alive."""


class Sink(Protocol):
    """Where events go. ``commit`` has returned: the event is durable there."""

    def durable_cursor(self) -> int | None: ...
    async def commit(self, event: Event) -> None: ...


class ChannelState(StrEnum):
    """Where the channel stands."""

    INIT = "init"
    STARTING = "starting"
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    AUTH_FAILED = "auth_failed"
    FATAL = "fatal"
    STOPPED = "stopped"


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The channel's own report. Texts are our own words."""

    status: str = ChannelState.INIT
    last_cursor: int | None = None
    last_event_at: float | None = None
    retries: int = 0
    skipped: int = 0
    unresumable: int = 0
    last_skip: str = ""
    error: str = ""


class EventChannel:
    """The reader; :meth:`run` never raises an Exception."""

    def __init__(
        self,
        http: Http,
        sink: Sink,
        *,
        has_token_file: bool,
        wall_now: Callable[[], float],
        unit: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = trio.sleep,
    ) -> None:
        self.health = Health()
        self._http = http
        self._sink = sink
        self._has_token_file = has_token_file
        self._wall_now = wall_now
        self._unit = unit
        self._sleep = sleep
        self._marker: int | None = None

    async def run(self) -> None:
        """Read until cancelled, or until the relay has no such channel."""
        backoff = Backoff()
        self._say(status=ChannelState.STARTING)
        try:
            while True:
                before = self._cursor()
                if await self._once():
                    return
                if self._cursor() != before:
                    backoff.reset()
                self._say(retries=self.health.retries + 1)
                await self._sleep(jittered(backoff.next(), self._unit()))
        except Exception:
            log.exception("the event channel ended in a way nobody planned for")
            self._say(status=ChannelState.FATAL, error="an unexpected error")
        finally:
            if self.health.status not in (ChannelState.FATAL, ChannelState.AUTH_FAILED):
                self._say(status=ChannelState.STOPPED)

    async def _once(self) -> bool:
        """One connection; whether it was the last."""
        try:
            await self._read()
            self._say(status=ChannelState.RECONNECTING, error="the stream ended")
        except AuthRejectedError as error:
            self._say(status=ChannelState.AUTH_FAILED, error=str(error))
            return not self._has_token_file
        except RelayError as error:
            gone = error.status == 404
            state = ChannelState.FATAL if gone else ChannelState.RECONNECTING
            self._say(status=state, error=str(error))
            return gone
        except Exception as error:
            log.exception("an event could not be kept")
            self._say(status=ChannelState.RECONNECTING, error=type(error).__name__)
        return False

    async def _read(self) -> None:
        cursor = self._cursor()
        call = Call(
            path="/v1/events/stream",
            accept="text/event-stream",
            last_event_id="" if cursor is None else str(cursor),
            within_s=float("inf"),
            stall_s=SILENCE_S,
        )
        reader = Reader()

        async def take(block: bytes) -> None:
            if not block:
                self._say(status=ChannelState.CONNECTED, error="")
            for frame in reader.feed(block):
                await self._take(frame)

        await self._http.stream(call, take)

    async def _take(self, frame: Frame) -> None:
        event = read_event(frame)
        if event is None:
            self._skip(frame)
            return
        await self._sink.commit(event)
        if event.cursor is None:
            self._say(unresumable=self.health.unresumable + 1)
        else:
            self._marker = max(event.cursor, -1 if self._marker is None else self._marker)
        self._say(last_event_at=self._wall_now(), last_cursor=self._cursor())

    def _skip(self, frame: Frame) -> None:
        why = "too long" if frame.poison else "not an object"
        log.warning("an event was skipped: %s", why)
        self._marker = after_skip(self._cursor(), frame.cursor)
        self._say(skipped=self.health.skipped + 1, last_skip=why)

    def _cursor(self) -> int | None:
        """The later of the sink's cursor and ours, which is ahead by skipped frames."""
        known = [c for c in (self._sink.durable_cursor(), self._marker) if c is not None]
        return max(known, default=None)

    def _say(self, **values: object) -> None:
        self.health = msgspec.structs.replace(self.health, **values)
