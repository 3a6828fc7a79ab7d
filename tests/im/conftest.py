"""A homeserver of the run's own, and two kinds of people on it: the bot, and who reads."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.im.environment import synapse_python
from tests.support import synapse_up
from tests.support.synapse_up import Synapse, http

_NGIRCD = shutil.which("ngircd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


class Person:
    """One account, asked over the client API as any client would."""

    def __init__(self, server: Synapse, account: dict[str, Any]) -> None:
        self._server = server
        self.id: str = account["user_id"]
        self.name = self.id[1:].partition(":")[0]
        self.token: str = account["access_token"]
        self.password: str = account["password"]

    async def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """One request that has to succeed."""
        status, answer = await self.attempt(method, path, body)
        assert status == 200, answer
        return answer

    async def attempt(
        self, method: str, path: str, body: object = None
    ) -> tuple[int, dict[str, Any]]:
        url = f"{self._server.base_url}/_matrix/client/v3/{path}"
        return await trio.to_thread.run_sync(http, method, url, body, self.token)

    async def room(self, *invited: "Person", **more: object) -> str:
        """A new room, joined by all."""
        body = {"preset": "private_chat", "invite": [one.id for one in invited], **more}
        room: str = (await self.call("POST", "createRoom", body))["room_id"]
        for one in invited:
            await one.call("POST", f"rooms/{room}/join", {})
        return room

    async def texts(self, room: str) -> list[dict[str, Any]]:
        """The contents of the messages of a room, oldest first."""
        found = await self.call("GET", f"rooms/{room}/messages?dir=b&limit=100")
        events = [event for event in found["chunk"] if event["type"] == "m.room.message"]
        return [event["content"] for event in reversed(events)]


class House:
    """The server, and accounts on it."""

    def __init__(self, server: Synapse) -> None:
        self.server = server
        self._count = 0

    @property
    def url(self) -> str:
        return self.server.base_url

    def person(self, name: str) -> Person:
        """A new account whose name begins so."""
        self._count += 1
        return Person(self.server, self.server.register(f"{name}{self._count}"))


@pytest.fixture(scope="session")
def synapse() -> Path:
    """The interpreter that has Synapse."""
    return synapse_python()


@pytest.fixture(scope="session")
def house(synapse: Path) -> Iterator[House]:
    """A server without rate limits, for the whole run."""
    with Synapse(python=str(synapse)) as server:
        yield House(server)


@pytest.fixture
def strict_house(synapse: Path) -> Iterator[House]:
    """A server with its own rate limits."""
    with Synapse(python=str(synapse), rate_limits=True) as server:
        yield House(server)


@pytest.fixture
def ngircd(tmp_path: Path, free_port: int) -> Iterator[int]:
    """The port of an IRC server of the test's own; skips where none is installed."""
    if _NGIRCD is None:
        pytest.skip("ngircd is not installed")
    settings = tmp_path / "ngircd.conf"
    settings.write_text(
        f"[Global]\nName = irc.test.invalid\nListen = 127.0.0.1\nPorts = {free_port}\n"
        "[Options]\nDNS = no\nIdent = no\nPAM = no\n[Limits]\nMaxConnectionsIP = 0\n"
    )
    server = subprocess.Popen(
        [_NGIRCD, "-n", "-f", str(settings)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield free_port
    finally:
        server.terminate()
        server.wait(10)


@pytest.fixture
def free_port() -> int:
    """A port of loopback that nobody had a moment ago."""
    return int(synapse_up.free_port())
