"""What the relay client says of itself: one snapshot, a hook, and ``connection-status.json``.

Fields and words: relay-wire.md §18. A state change is published at once; a mere tick of the clocks
at most once a second. Writing never blocks delivery and never raises. Texts are our own words.
"""

import logging
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import msgspec
import trio

from agentconnect.core.errors import StoreUnreadableError
from agentconnect.store.atomic import read_file, write_file

log = logging.getLogger("agentconnect.relay")

TICK_S = 1.0
ERROR_CHARS = 300


class RelayState(StrEnum):
    """Where the client stands."""

    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    AUTH_WAIT = "auth-wait"
    FATAL = "fatal"
    STANDBY = "standby"
    DISPLACED = "displaced"
    STOPPED = "stopped"


class RelayStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshot; the worker copies all but ``instance`` into its status file."""

    instance: str
    state: str
    connected: bool
    gateway: str
    last_ok_ts: float | None
    backoff_s: float
    recheck_s: float
    acks_paused_s: float
    singleton: str
    error: str | None
    inflight: int
    pending_results: int
    updated_ts: float


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What other parts know, asked for at each publishing."""

    inflight: int = 0
    pending: int = 0
    parked: int = 0
    undelivered: int = 0
    acks_paused_s: float = 0.0
    singleton: str = "idle"


class StateBoard:
    """Holds the state; :meth:`run` writes the file."""

    def __init__(
        self,
        path: Path,
        *,
        instance: str,
        gateway: str,
        facts: Callable[[], Facts],
        on_status: Callable[[RelayStatus], None],
        wall_now: Callable[[], float],
    ) -> None:
        self.poll_anomalies = 0
        self._path = path
        self._instance = instance
        self._gateway = gateway
        self._facts = facts
        self._on_status = on_status
        self._wall_now = wall_now
        self._state = RelayState.RECONNECTING
        self._error: str | None = None
        self._backoff_s = 0.0
        self._recheck_s = 0.0
        self._last_ok_ts = _last_ok(path)
        self._dirty = trio.Event()
        self._complained = False

    def set(
        self,
        state: RelayState,
        *,
        error: str | None = None,
        backoff_s: float = 0.0,
        recheck_s: float = 0.0,
    ) -> None:
        """Enter a state (or stay in it) and publish."""
        changed = (self._state, self._error, self._backoff_s) != (state, error, backoff_s)
        self._state, self._backoff_s, self._recheck_s = state, backoff_s, recheck_s
        self._error = error[:ERROR_CHARS] if error else None
        if changed:
            self.tell()
        self.touch()

    def healthy(self) -> None:
        """A poll went well."""
        self._last_ok_ts = self._wall_now()
        self.set(RelayState.CONNECTED)

    def touch(self) -> None:
        """Something of the facts may have changed: publish it with the next tick."""
        self._dirty.set()

    def snapshot(self) -> RelayStatus:
        facts = self._facts()
        return RelayStatus(
            instance=self._instance,
            state=self._state,
            connected=self._state is RelayState.CONNECTED,
            gateway=self._gateway,
            last_ok_ts=self._last_ok_ts,
            backoff_s=round(self._backoff_s, 3),
            recheck_s=self._recheck_s if self._state is RelayState.STANDBY else 0.0,
            acks_paused_s=round(facts.acks_paused_s, 1),
            singleton=facts.singleton,
            error=self._error,
            inflight=facts.inflight,
            pending_results=facts.pending,
            updated_ts=self._wall_now(),
        )

    def tell(self) -> None:
        """Call the hook; one that raises is logged and forgotten."""
        try:
            self._on_status(self.snapshot())
        except Exception:
            log.exception("the status hook failed")

    async def run(self) -> None:
        """Write the file, and tell the hook of quieter changes, at most once a tick."""
        while True:
            await self._dirty.wait()
            self._dirty = trio.Event()
            self.tell()
            await self.write()
            await trio.sleep(TICK_S)

    async def write(self) -> None:
        """Write the file now. Never raises; complains once."""
        facts = self._facts()
        record = msgspec.structs.asdict(self.snapshot()) | {
            "parked_results": facts.parked,
            "undelivered_results": facts.undelivered,
            "poll_anomalies": self.poll_anomalies,
        }
        text = msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
        try:
            await trio.to_thread.run_sync(_write, self._path, text)
        except OSError as error:
            if not self._complained:
                log.warning("%s cannot be written: %s", self._path, error.strerror)
            self._complained = True


def _write(path: Path, text: bytes) -> None:
    write_file(path, text, durable=False)


def _last_ok(path: Path) -> float | None:
    """The last healthy poll of an earlier run, if its file still says so."""
    try:
        found = msgspec.json.decode(read_file(path) or b"{}", type=dict[str, object])
    except (StoreUnreadableError, msgspec.DecodeError):
        return None
    value = found.get("last_ok_ts")
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
