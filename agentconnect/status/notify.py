"""systemd's notify protocol: ready, stopping, watchdog (worker.md §17.4).

Owns one datagram socket. A message that cannot be sent is not worth a turn: failures are dropped.
The watchdog is fed only while ``alive`` says that there is progress. The address and the interval
come from the settings, never from the environment.
"""

import contextlib
import logging
import socket
from collections.abc import Callable

import trio

log = logging.getLogger("agentconnect.status")


class Notifier:
    """Tells the service manager. Without an ``address`` every call does nothing."""

    def __init__(self, address: str = "", *, watchdog_usec: int = 0) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._watchdog_s = watchdog_usec / 1_000_000
        self._socket: socket.socket | None = None

    def ready(self, status: str = "") -> None:
        """Start-up is done."""
        self._send("READY=1", f"STATUS={one_line(status)}" if status else "")

    def stopping(self) -> None:
        """The stop has begun."""
        self._send("STOPPING=1")

    def status(self, text: str) -> None:
        """A line for ``systemctl status``."""
        self._send(f"STATUS={one_line(text)}")

    async def run(self, alive: Callable[[], bool]) -> None:
        """Feed the watchdog at half its interval while ``alive()``; returns at once without one."""
        if not self._address or self._watchdog_s <= 0:
            return
        silent = False
        while True:
            if alive():
                self._send("WATCHDOG=1")
                silent = False
            elif not silent:
                silent = True
                log.warning("no progress: the watchdog is not fed")
            await trio.sleep(self._watchdog_s / 2)

    def close(self) -> None:
        """Give the socket back. Idempotent."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        with contextlib.suppress(OSError):
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._socket.setblocking(False)
            text = "\n".join(line for line in lines if line)
            self._socket.sendto(text.encode(), self._address)


def one_line(text: str) -> str:
    """Line ends separate the protocol's fields, so a value holds none."""
    return " ".join(text.split())
