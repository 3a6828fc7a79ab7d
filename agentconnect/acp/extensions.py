"""What a connection offers beyond the protocol: declared keys, and methods with their handlers.

acp.md §10. Whatever is not in here is answered "method not found", on any connection.
"""

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from agentconnect.acp.peer import Bounds, RequestRefused

Serve = Callable[[msgspec.Raw], Awaitable[msgspec.Struct]]
"""Answers one request. Raises: RequestRefused."""


class Extensions(msgspec.Struct, frozen=True, kw_only=True):
    """``declared`` go into ``_meta`` as true. ``overfull``: the answers beyond ``bounds``."""

    declared: tuple[str, ...] = ()
    served: Mapping[str, Serve] = {}
    overfull: Mapping[str, RequestRefused] = {}
    bounds: Bounds = Bounds()


NOTHING = Extensions()
