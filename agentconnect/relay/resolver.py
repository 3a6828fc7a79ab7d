"""From a host's name to a connected stream, bounded at every step (relay-wire.md §1.5).

``getaddrinfo`` has no timeout and cannot be interrupted: a look-up runs in a thread of its own, at
most one for each (host, port), and whoever asks meanwhile waits for that one. The program's thread
limiter is not touched and nothing global is changed, so a wedged resolver costs its own few threads
and nothing else. IPv4 is tried first, then IPv6, each address in turn.
"""

import contextlib
import socket
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import trio

LOOKUP_WITHIN_S = 8.0
LOOKUPS_AT_ONCE = 8
"""Wedged ones included. More than this many different hosts at once is not our kind of traffic."""

STAGGER_S = 0.25
"""An address that has not connected by then is not waited for before the next is tried."""

SockAddr: TypeAlias = tuple[str, int] | tuple[str, int, int, int]
Address: TypeAlias = tuple[int, SockAddr]
"""An address family and what to connect to."""

Lookup: TypeAlias = Callable[[str, int], Sequence[Address]]

LOOPBACK: Sequence[tuple[int, str]] = (
    (socket.AF_INET, "127.0.0.1"),
    (socket.AF_INET6, "::1"),
)


class Link(NamedTuple):
    """A connection, as a stream and as the socket below it (which does not block)."""

    stream: trio.SocketStream
    raw: socket.socket

    def close(self) -> None:
        """At once, without waiting."""
        self.stream.socket.close()


class _Flight:
    """One look-up under way, and what came of it."""

    def __init__(self) -> None:
        self.landed = trio.Event()
        self.found: Sequence[Address] | Exception | None = None


class Resolver:
    """The look-ups of one client."""

    def __init__(self, lookup: Lookup | None = None) -> None:
        self._lookup = lookup or _system_lookup
        self._flights: dict[tuple[str, int], _Flight] = {}

    async def addresses(self, host: str, port: int) -> Sequence[Address]:
        """Where ``host`` is, IPv4 first.

        Raises: OSError where it cannot be found, or not within the bound. Cancellation: the look-up
        goes on for whoever else asked.
        """
        known = _numeric(host, port) or _local(host, port)
        if known:
            return known
        flight = self._flights.get((host, port)) or self._begin(host, port)
        with trio.move_on_after(LOOKUP_WITHIN_S):  # may end: the system's resolver is stuck
            await flight.landed.wait()
        if flight.found is None:
            raise TimeoutError(f"no address within {LOOKUP_WITHIN_S:g} s")
        if isinstance(flight.found, Exception):
            raise OSError("the host's name cannot be looked up") from flight.found
        return flight.found

    def _begin(self, host: str, port: int) -> _Flight:
        if len(self._flights) >= LOOKUPS_AT_ONCE:
            raise OSError("too many host names are being looked up")
        flight = self._flights[host, port] = _Flight()
        token = trio.lowlevel.current_trio_token()

        def land(found: Sequence[Address] | Exception) -> None:
            del self._flights[host, port]  # first: whoever wakes and asks again starts afresh
            flight.found = found
            flight.landed.set()

        def look() -> None:
            found: Sequence[Address] | Exception
            try:
                found = self._lookup(host, port)
            except Exception as error:  # noqa: BLE001 - raised where it was asked for
                found = error
            with contextlib.suppress(trio.RunFinishedError):  # nobody is left to be told
                token.run_sync_soon(land, found)

        try:
            # not to_thread: that ends with the caller who happened to be first
            trio.lowlevel.start_thread_soon(look, lambda _: None)
        except RuntimeError as error:
            del self._flights[host, port]
            raise OSError("no thread could be started to look a host name up") from error
        return flight


async def connect(addresses: Sequence[Address]) -> Link:
    """A connection to the first address that answers; the next one starts a little later.

    Raises: OSError, the last one seen, where none does. Cancellation: nothing stays open.
    """
    if len(addresses) == 1:
        return await _dial(addresses[0])
    won: list[Link] = []
    lost: list[OSError] = []

    async def attempt(address: Address, failed: trio.Event) -> None:
        try:
            link = await _dial(address)
        except OSError as error:
            lost.append(error)
            failed.set()
            return
        won.append(link)
        attempts.cancel_scope.cancel()

    try:
        async with trio.open_nursery() as attempts:
            for address in addresses:
                failed = trio.Event()
                attempts.start_soon(attempt, address, failed)
                with trio.move_on_after(STAGGER_S):
                    await failed.wait()
    except BaseException:
        for link in won:
            link.close()
        raise
    for link in won[1:]:
        link.close()
    if not won:
        raise lost[-1] if lost else OSError("the host has no address")
    return won[0]


async def _dial(address: Address) -> Link:
    family, where = address
    raw = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock = trio.socket.from_stdlib_socket(raw)
        await sock.connect(where)
        return Link(trio.SocketStream(sock), raw)
    except BaseException:
        raw.close()
        raise


def _numeric(host: str, port: int) -> Sequence[Address]:
    """The address that ``host`` spells out, if it does. Asks nobody."""
    try:
        return _system_lookup(host, port, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV)
    except (OSError, UnicodeError):
        return ()


def _local(host: str, port: int) -> Sequence[Address]:
    """This machine, by the name that must mean nothing else (RFC 6761)."""
    name = host.rstrip(".").lower()
    if name != "localhost" and not name.endswith(".localhost"):
        return ()
    return tuple((family, (address, port)) for family, address in LOOPBACK)


def _system_lookup(host: str, port: int, flags: int = 0) -> Sequence[Address]:
    """All addresses by the system's own rules, then IPv4 before IPv6. Blocking."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    except UnicodeError as error:
        raise OSError("this host name cannot be looked up") from error
    usable: list[Address] = [
        (family, where)
        for family, _, _, _, where in found
        if family in (socket.AF_INET, socket.AF_INET6) and isinstance(where[0], str)
    ]
    return sorted(dict.fromkeys(usable), key=lambda address: address[0] != socket.AF_INET)
