"""A whole worker with its API on: relay, scripted agents, webhook channels that are seen."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from tests.support.http_client import Reply, call, event_stream
from tests.support.raw_server import OK, Peer, RawServer, raw_server
from tests.support.relay import running_relay
from tests.support.worker import Worker, running_worker, until

FAKE_AGENT = Path(__file__).parents[2] / "support" / "fake_agent.py"
SECRET = "planted-webhook-secret"
TOKEN = "planted-daemon-token"
TARGET_ID = "planted-target-id"
TEXT = "planted words of a message"


def delivery(channel: str = "ops") -> dict[str, Any]:
    """Where everything here goes."""
    target = {"channelName": channel, "type": "chat", "id": TARGET_ID}
    return {"kind": "channel", "target": target}


class Provider:
    """What stands behind the channels: it keeps what comes, and answers when it may."""

    def __init__(self) -> None:
        self.open = trio.Event()
        self.open.set()
        self.got: list[tuple[str, dict[str, Any]]] = []

    async def __call__(self, server: RawServer, peer: Peer) -> None:
        while (request := await peer.request())[0]:
            path = request[0].split()[1].decode()
            self.got.append((path, json.loads(request[1])))
            await self.open.wait()
            await peer.send(b"HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n" if "no" in path else OK)

    @property
    def texts(self) -> list[str]:
        return [body["text"] for _, body in self.got]


class Stage:
    """The worker, called as a program would."""

    def __init__(self, worker: Worker, provider: Provider, folder: Path) -> None:
        self.worker = worker
        self.provider = provider
        self.folder = folder

    @property
    def port(self) -> int:
        return int(self.worker.status["daemon"]["listen"].rpartition(":")[2])

    @property
    def headers(self) -> dict[str, str]:
        return {"Host": f"127.0.0.1:{self.port}", "Authorization": f"Bearer {TOKEN}"}

    def block(self, workspace: str = "main") -> dict[str, Any]:
        """How its channel worker stands, by the status file."""
        blocks = self.worker.status.get("channels", {}).get("workspaces", {})
        found: dict[str, Any] = blocks.get(workspace, {})
        return found

    async def call(self, method: str, path: str, body: object = None) -> Reply:
        data = None if body is None else json.dumps(body).encode()
        return await call(self.port, method, path, self.headers, data)

    async def notify(self, text: str = TEXT, channel: str = "ops", where: str = "") -> Reply:
        path = f"/workspaces/{where}/notify" if where else "/workspace/notify"
        return await self.call("POST", path, {"text": text, "delivery": delivery(channel)})

    async def session(self) -> str:
        reply = await self.call("POST", "/session", {})
        assert 201 == reply.status, reply.body
        return str(reply.json["sessionId"])

    async def prompt(self, session: str, script: str, *, deliver: bool = True) -> dict[str, Any]:
        """Queue a prompt; ``script`` is what the agent does."""
        body: dict[str, Any] = {"prompt": [{"type": "text", "text": script}]}
        if deliver:
            body["delivery"] = delivery()
        reply = await self.call("POST", f"/session/{session}/prompt", body)
        assert 202 == reply.status, reply.body
        found: dict[str, Any] = reply.json
        return found

    async def events(self, session: str, count: int, after: int = 0) -> list[dict[str, Any]]:
        headers = {**self.headers, "Last-Event-ID": str(after)}
        async with event_stream(self.port, f"/session/{session}/events", headers) as stream:
            return [await stream.next(30) for _ in range(count)]


def agent_command(folder: Path, **options: object) -> str:
    """The scripted agent."""
    said = json.dumps({"state": str(folder / "agent.json"), "load": True} | options)
    return f"{sys.executable} {FAKE_AGENT} '{said}'"


def write_channels(folder: Path, port: int) -> None:
    """Channels of the same names in two workspaces, each with an address of its own."""
    state = folder / "workspace"
    secret = folder / "secret"
    secret.write_text(SECRET)
    (folder / "site").mkdir(exist_ok=True)
    for name in ("main", "site"):
        place = state / "workspaces" / name
        place.mkdir(parents=True, exist_ok=True)
        made = {
            channel: {
                "type": "webhook",
                "url": f"http://127.0.0.1:{port}/{name}-{path}",
                "secret_file": str(secret),
            }
            for channel, path in (("ops", "in"), ("strict", "no"))
        }
        where = {"default": {"type": "chat", "id": TARGET_ID}}
        hooks = {"ci": {"secret_file": str(secret), "target": where}}
        made["ops"]["webhooks"] = hooks  # type: ignore[assignment]
        file = place / "channels.json"
        file.write_text(json.dumps({"v": 1, "channels": made}))
        file.chmod(0o600)
    known = {"id": "site", "cwd": str(folder / "site"), "trusted": True}
    (state / "workspaces.json").write_text(json.dumps({"v": 1, "workspaces": [known]}))
    (state / "workspaces.json").chmod(0o600)


@asynccontextmanager
async def staged(folder: Path, **settings: str) -> AsyncIterator[Stage]:
    """All of it, ready to deliver."""
    provider = Provider()
    async with running_relay(folder / "relay") as relay, raw_server(provider) as server:
        write_channels(folder, server.port)
        async with served(folder, relay.token, provider, **settings) as stage:
            yield stage


@asynccontextmanager
async def served(
    folder: Path, token: str, provider: Provider, **settings: str
) -> AsyncIterator[Stage]:
    """A worker of that folder."""
    options = {
        "AGENT_CONNECT_ACP_COMMAND": agent_command(folder),
        "AGENT_CONNECT_DAEMON_LISTEN": "127.0.0.1:0",
        "AGENT_CONNECT_DAEMON_TOKEN": TOKEN,
        **settings,
    }
    async with running_worker(token, folder, **options) as worker:
        stage = Stage(worker, provider, folder)
        await until(
            lambda: stage.block().get("state") == stage.block("site").get("state") == "running",
            f"running channel workers: {worker.output()}",
        )
        yield stage
