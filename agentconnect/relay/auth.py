"""The bearer in use, and what to do when the relay rejects it (relay-wire.md §2.4, §16).

Only an answer to the poll decides (``core/relay/cadence``). A 401 anywhere else asks for a look at
the token file at once. A rejected poll is repeated soon, since an edge in front of the relay may
answer 401 or 403 for a moment, and whenever the token file changes.
"""

import logging
from pathlib import Path

import trio

from agentconnect.core.relay import credential as rules
from agentconnect.core.relay.credential import Credential

log = logging.getLogger("agentconnect.relay")

FILE_LOOK_S = 2.0


class Bearer:
    """The credential as it is now; every request asks for the secret anew."""

    def __init__(self, credential: Credential, token_file: Path | None) -> None:
        self.token_file = token_file
        self._credential = credential
        self._stamp = _stamp(token_file)
        self._suspected = trio.Event()
        self._rotated = trio.Event()

    def secret(self) -> str:
        return self._credential.secret.reveal()

    def suspect(self) -> None:
        """A call other than the poll was answered 401: look at the token file now."""
        self._suspected.set()

    async def reload(self) -> bool:
        """Read the token file; True where the secret was swapped."""
        if self.token_file is None:
            return False
        self._stamp, text = await trio.to_thread.run_sync(_read, self.token_file)
        if text is None:
            return False
        outcome = rules.reload(self._credential, text)
        if outcome.refused:
            log.warning("%s", outcome.refused)
        if outcome.rotated:
            log.info("the token file holds a new secret: using it")
            self._credential = outcome.credential
            self._rotated.set()
        return outcome.rotated

    async def watch(self) -> None:
        """Act on :meth:`suspect` until cancelled."""
        while True:
            await self._suspected.wait()
            self._suspected = trio.Event()
            await self.reload()
            await trio.sleep(FILE_LOOK_S)  # a burst of rejected calls is one look

    async def wait_rotated(self) -> None:
        """Return once the secret was swapped, here or by :meth:`watch`."""
        self._rotated = trio.Event()
        while self.token_file is not None:
            with trio.move_on_after(FILE_LOOK_S):
                await self._rotated.wait()
                return
            if await trio.to_thread.run_sync(_stamp, self.token_file) != self._stamp:
                await self.reload()
        await self._rotated.wait()


def _read(path: Path) -> tuple[tuple[int, int] | None, str | None]:
    """The file's stamp and its text, read once; a file that cannot be read tells nothing."""
    try:
        return _stamp(path), path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return _stamp(path), None


def _stamp(path: Path | None) -> tuple[int, int] | None:
    try:
        found = path.stat() if path else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ino) if found else None
