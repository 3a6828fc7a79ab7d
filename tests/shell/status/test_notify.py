"""systemd's notify protocol over a real datagram socket."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from agentconnect import wiring
from agentconnect.status.notify import Notifier


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(path)
        listener.settimeout(60)
        yield path, listener


def test_ready_and_stopping_are_told(manager: tuple[str, socket.socket]) -> None:
    """One datagram each; a value holds no line end."""
    path, listener = manager
    notifier = Notifier(path)
    notifier.ready("serving\nFDNAME=x")
    assert listener.recv(4096) == b"READY=1\nSTATUS=serving FDNAME=x"
    notifier.status("two rooms")
    assert listener.recv(4096) == b"STATUS=two rooms"
    notifier.stopping()
    assert listener.recv(4096) == b"STOPPING=1"
    notifier.close()
    notifier.close()


def test_abstract_address_is_understood() -> None:
    """An address that begins with @ is in the abstract namespace."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("")  # the kernel picks an abstract name
        listener.settimeout(60)
        name = listener.getsockname()
        notifier = Notifier("@" + name[1:].decode())
        notifier.ready()
        assert listener.recv(4096) == b"READY=1"
        notifier.close()


def test_nobody_listening_is_no_failure(tmp_path: Path) -> None:
    """Without a service manager, or with one that is gone, nothing happens."""
    Notifier().ready()
    notifier = Notifier(str(tmp_path / "gone"))
    notifier.ready()
    notifier.close()


async def test_watchdog_is_fed_only_while_there_is_progress(
    manager: tuple[str, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    """Feeding stops when progress does, with one complaint, and goes on with it."""
    path, listener = manager
    asked: list[int] = []

    def alive() -> bool:
        asked.append(1)
        return len(asked) != 2

    notifier = Notifier(path, watchdog_usec=20_000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notifier.run, alive)
        with trio.fail_after(60):
            while len(asked) < 4:
                await trio.sleep(0.005)
        nursery.cancel_scope.cancel()
    listener.setblocking(False)
    fed = 0
    try:
        while listener.recv(4096) == b"WATCHDOG=1":
            fed += 1
    except BlockingIOError:
        pass
    assert fed == len(asked) - 1
    assert caplog.text.count("the watchdog is not fed") == 1
    notifier.close()


async def test_no_watchdog_returns_at_once() -> None:
    """Without an interval there is nothing to feed."""
    await Notifier("/x").run(lambda: True)


async def test_a_watchdog_of_another_process_is_not_fed(
    manager: tuple[str, socket.socket],
) -> None:
    """``WATCHDOG_PID`` says whose it is: a worker started below a service leaves it alone."""
    path, _listener = manager
    other = wiring.notifier({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "20000", "WATCHDOG_PID": "1"})
    with trio.fail_after(60):
        await other.run(lambda: True)
    other.close()
