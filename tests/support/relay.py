"""The embedded relay for a test: on a free port, in a folder of the test, with one room ready."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import trio

from agentconnect.embedded.faults import Faults
from agentconnect.embedded.local import EmbeddedRelay, LocalSetup
from agentconnect.embedded.server import open_embedded
from agentconnect.embedded.timing import Timing


class Clock:
    """A wall clock that only moves when it is told to."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def forward(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


class Relay:
    """A running relay with its first owner, room and agent, and calls as that agent's worker."""

    def __init__(
        self, relay: EmbeddedRelay, setup: LocalSetup, faults: Faults, client: httpx.AsyncClient
    ) -> None:
        self.relay = relay
        self.setup = setup
        self.faults = faults
        self.client = client

    @property
    def base(self) -> str:
        """The gateway URL."""
        return self.relay.base

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.base.split(":")[2].split("/")[0])

    @property
    def token(self) -> str:
        """The agent's onboarding token."""
        return self.setup.agent_token

    @property
    def secret(self) -> str:
        """The bearer inside it."""
        return self.token.partition("|")[2]

    @property
    def room(self) -> str:
        """The first room."""
        return self.setup.room_id

    @property
    def owner(self) -> str:
        """The person who owns the agent."""
        return self.setup.owner_id

    @property
    def agent(self) -> str:
        """The agent identity."""
        return self.setup.agent_id

    async def say(self, body: str, *, sender: str = "", room: str = "") -> str:
        """Post as the owner or another member; the event's id."""
        return await self.relay.post(room or self.room, sender or self.owner, body)

    async def call(
        self, method: str, path: str, json: object = None, *, secret: str = "", **options: Any
    ) -> httpx.Response:
        """One call of a worker."""
        headers = {"authorization": f"Bearer {secret or self.secret}", **options.pop("headers", {})}
        if json is not None:
            options["json"] = json
        return await self.client.request(method, self.base + path, headers=headers, **options)

    async def poll(self, wait: float = 0, *, secret: str = "") -> list[dict[str, Any]]:
        """Take tasks."""
        answer = await self.call("GET", f"/v1/tasks?wait={wait}", secret=secret)
        assert answer.status_code == 200, answer.text
        tasks: list[dict[str, Any]] = answer.json()["tasks"]
        return tasks

    async def ack(self, task_id: str) -> httpx.Response:
        """Acknowledge a task."""
        return await self.call("POST", f"/v1/tasks/{task_id}/ack", {"id": task_id})

    async def complete(self, task_id: str, body: str) -> httpx.Response:
        """Answer a task."""
        return await self.call("POST", "/v1/results", {"id": task_id, "body": body})

    async def op(self, op: str, **members: object) -> httpx.Response:
        """One room op, in the first room unless told otherwise."""
        return await self.call("POST", "/v1/room", {"op": op, "room_id": self.room, **members})

    @asynccontextmanager
    async def visitor(self, link_token: str = "") -> AsyncIterator[httpx.AsyncClient]:
        """A browser that came in by a link, the owner's unless told otherwise."""
        origin = self.relay.origin
        async with httpx.AsyncClient(base_url=origin, trust_env=False, timeout=60) as browser:
            token = link_token or self.setup.link_token
            answer = await browser.post("/page/login", json={"token": token})
            assert answer.status_code == 200, answer.text
            yield browser

    async def reactions(self, event_id: str) -> list[tuple[str, str]]:
        """The reactions on a message once there is one: an answer may overtake its own ack."""
        with trio.fail_after(60):
            while not (found := await self.relay.reactions(event_id)):
                await trio.sleep(0.01)
        return found

    async def bodies(self, room: str = "") -> list[str]:
        """What a room reads now."""
        return [m.body for m in await self.relay.messages(room or self.room)]


@asynccontextmanager
async def running_relay(
    state_dir: Path,
    *,
    timing: Timing | None = None,
    faults: Faults | None = None,
    port: int = 0,
    agent: str = "Helper",
    owner: str = "Olivia",
    setup: LocalSetup | None = None,
    **options: Any,
) -> AsyncIterator[Relay]:
    """Run a relay in ``state_dir`` while the block runs.

    ``setup`` is that of an earlier run on the folder: its secrets are kept.
    """
    planned = faults or Faults()
    async with (
        open_embedded(state_dir, port=port, timing=timing, faults=planned, **options) as relay,
        httpx.AsyncClient(trust_env=False, timeout=60) as client,
    ):
        made = setup or await relay.ensure_local(agent, owner)
        yield Relay(relay, made, planned, client)
