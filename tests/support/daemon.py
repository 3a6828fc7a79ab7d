"""The daemon over real HTTP, its channels and agents scripted."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

import msgspec
import trio

from agentconnect.channels.file import Channels as ChannelsFile
from agentconnect.core.daemon.cron import Zone
from agentconnect.core.daemon.host import WorkerRequest
from agentconnect.core.daemon.workspaces import Workspace
from agentconnect.core.destination import Code
from agentconnect.daemon.daemon import Daemon, Telling
from agentconnect.daemon.ports import Channels, Hear
from agentconnect.daemon.session import Pace
from agentconnect.daemon.setup import DaemonParts, Listen
from agentconnect.store.layout import Layout
from tests.support.http_client import EventStream, Reply, call, event_stream

TOKEN = "tok"
TARGET = {"channelName": "ops-matrix", "type": "chat", "id": "!room1:localhost"}
DELIVERY = {"kind": "channel", "target": TARGET}
NOTIFY = {"text": "alert", "delivery": DELIVERY}
BODIES: dict[str, Any] = {
    **NOTIFY,
    "cwd": "side",
    "prompt": [{"type": "text", "text": "hi"}],
    "cron": "0 9 * * *",
    "name": "x",
    "recurring": True,
    "enabled": False,
    "eventType": "build",
    "targetRef": "team",
    "title": "x",
    "payload": {},
}
"""A good value of each field of the API."""


class Attempt(msgspec.Struct):
    code: Code | None = None


_CODES = {
    "ok": None,
    "timeout": Code.TIMEOUT,
    "exit": Code.UNAVAILABLE,
    "reject": Code.REJECTED,
    "fail": Code.FAILED,
}


class FakeChannels:
    """Channel workers by workspace, each in a state of the case file's words."""

    def __init__(self) -> None:
        self.workers: dict[str, str] = {}
        self.default = "ok"
        self.sent: list[tuple[str, WorkerRequest, str]] = []
        self.empty: list[str] = []
        self.gate = trio.Event()
        self.gate.set()
        self.ready = trio.Event()
        self.ready.set()
        self.finished = 0
        self._nursery: trio.Nursery | None = None

    async def deliver(self, workspace: str, wanted: WorkerRequest, *, source: str) -> Attempt:
        state = self.workers.get(workspace, self.default)
        if state == "full":
            return Attempt(code=Code.QUEUE_FULL)
        if state not in _CODES:
            return Attempt(code=Code.UNAVAILABLE)
        assert self._nursery is not None
        done, code = trio.Event(), _CODES[state]
        self.sent.append((workspace, wanted, source))
        self._nursery.start_soon(self._attempt, done)
        await done.wait()
        return Attempt(code=code)

    async def _attempt(self, done: trio.Event) -> None:
        await self.gate.wait()
        self.finished += 1
        done.set()

    async def settled(self) -> None:
        await self.ready.wait()

    def skipped(self, workspace: str) -> None:
        self.empty.append(workspace)

    def refusal(self, workspace: str) -> Code | None:
        good = self.workers.get(workspace, self.default) in _CODES
        return None if good else Code.UNAVAILABLE

    def status(self) -> Mapping[str, object]:
        return {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await trio.sleep_forever()

    async def stop(self) -> None:
        with trio.move_on_after(2):
            while self.finished < len(self.sent):
                await trio.sleep(0.01)


class End(msgspec.Struct):
    stop_reason: str
    interrupted: bool = False


Script = Callable[["FakeTalk", str, Callable[[dict[str, Any]], None]], Awaitable[str]]


async def echo(_talk: "FakeTalk", text: str, tell: Callable[[dict[str, Any]], None]) -> str:
    """Say what was asked."""
    tell(said(f"You said: {text}"))
    return "end_turn"


def said(text: str) -> dict[str, Any]:
    """A chunk of an answer."""
    return {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}


class FakeTalk:
    """One conversation; ``script`` is the agent."""

    def __init__(self, bridge: "FakeBridge", session_id: str) -> None:
        self.bridge = bridge
        self.id = session_id
        self.stopped = trio.Event()
        self.retired = False
        self.prompts: list[tuple[tuple[dict[str, Any], ...], dict[str, Any]]] = []
        self.heard = False

    async def open(self) -> bool:
        return self.bridge.opens

    async def prompt(
        self, blocks: tuple[dict[str, Any], ...], meta: dict[str, Any], hear: Hear | None
    ) -> End:
        self.stopped = trio.Event()
        self.prompts.append((blocks, meta))
        self.heard = hear is not None

        def tell(update: dict[str, Any]) -> None:
            if hear is not None:
                hear(msgspec.Raw(msgspec.json.encode(update)))

        text = "".join(str(block.get("text", "")) for block in blocks)
        reason = await self.bridge.script(self, text, tell)
        return End(reason, self.stopped.is_set())

    async def interrupt(self) -> None:
        self.stopped.set()

    async def kill(self) -> None:
        self.stopped.set()

    async def retire(self) -> None:
        self.retired = True


class FakeBridge:
    """The conversations of one workspace."""

    def __init__(self) -> None:
        self.script: Script = echo
        self.opens = True
        self.talks: dict[str, FakeTalk] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        await trio.sleep_forever()

    def session(self, session_id: str) -> FakeTalk:
        self.talks[session_id] = FakeTalk(self, session_id)
        return self.talks[session_id]


class Api:
    """A running daemon."""

    def __init__(
        self, daemon: Daemon, channels: FakeChannels, bridges: dict[str, FakeBridge], where: Layout
    ) -> None:
        self.daemon = daemon
        self.channels = channels
        self.bridges = bridges
        self.where = where
        self.intake = trio.CancelScope()

    @property
    def port(self) -> int:
        return int(self.daemon.address.rpartition(":")[2])

    @property
    def headers(self) -> dict[str, str]:
        return {"Host": f"127.0.0.1:{self.port}", "Authorization": f"Bearer {TOKEN}"}

    @property
    def agent(self) -> FakeBridge:
        """The primary workspace's."""
        return self.bridges["main"]

    async def call(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """One request; ``body`` as JSON, bytes as they are."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        data = None if body is None else raw
        with trio.fail_after(60):
            return await call(self.port, method, path, {**self.headers, **(headers or {})}, data)

    async def session(self, body: object = None) -> str:
        """Open a session."""
        reply = await self.call("POST", "/session", body or {})
        assert 201 == reply.status, reply.body
        return str(reply.json["sessionId"])

    async def prompt(self, session: str, text: str, **more: object) -> dict[str, Any]:
        """Queue a prompt."""
        body = {"prompt": [{"type": "text", "text": text}], **more}
        reply = await self.call("POST", f"/session/{session}/prompt", body)
        assert 202 == reply.status, reply.body
        found: dict[str, Any] = reply.json
        return found

    def events(self, session: str, after: int | None = 0) -> Any:
        """An event stream, replayed from after ``after``."""
        known = {} if after is None else {"Last-Event-ID": str(after)}
        return event_stream(self.port, f"/session/{session}/events", {**self.headers, **known})

    async def collected_when_open(self, session: str, count: int) -> list[dict[str, Any]]:
        """As :meth:`collected`, of a session that is yet to be opened."""
        while 404 == (await self.call("POST", f"/session/{session}/cancel")).status:
            await trio.sleep(0.01)
        return await self.collected(session, count)

    async def collected(self, session: str, count: int) -> list[dict[str, Any]]:
        """The first events of a session."""
        stream: EventStream
        async with self.events(session) as stream:
            return [await stream.next() for _ in range(count)]


def workspaces(folder: Path) -> tuple[Workspace, ...]:
    """``main``, ``side`` and ``dark``, which is not trusted."""
    found = []
    for name in ("main", "side", "dark"):
        (folder / name).mkdir(exist_ok=True)
        found.append(
            Workspace(
                id=name,
                cwd=str((folder / name).resolve()),
                trusted=name != "dark",
                primary=name == "main",
            )
        )
    return tuple(found)


@asynccontextmanager
async def running(
    folder: Path,
    *,
    origins: frozenset[str] = frozenset(),
    sessions: bool = True,
    channels: FakeChannels | None = None,
    workers: Channels | None = None,
    files: Mapping[str, ChannelsFile] | None = None,
    pace: Pace = Pace(turn_timeout_s=0.0, cancel_grace_s=1.0),  # noqa: B008 - frozen
    zone: Zone = UTC,
    now: Callable[[], int] | None = None,
    problems: list[str] | None = None,
    wait_s: float = 30,
) -> AsyncIterator[Api]:
    """The daemon in a tree as the worker's, on a free port; ``workers`` in place of fakes."""
    parts = DaemonParts(
        listen=Listen(text="127.0.0.1:0", host="127.0.0.1", port=0, loopback=True),
        token=TOKEN,
        origins=origins,
        workspaces=workspaces(folder),
        channels=files or {},
        problems=(),
    )
    where = Layout(state_dir=folder / "state")
    where.prepare()
    fake = channels or FakeChannels()
    bridges = {"main": FakeBridge(), "side": FakeBridge()} if sessions else {}
    told = problems if problems is not None else []
    clock = {} if now is None else {"now": now}
    daemon = Daemon(
        parts,
        workers or fake,
        bridges,
        where,
        zone=zone,
        pace=pace,
        telling=Telling(problem=lambda sentence, _about: told.append(sentence)),
        **clock,
    )
    api = Api(daemon, fake, bridges, where)

    async def intake() -> None:
        with api.intake:
            await daemon.listen()

    with trio.fail_after(wait_s):
        async with trio.open_nursery() as work:
            await work.start(daemon.run)
            work.start_soon(intake)
            yield api
            api.intake.cancel()
            await daemon.stop(2.0)


async def until(check: Callable[[], bool], limit_s: float = 60.0) -> None:
    """Wait for a state."""
    with trio.fail_after(limit_s):
        while not check():
            await trio.sleep(0.01)
