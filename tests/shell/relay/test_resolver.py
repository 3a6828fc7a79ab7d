"""Names to addresses: one look-up at a time for each, bounded, and nothing global."""

import socket
import threading
from collections.abc import Sequence

import pytest
import trio
import trio.testing

from agentconnect.relay import resolver as module
from agentconnect.relay.resolver import Address, Resolver, connect

FOUND: Sequence[Address] = ((socket.AF_INET, ("192.0.2.1", 80)),)


class _Names:
    """A resolver of the system that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.gate = threading.Event()
        self.error: Exception | None = None

    def __call__(self, host: str, port: int) -> Sequence[Address]:
        self.asked.append((host, port))
        assert self.gate.wait(60)
        if self.error is not None:
            raise self.error
        return FOUND


async def _until(condition: object) -> None:
    assert callable(condition)
    with trio.fail_after(60):
        while not condition():
            await trio.sleep(0.005)


async def test_everybody_waits_for_the_same_look_up() -> None:
    """Twenty callers, one thread; another port is another question."""
    names = _Names()
    resolver = Resolver(names)
    answers: list[Sequence[Address]] = []

    async def ask(port: int) -> None:
        answers.append(await resolver.addresses("relay.example", port))

    async with trio.open_nursery() as asking:
        for _ in range(20):
            asking.start_soon(ask, 80)
        asking.start_soon(ask, 81)
        await _until(lambda: len(names.asked) == 2)
        names.gate.set()
    assert sorted(names.asked) == [("relay.example", 80), ("relay.example", 81)]
    assert answers == [FOUND] * 21


async def test_a_cancelled_caller_takes_nobody_with_it() -> None:
    """Not even the one who happened to ask first."""
    names = _Names()
    resolver = Resolver(names)
    answers: list[Sequence[Address]] = []

    async def ask() -> None:
        answers.append(await resolver.addresses("relay.example", 80))

    async with trio.open_nursery() as asking:
        first = trio.CancelScope()

        async def impatient() -> None:
            with first:
                await resolver.addresses("relay.example", 80)

        asking.start_soon(impatient)
        await _until(lambda: names.asked)
        asking.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        first.cancel()
        names.gate.set()
    assert (len(names.asked), answers) == (1, [FOUND])


async def test_a_failure_reaches_all_and_the_next_asks_again() -> None:
    """The place is free before those who waited wake."""
    names = _Names()
    names.error = OSError("no such host")
    resolver = Resolver(names)
    names.gate.set()

    async def ask() -> None:
        with pytest.raises(OSError, match="cannot be looked up"):
            await resolver.addresses("relay.example", 80)
        with pytest.raises(OSError, match="cannot be looked up"):
            await resolver.addresses("relay.example", 80)

    async with trio.open_nursery() as asking:
        asking.start_soon(ask)
    assert len(names.asked) == 2


async def test_a_wedged_resolver_costs_its_few_threads_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every call ends in time, no thread is added per try, and other threads still run."""
    monkeypatch.setattr(module, "LOOKUP_WITHIN_S", 0.05)
    names = _Names()
    resolver = Resolver(names)
    try:
        for _ in range(5):
            with pytest.raises(TimeoutError):
                await resolver.addresses("relay.example", 80)
        await _until(lambda: len(names.asked) == 1)
        for number in range(module.LOOKUPS_AT_ONCE - 1):
            with pytest.raises(TimeoutError):
                await resolver.addresses(f"host-{number}.example", 80)
        with pytest.raises(OSError, match="too many"):
            await resolver.addresses("one-more.example", 80)
        assert trio.to_thread.current_default_thread_limiter().borrowed_tokens == 0
        assert await trio.to_thread.run_sync(lambda: 7) == 7
        assert await resolver.addresses("127.0.0.1", 80)
    finally:
        names.gate.set()
    await _until(lambda: not resolver._flights)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", ["127.0.0.1"]),
        ("::1", ["::1"]),
        ("localhost", ["127.0.0.1", "::1"]),
        ("LocalHost.", ["127.0.0.1", "::1"]),
        ("a.localhost", ["127.0.0.1", "::1"]),
    ],
)
async def test_what_needs_no_look_up(host: str, expected: list[str]) -> None:
    """Addresses and this machine are known."""
    names = _Names()
    found = await Resolver(names).addresses(host, 80)
    assert [where[0] for _, where in found] == expected
    assert names.asked == []


def test_ipv4_comes_first_and_ipv6_is_not_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that drops IPv6 costs nothing, one that has nothing else still works."""
    found = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2001:db8::1", 80, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 80)),
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2001:db8::2", 80, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 80)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: found)
    ordered = module._system_lookup("relay.example", 80)
    assert [where[0] for _, where in ordered] == ["192.0.2.1", "2001:db8::1", "2001:db8::2"]


async def _listening() -> tuple[trio.SocketListener, Address]:
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    return listener, (socket.AF_INET, ("127.0.0.1", listener.socket.getsockname()[1]))


def _closed_port() -> Address:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return socket.AF_INET, ("127.0.0.1", sock.getsockname()[1])


async def test_each_address_is_tried_in_turn() -> None:
    """The first that answers is taken."""
    listener, good = await _listening()
    async with listener:
        link = await connect([_closed_port(), _closed_port(), good])
        assert link.raw.getpeername() == good[1]
        link.close()


async def test_an_address_that_swallows_the_call_does_not_hold_up_the_next() -> None:
    """A full backlog looks like a network that drops packets."""
    listener, good = await _listening()
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        where = full.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(where)
        async with listener:
            with trio.fail_after(60):
                link = await connect([(socket.AF_INET, where), good])
            assert link.raw.getpeername() == good[1]
            link.close()
        for filler in fillers:
            filler.close()


async def test_no_address_answers() -> None:
    """The last error is told; none at all is one too."""
    for addresses in ([_closed_port()], [_closed_port(), _closed_port()]):
        with pytest.raises(ConnectionRefusedError):
            await connect(addresses)
    with pytest.raises(OSError, match="no address"):
        await connect([])
