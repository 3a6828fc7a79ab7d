"""The bearer in use, and what to do when the relay rejects it (relay-wire.md §2.4, §16).

Only an answer to the poll decides (``core/relay/cadence``). A 401 anywhere else asks for a look at
the token file at once. A rejected poll is repeated soon, since an edge in front of the relay may
answer 401 or 403 for a moment. The token file is looked at every two seconds, so that a rotation
reaches every caller without a restart; a move to another gateway never does.
"""

import logging
from collections.abc import Callable
from pathlib import Path

import trio

from agentconnect.core.relay import credential as rules
from agentconnect.core.relay.credential import Credential

log = logging.getLogger("agentconnect.relay")

FILE_LOOK_S = 2.0
Stamp = tuple[int, int, int]
"""Change time, inode, size: an editor replaces a file, a script writes it in place."""


class Bearer:
    """The credential as it is now; every request asks for the secret anew."""

    def __init__(
        self,
        credential: Credential,
        token_file: Path | None,
        *,
        on_rotated: Callable[[str], None] = lambda secret: None,
    ) -> None:
        self.token_file = token_file
        self.rotations = 0
        self._credential = credential
        self._on_rotated = on_rotated
        self._stamp: Stamp | None = None
        self._refused = ""
        self._suspected = trio.Event()
        self._news = trio.Event()
        self._rotated = trio.Event()

    @property
    def credential(self) -> Credential:
        return self._credential

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
        if outcome.refused and outcome.refused != self._refused:
            log.warning("%s", outcome.refused)
        self._refused = outcome.refused
        if outcome.rotated:
            self._credential = outcome.credential
            self._on_rotated(self.secret())
            log.info("the token file holds a new secret: using it")
            self.rotations += 1
            self._rotated.set()
            self._news.set()
        return outcome.rotated

    async def watch(self) -> None:
        """Act on :meth:`suspect` and on each change of the token file, until cancelled."""
        if self.token_file is not None:
            await self.reload()  # it may have changed since the settings were read
        while True:
            with trio.move_on_after(FILE_LOOK_S if self.token_file else float("inf")):
                await self._suspected.wait()
            if self._suspected.is_set():
                self._suspected = trio.Event()
                await self.reload()
                self._news.set()
                await trio.sleep(FILE_LOOK_S)  # a burst of rejected calls is one look
            elif await trio.to_thread.run_sync(_stamp, self.token_file) != self._stamp:
                await self.reload()

    async def wait_rotated(self) -> None:
        """Return once the secret was swapped."""
        self._rotated = trio.Event()
        await self._rotated.wait()

    async def wait_news(self) -> None:
        """Return once the secret was swapped, or a call other than the poll was answered 401."""
        self._news = trio.Event()
        await self._news.wait()


def _read(path: Path) -> tuple[Stamp | None, str | None]:
    """The file's stamp, taken first, and its text; a file that cannot be read tells nothing."""
    stamp = _stamp(path)
    try:
        return stamp, path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return stamp, None


def _stamp(path: Path | None) -> Stamp | None:
    try:
        found = path.stat() if path else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ino, found.st_size) if found else None
