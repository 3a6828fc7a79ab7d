"""Minting: ids of rooms, events, tasks and media, secrets, and the hashes that are kept of them.

A secret is 32 random bytes, so a plain SHA-256 of it is enough to keep; the secret itself is told
once and never stored.
"""

import hashlib
import re
import secrets
import unicodedata

CONCIERGE = "sutando-concierge"


def event_id() -> str:
    """A new event's id."""
    return "$" + secrets.token_urlsafe(18)


def room_id(domain: str) -> str:
    """A new room's id."""
    return f"!{secrets.token_hex(9)}:{domain}"


def task_id() -> str:
    """A new task's id, inside the wire's alphabet (relay-wire.md §4.2)."""
    return "t-" + secrets.token_hex(12)


def lease_id() -> str:
    """A new serve's id."""
    return secrets.token_hex(8)


def media_id() -> str:
    """A new file's id; not to be guessed, since it is part of a URL."""
    return secrets.token_hex(16)


def secret() -> str:
    """A new bearer, page link or session."""
    return secrets.token_urlsafe(32)


def hashed(value: str) -> str:
    """What is kept of a secret."""
    return hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()


def localpart(name: str) -> str:
    """The part of a user id before the colon that a display name becomes."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9._-]+", "-", plain).strip("-._")[:48] or "user"


def user_id(local: str, domain: str) -> str:
    """A full user id."""
    return f"@{local}:{domain}"
