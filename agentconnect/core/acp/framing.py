"""Newline-delimited JSON over a byte stream, without the stream (acp.md §2).

Owns the split into lines: on ``\\n`` only, with the search position remembered, so that one line of
many megabytes costs linear time. A line over the limit ends the connection; nothing is ever cut.
"""

from agentconnect.core.errors import PeerError

MAX_LINE_BYTES = 64 * 1024 * 1024
"""One embedded 24 MiB image is about 34 MB of base64, so this leaves room (worker.md §8.2)."""


class LineTooLongError(PeerError):
    """The peer wrote a line over the limit: that connection ends, the room reads the sentence."""


class LineReader:
    """Feeds on byte blocks and gives back whole lines, blank ones left out."""

    def __init__(self, limit_bytes: int = MAX_LINE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._pending = bytearray()

    def feed(self, block: bytes | bytearray) -> list[bytes]:
        """The lines that ``block`` completes.

        Raises: LineTooLongError when a line, finished or not, is over the limit.
        """
        newline = block.rfind(b"\n")  # only the new part is searched
        if newline < 0:
            self._pending += block
            self._check(len(self._pending))
            return []
        self._pending += block[:newline]
        lines = bytes(self._pending).split(b"\n")
        self._pending = bytearray(block[newline + 1 :])
        # only the first and the unfinished line can be longer than one block
        self._check(max(len(lines[0]), len(self._pending)))
        return [clean for line in lines if (clean := line.rstrip(b"\r")).strip()]

    def finish(self) -> bytes | None:
        """The last line when the stream ended without a newline behind it."""
        rest = bytes(self._pending).rstrip(b"\r")
        self._pending = bytearray()
        return rest if rest.strip() else None

    def _check(self, size_bytes: int) -> None:
        if size_bytes > self._limit_bytes:
            self._pending = bytearray()
            raise LineTooLongError(
                f"the agent sent one message of more than {self._limit_bytes // (1024 * 1024)} MiB"
            )
