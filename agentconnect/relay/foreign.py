"""Addresses that anybody in a room may make us call: public ones, judged after the look-up.

Only for origins the owner listed (relay-wire.md §12.4), and without the bearer. The connection goes
to the very address that was judged, so a name that changes its mind in between reaches nothing
inside. Spelled-out addresses and ``localhost`` pass the same gate.
"""

from collections.abc import Sequence

from agentconnect.core.relay.media import is_public
from agentconnect.relay.resolver import Address, Resolver


class PublicResolver(Resolver):
    """A resolver that knows only public addresses."""

    async def addresses(self, host: str, port: int) -> Sequence[Address]:
        """Raises: OSError, also where ``host`` has no public address."""
        found = await super().addresses(host, port)
        public = [address for address in found if is_public(address[1][0])]
        if not public:
            raise OSError("the host has no public address")
        return public
