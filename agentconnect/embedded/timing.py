"""Every window and limit of the relay in one value, so that tests can shorten them.

The defaults are those of relay-wire.md §5, §3.9 and §19. ``wall`` is the only clock the relay
reads: leases, keys and messages outlive a restart, which a monotonic clock does not.
"""

import time
from collections.abc import Callable

import msgspec

MEDIA_BYTES = 25 * 1024 * 1024
"""The largest file a room takes, raw (relay-wire.md §3.7)."""

MEDIA_REQUEST_BYTES = 35_000_000
"""The largest upload request: base64 of the above in JSON."""

HEAD_BYTES = 64 * 1024
"""The largest request head; more of it is refused unread (stack.md §7)."""

RESULT_BYTES = 4 * 1024 * 1024
JSON_BYTES = 1024 * 1024
MESSAGE_CHARS = 32_000
LATE_CHARS = 100_000
"""The longest text of a delivery (deferred-delivery.md §6); the keyed route takes it whole."""

EDIT_CHARS = 4_000


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """How long things last. Seconds, unless the name says otherwise."""

    visibility_s: float = 60.0
    extensions: int = 2  # of a lease nobody acked
    attempts: int = 5
    wait_cap_s: float = 30.0
    sweep_s: float = 1.0  # how often lapsed leases are looked for, beside every poll
    done_window_s: float = 86_400.0
    done_min: int = 10_000
    key_ttl_s: float = 86_400.0
    key_lease_s: float = 60.0
    comment_s: float = 15.0  # a silent event stream says that it lives
    events_s: float = 86_400.0
    events_max: int = 10_000
    online_s: float = 75.0
    stop_s: float = 3.0
    connections: int = 2_500  # one more is told to come back; the longest idle one makes room
    requests: int = 2_000  # at once; each long poll and each stream is one
    idle_s: float = 75.0  # a kept connection without a request
    head_s: float = 15.0  # from a request's first byte to the end of its head
    body_s: float = 180.0  # the whole body
    gap_s: float = 30.0  # without a byte of progress, either way
    linger_s: float = 5.0  # for a peer that still sends what nobody wants to read
    wall: Callable[[], float] = time.time
