"""Keyed posts: the same key and content is one post, whatever becomes of the answers.

The judgement is pure; the claim, the post and its outcome are one transaction, so a crash leaves
none or all of them (deferred-delivery.md §11). ``running`` and ``unknown`` claims are understood
too: another relay process on the same database may hold one.
"""

import hashlib
import re
from enum import StrEnum

import msgspec

from agentconnect.embedded.store import Tx
from agentconnect.embedded.timing import Timing

ROUTES = ("POST /v1/rooms/{room}/messages", "POST /v1/rooms/{room}/media")
_SLICE = 200
_KEY = re.compile(r"[0-9a-f]{64}")


class Claim(StrEnum):
    """What a key says about a post that carries it."""

    FRESH = "fresh"
    REPLAY = "replay"
    RUNNING = "running"
    UNKNOWN = "unknown"
    CONFLICT = "conflict"


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of a key."""

    digest: str
    state: str
    answer: str
    created: float
    until: float


def is_key(value: str) -> bool:
    """Whether a header's value has the form of a key."""
    return _KEY.fullmatch(value) is not None


def route_of(last: str) -> str:
    """The keyed route that ends in this word."""
    return next(route for route in ROUTES if route.endswith(f"/{last}"))


def digest(route: str, room_id: str, body: bytes) -> str:
    """What a key is bound to."""
    head = f"{route}\n{room_id}\n".encode("utf-8", "replace")
    return hashlib.sha256(head + body).hexdigest()


def judge(row: KeyRow | None, wanted: str, now: float, timing: Timing) -> Claim:
    """What becomes of a post under a key."""
    if row is None or row.created + timing.key_ttl_s <= now:
        return Claim.FRESH
    if row.digest != wanted:
        return Claim.CONFLICT
    if row.state == "done":
        return Claim.REPLAY
    if row.state == "running" and row.until > now:
        return Claim.RUNNING
    return Claim.UNKNOWN


def look(tx: Tx, user_id: str, key: str) -> KeyRow | None:
    """What is remembered of one identity's key."""
    return tx.one(
        KeyRow,
        "SELECT digest, state, answer, created, until FROM post_keys WHERE user_id = ? AND key = ?",
        user_id,
        key,
    )


def keep(
    tx: Tx,
    user_id: str,
    key: str,
    wanted: str,
    *,
    state: str,
    answer: str = "",
    lease_s: float = 0.0,
) -> None:
    """Remember an outcome, or a claim that runs."""
    tx.run("DELETE FROM post_keys WHERE user_id = ? AND key = ?", user_id, key)
    tx.run(
        "INSERT INTO post_keys (user_id, key, digest, state, answer, created, until) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        user_id,
        key,
        wanted,
        state,
        answer,
        tx.now,
        tx.now + lease_s,
    )


def prune(tx: Tx, timing: Timing) -> int:
    """Forget some keys whose life is over."""
    return tx.run(
        "DELETE FROM post_keys WHERE (user_id, key) IN "
        "(SELECT user_id, key FROM post_keys WHERE created <= ? LIMIT ?)",
        tx.now - timing.key_ttl_s,
        _SLICE,
    )


def capabilities(timing: Timing) -> dict[str, object]:
    """What the probe is told (relay-wire.md §3.9)."""
    return {
        "room_post_idempotency": {
            "header": "Idempotency-Key",
            "ttl_seconds": int(timing.key_ttl_s),
            "routes": list(ROUTES),
        }
    }
