"""A loopback server that speaks as much of ollama's API as the adapter uses."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import trio

from tests.support.raw_server import Peer, RawServer, raw_server


@dataclass
class OllamaDouble:
    """What it will say to ``/api/generate``, which models it has, and what it was asked."""

    server: RawServer = field(default_factory=RawServer)
    models: list[str] = field(default_factory=lambda: ["m:latest"])
    tags_status: int = 200
    tags_body: bytes | None = None
    status: int = 200
    body: bytes = b'{"response": "hello"}'
    hang: bool = False
    hung_up: trio.Event = field(default_factory=trio.Event)

    @property
    def host(self) -> str:
        """Its address, as OLLAMA_HOST would have it."""
        return f"http://127.0.0.1:{self.server.port}"

    @property
    def asked(self) -> dict[str, Any]:
        """The body of the last question."""
        found: dict[str, Any] = json.loads(self.server.seen[-1][1])
        return found

    @property
    def heads(self) -> list[str]:
        """The request lines so far."""
        return [head.split(b"\r\n")[0].decode() for head, _ in self.server.seen]

    def answers(self, status: int, content: object) -> None:
        """The next answers to a question."""
        self.status = status
        self.body = content if isinstance(content, bytes) else json.dumps(content).encode()

    async def script(self, server: RawServer, peer: Peer) -> None:
        """One connection."""
        while (request := await peer.request())[0]:
            server.note(request)
            if b" /api/tags " in request[0]:
                models = [{"name": name, "model": name} for name in self.models]
                body = self.tags_body
                await _send(
                    peer,
                    self.tags_status,
                    json.dumps({"models": models}).encode() if body is None else body,
                )
            elif self.hang:
                await peer.stream.receive_some(1)
                self.hung_up.set()
                return
            else:
                await _send(peer, self.status, self.body)


async def _send(peer: Peer, status: int, body: bytes) -> None:
    head = f"HTTP/1.1 {status} Words\r\nContent-Type: application/json\r\n"
    await peer.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)


@asynccontextmanager
async def ollama_double() -> AsyncIterator[OllamaDouble]:
    """Run one."""
    double = OllamaDouble()
    async with raw_server(double.script) as server:
        double.server = server
        yield double
