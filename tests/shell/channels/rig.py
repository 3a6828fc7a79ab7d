"""Workers as the daemon runs them: a manager, and real channel workers as its children."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import trio

from agentconnect.channels.link import Process, spawner
from agentconnect.channels.manager import ChannelWorkers, Pace
from agentconnect.core.channels.ipc import Channel
from agentconnect.core.daemon.host import WorkerRequest
from tests.support.raw_server import OK, Peer, RawServer

SECRET = "planted-webhook-secret"
TEXT = "planted words of a message"
TARGET = "planted-target-id"

QUICK = Pace(backoff_s=0.05, drain_s=20.0, end_s=20.0)


class Slow:
    """A provider that answers when it is told to."""

    def __init__(self) -> None:
        self.open = trio.Event()
        self.asked = 0

    async def __call__(self, server: RawServer, peer: Peer) -> None:
        while (request := await peer.request())[0]:
            self.asked += 1
            server.note(request)
            await self.open.wait()
            await peer.send(OK)


def hook(port: int, path: str = "in") -> Channel:
    """A signed webhook of that server."""
    url = f"http://127.0.0.1:{port}/{path}"
    return Channel(type="webhook", options={"url": url}, secrets={"secret": SECRET})


def request(
    name: str = "d-1", channel: str = "ops", text: str = TEXT, target: str = TARGET
) -> WorkerRequest:
    """What the daemon hands over."""
    return WorkerRequest(
        delivery_id=name, channel_name=channel, target_type="chat", target_id=target, text=text
    )


class Rig:
    """The manager, and the processes it has started."""

    def __init__(self, workers: ChannelWorkers, children: list[Process]) -> None:
        self.workers = workers
        self.children = children

    async def until(self, workspace: str, state: str) -> None:
        """Wait until that worker is so."""
        with trio.fail_after(60):
            while self.state(workspace) != state:
                await trio.sleep(0.01)

    def state(self, workspace: str) -> object:
        return self.block(workspace)["state"]

    def block(self, workspace: str) -> dict[str, object]:
        found = self.workers.status()[workspace]
        assert isinstance(found, dict)
        return found


@asynccontextmanager
async def managed(
    workspaces: Mapping[str, Mapping[str, Channel]], pace: Pace = QUICK
) -> AsyncIterator[Rig]:
    """Real workers, ready."""
    children: list[Process] = []
    with spawner(os.environ) as spawn:

        async def noted() -> Process:
            children.append(await spawn())
            return children[-1]

        workers = ChannelWorkers(workspaces, noted, pace=pace)
        async with trio.open_nursery() as standing:
            await standing.start(workers.run)
            await workers.settled()
            yield Rig(workers, children)
            await workers.stop()
            standing.cancel_scope.cancel()
