"""The one kind of request body that httpx is given: bytes that are all there.

httpx's own is a generator; a request that fails midway leaves it half read, and Trio complains.
"""

from typing import Self

import httpx


class Body(httpx.AsyncByteStream):
    """``content`` as one block; may be read again from its start."""

    def __init__(self, content: bytes = b"") -> None:
        self.content = content
        self._read = False

    def __aiter__(self) -> Self:
        self._read = False
        return self

    async def __anext__(self) -> bytes:
        if self._read or not self.content:
            raise StopAsyncIteration
        self._read = True
        return self.content
