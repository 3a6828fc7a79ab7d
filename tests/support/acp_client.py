"""A small ACP client for tests: one child process, newline-delimited JSON-RPC, every line kept.

Independent of the product's own client on purpose, so that the two can be compared.
"""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

Json = dict[str, Any]
_NOT_FOUND: Json = {"error": {"code": -32601, "message": "Method not found"}}
Choose = Callable[[Json], str | None]
"""Given a permission request's params: the id of the option to choose; None is "cancelled"."""

Extend = Callable[[Json], Json | None]


def choose_kind(kind: str) -> Choose:
    """Choose the first option of a kind."""

    def choose(params: Json) -> str | None:
        return next((str(o["optionId"]) for o in params["options"] if o["kind"] == kind), None)

    return choose


class RpcError(Exception):
    """The agent answered with an error object."""

    def __init__(self, error: Json) -> None:
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.code = error.get("code")
        self.data = error.get("data")


@dataclass
class Heard:
    """What one turn said, sorted."""

    stop: str = ""
    text: str = ""
    updates: list[Json] = field(default_factory=list)

    def steps(self) -> list[Json]:
        """Each tool call with everything that is known of it at the end, in order."""
        calls: dict[str, Json] = {}
        for update in self.updates:
            if update["sessionUpdate"] in {"tool_call", "tool_call_update"}:
                calls.setdefault(update["toolCallId"], {}).update(update)
        return list(calls.values())


class AcpClient:
    """The client's side of one agent process."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.updates: list[Json] = []
        self.asked: list[Json] = []
        self.choose: Choose | None = choose_kind("allow_once")
        """None: permission requests are left unanswered."""
        self.on_update: Callable[[Json], None] = lambda _: None
        self.greeted = False
        """The first of our requests, the handshake, was answered."""
        self.extensions: list[Json] = []
        """Extension requests of the agent, as they came."""
        self.extend: Extend = lambda _: dict(_NOT_FOUND)
        """Answers them with ``result`` or ``error``; None: never."""
        self._next = 0
        self._answers: dict[int, Json] = {}
        self._news = trio.Event()
        self._writing = trio.Lock()
        self.ended = trio.Event()

    async def read(self) -> None:
        """Handle every line until the agent closes its output."""
        assert self.process.stdout is not None
        buffer = bytearray()
        async for piece in self.process.stdout:
            buffer += piece
            *lines, rest = bytes(buffer).split(b"\n")
            buffer = bytearray(rest)
            for line in lines:
                await self._handle(json.loads(line))
        self.ended.set()
        self._tell()

    async def request(self, method: str, params: Json) -> Any:
        """The result. Raises: RpcError; EOFError when the agent is gone."""
        number = await self.start(method, params)
        return await self.answer(number)

    async def start(self, method: str, params: Json) -> int:
        """Write a request; :meth:`answer` waits for its result."""
        self._next += 1
        number = self._next
        await self._write({"id": number, "method": method, "params": params})
        return number

    async def answer(self, number: int) -> Any:
        """The result of a started request."""
        await self.until(lambda: number in self._answers)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    async def notify(self, method: str, params: Json) -> None:
        """Write a notification."""
        await self._write({"method": method, "params": params})

    async def until(self, ready: Callable[[], bool]) -> None:
        """Wait until something that arrived makes ``ready`` true. Raises: EOFError."""
        while not ready():
            if self.ended.is_set():
                raise EOFError("the agent closed its output")
            await self._news.wait()

    async def initialize(self, declare: Json | None = None) -> Json:
        """The handshake; ``declare`` is the ``_meta`` of our capabilities."""
        capabilities = {} if declare is None else {"_meta": declare}
        params = {"protocolVersion": 1, "clientCapabilities": capabilities}
        result: Json = await self.request("initialize", params)
        return result

    async def new(self, cwd: Path) -> str:
        """A new session's id."""
        result = await self.request("session/new", {"cwd": str(cwd), "mcpServers": []})
        return str(result["sessionId"])

    async def turn(self, session: str, *blocks: str | Json, meta: Json | None = None) -> Heard:
        """One whole turn."""
        return await self.finish(await self.start_turn(session, *blocks, meta=meta))

    async def start_turn(self, session: str, *blocks: str | Json, meta: Json | None = None) -> int:
        """Send a prompt; :meth:`finish` waits for its end."""
        self.updates.clear()
        prompt = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
        params: Json = {"sessionId": session, "prompt": prompt}
        if meta is not None:
            params["_meta"] = meta
        return await self.start("session/prompt", params)

    async def finish(self, number: int) -> Heard:
        """The end of a started turn."""
        result = await self.answer(number)
        return Heard(
            stop=result["stopReason"], text=answer_text(self.updates), updates=list(self.updates)
        )

    async def _handle(self, message: Json) -> None:
        method = message.get("method")
        if method is None:
            self.greeted = True
            self._answers[message["id"]] = message
        elif method == "session/update":
            self.updates.append(message["params"]["update"])
            self.on_update(message["params"]["update"])
        elif method == "session/request_permission":
            self.asked.append(message["params"])
            if self.choose is not None:
                option = self.choose(message["params"])
                outcome: Json = {"outcome": "cancelled"}
                if option is not None:
                    outcome = {"outcome": "selected", "optionId": option}
                await self._write({"id": message["id"], "result": {"outcome": outcome}})
        elif "id" in message:
            self.extensions.append({**message, "early": not self.greeted})
            answer = self.extend(message)
            if answer is not None:
                await self._write({"id": message["id"], **answer})
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = trio.Event()

    async def _write(self, message: Json) -> None:
        assert self.process.stdin is not None
        line = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")) + "\n"
        async with self._writing:
            await self.process.stdin.send_all(line.encode())


def answer_text(updates: Sequence[Json]) -> str:
    """The answer's text pieces, joined."""
    return "".join(
        update["content"]["text"]
        for update in updates
        if update["sessionUpdate"] == "agent_message_chunk" and update["content"]["type"] == "text"
    )


@asynccontextmanager
async def acp_client(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None
) -> AsyncIterator[AcpClient]:
    """An agent process with its reader running; ended at the end, whatever happened."""
    process = await trio.lowlevel.open_process(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        start_new_session=True,
    )
    client = AcpClient(process)
    try:
        async with trio.open_nursery() as reader:
            reader.start_soon(client.read)
            yield client
            reader.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            if process.poll() is None:
                process.kill()
            await process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    await stream.aclose()


@asynccontextmanager
async def demo_client(
    cwd: Path, home: Path, declare: Json | None = None, extend: Extend | None = None
) -> AsyncIterator[AcpClient]:
    """The bundled demonstration agent, initialised; its state lives below ``home``."""
    command = [sys.executable, "-m", "agentconnect.demo"]
    env = {"AGENT_CONNECT_DEMO_HOME": str(home)}
    async with acp_client(command, cwd=cwd, env=env) as client:
        client.extend = extend or client.extend
        await client.initialize(declare)
        yield client
