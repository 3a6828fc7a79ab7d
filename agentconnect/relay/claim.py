"""One poller per bearer over all state folders of a user (relay-wire.md §15 b).

The guard record belongs to a state folder, so two of them with one token do not see each other.
Whoever polls also holds a ``flock`` on a file named by the hash of gateway and secret; the kernel
frees it however the process ends. A lock that cannot be taken for any other reason than a holder
never silences delivery. The holder unlinks the file before letting go, and who takes it looks
again whether it is still the file of that name.
"""

import contextlib
import fcntl
import logging
import os
from collections.abc import Callable
from pathlib import Path

import trio

from agentconnect.core.relay.credential import Credential
from agentconnect.core.relay.guard import claim_name

log = logging.getLogger("agentconnect.relay")

TRIES = 8
"""How often a file may be swapped under us before we go on without it."""


class BearerClaim:
    """Our hold on the bearer in use. Without a ``folder`` it is always granted."""

    def __init__(self, folder: Path | None, credential: Callable[[], Credential]) -> None:
        self._folder = folder
        self._credential = credential
        self._name = ""
        self._handle = -1

    async def hold(self) -> bool:
        """Whether this process may use the bearer; after a rotation that is asked anew."""
        if self._folder is None:
            return True
        credential = self._credential()
        name = claim_name(credential.gateway, credential.secret.reveal())
        if name == self._name:
            return True
        try:
            handle = await trio.to_thread.run_sync(_take, self._folder / name)
        except BlockingIOError:
            return False
        except OSError as error:
            log.warning("the lock of this token cannot be used: %s", error.strerror)
            handle = -1
        self.release()
        self._name, self._handle = name, handle
        return True

    def release(self) -> None:
        """Let go. Idempotent; never raises."""
        if self._handle >= 0 and self._folder is not None:
            with contextlib.suppress(OSError):
                (self._folder / self._name).unlink()
            os.close(self._handle)
        self._name, self._handle = "", -1


def _take(path: Path) -> int:
    """The locked file. Blocking. Raises: BlockingIOError where it is held, else OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for _ in range(TRIES):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same(handle, path):
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
    raise OSError(0, "it changes all the time")


def _same(handle: int, path: Path) -> bool:
    """Whether the name still leads to the file we locked."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
