"""The status file: what it holds, how it is judged (worker.md §15).

Owns the shape of ``status.json`` v1 and the staleness rule. It never reads a clock or a file.
Readers ignore unknown fields; a field that is not known yet is absent.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec
from msgspec import UNSET, UnsetType

STALE_BEATS = 3  # this many heartbeats missed, and the process is taken for dead


class State(StrEnum):
    """Nothing else is ever written."""

    STARTING = "starting"
    SERVING = "serving"
    STOPPED = "stopped"
    ERROR = "error"


class LastError(msgspec.Struct, frozen=True, kw_only=True):
    """The latest error; later states keep it."""

    at: float
    message: str


class RelayBlock(msgspec.Struct, frozen=True, kw_only=True):
    """The relay client's snapshot, copied (relay-wire.md §18 without ``instance``)."""

    state: str | None = None
    connected: bool | None = None
    gateway: str | None = None
    last_ok_ts: float | None = None
    backoff_s: float | None = None
    recheck_s: float | None = None
    acks_paused_s: float | None = None
    singleton: str | None = None
    error: str | None = None
    inflight: int | None = None
    pending_results: int | None = None
    updated_ts: float | None = None


class DeliveryState(StrEnum):
    """``withdrawn``: it was enabled, and the relay took a post without confirming its key."""

    ENABLED = "enabled"
    DISABLED = "disabled"
    WITHDRAWN = "withdrawn"


class DeliveryBlock(msgspec.Struct, frozen=True, kw_only=True):
    """Deferred deliveries (deferred-delivery.md §11); ``listener``: up, down or restarting.

    ``reason`` is "" while enabled; ``in_flight`` are being run by this process, ``in_progress``
    have no end in the ledger yet.
    """

    state: DeliveryState
    reason: str = ""
    listener: str = "down"
    in_flight: int = 0
    in_progress: int = 0
    last_delivered_at: float | None = None
    bindings: int = 0


class DaemonBlock(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon's API: the bound address (channel-delivery.md §16)."""

    listen: str


class ChannelsBlock(msgspec.Struct, frozen=True, kw_only=True):
    """The channel workers by workspace: names, states, numbers, codes; no target, no text."""

    workspaces: Mapping[str, object]


class StatusFile(msgspec.Struct, frozen=True, kw_only=True):
    """``status.json``. A block that is not there belongs to something that is off."""

    state: State
    pid: int
    instance: str
    started_at: float
    updated_at: float
    uptime_seconds: float
    heartbeat_seconds: float
    version: int = 1
    detail: str = ""
    workspace: str = ""
    tasks_running: int = 0
    oldest_task_seconds: float = 0.0
    last_error: LastError | None = None
    relay: RelayBlock | None = None
    delivery: DeliveryBlock | UnsetType = UNSET
    daemon: DaemonBlock | UnsetType = UNSET
    channels: ChannelsBlock | UnsetType = UNSET
    adapter: str | UnsetType = UNSET
    agent: str | UnsetType = UNSET
    repo: str | UnsetType = UNSET


def relay_block(snapshot: object) -> RelayBlock | None:
    """The block out of whatever the relay calls its snapshot; what it lacks is null."""
    if snapshot is None:
        return None
    fields = RelayBlock.__struct_fields__
    raw = {name: getattr(snapshot, name, None) for name in fields}
    return msgspec.convert(msgspec.to_builtins(raw), RelayBlock, strict=False)


def encode(status: StatusFile) -> bytes:
    """The bytes of the file: sorted keys, indent 2, a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(status, order="sorted"), indent=2) + b"\n"


# --- the reader's side


class Verdict(StrEnum):
    """What a reader makes of a status file."""

    FRESH = "fresh"
    ERROR = "error"
    STALE = "stale"
    STOPPED = "stopped"
    ABSENT = "absent"


EXIT_CODES = {
    Verdict.FRESH: 0,
    Verdict.ERROR: 1,
    Verdict.STALE: 1,
    Verdict.STOPPED: 3,
    Verdict.ABSENT: 3,
}


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict with what a person wants beside it."""

    verdict: Verdict
    state: str = ""
    detail: str = ""
    age_s: float | None = None
    status: "StatusView | None" = None

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]


class StatusView(msgspec.Struct, frozen=True, kw_only=True):
    """A status file as a reader takes it: anything may be missing."""

    state: str = ""
    detail: str = ""
    pid: int | None = None
    instance: str = ""
    workspace: str = ""
    adapter: str = ""
    agent: str = ""
    repo: str = ""
    tasks_running: int = 0
    oldest_task_seconds: float = 0.0
    started_at: float | None = None
    updated_at: float | None = None
    uptime_seconds: float | None = None
    heartbeat_seconds: float = 15.0
    last_error: LastError | None = None
    relay: RelayBlock | None = None


def is_stale(updated_at: float | None, heartbeat_s: float, wall_now: float) -> bool:
    """Whether the writer has been silent for too long; never having written counts as that."""
    return updated_at is None or wall_now - updated_at > STALE_BEATS * heartbeat_s


def judge(raw: bytes | None, wall_now: float) -> Judgement:
    """The verdict on a file's bytes; None where there is no file."""
    if raw is None:
        return Judgement(verdict=Verdict.ABSENT, detail="there is no status file")
    try:
        view = msgspec.json.decode(raw, type=StatusView)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return Judgement(verdict=Verdict.ERROR, detail="the status file cannot be understood")
    age = None if view.updated_at is None else wall_now - view.updated_at
    if view.state == State.STOPPED:
        verdict = Verdict.STOPPED
    elif view.state == State.ERROR:
        verdict = Verdict.ERROR
    elif is_stale(view.updated_at, view.heartbeat_seconds, wall_now):
        verdict = Verdict.STALE
    else:
        verdict = Verdict.FRESH if view.state in set(State) else Verdict.ERROR
    return Judgement(verdict=verdict, state=view.state, detail=view.detail, age_s=age, status=view)
