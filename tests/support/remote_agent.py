"""An ACP agent that is dialled: a WebSocket server of this test's own.

The prompt is the script, as with ``fake_agent``: each line that begins with ``#`` is a directive.
It notes what it was asked, by whom and with which headers.
"""

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
from trio_websocket import (
    ConnectionClosed,
    WebSocketConnection,
    WebSocketRequest,
    serve_websocket,
)

Json = dict[str, Any]

OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


class RemoteAgent:
    """The server's side; sessions live as long as this, whatever connections do."""

    def __init__(self) -> None:
        self.port = 0
        self.bearer = ""
        self.status = 401
        self.cookie = ""
        self.deaf = False
        self.delivers = False
        self.late: list[_Connection] = []
        """Connections whose client takes deliveries."""
        self.deaf_to_close = False
        self.handshakes: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.received: list[Json] = []
        self.frames: list[str] = []
        self.open = 0
        self.sessions: dict[str, list[str]] = {}

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/acp"

    def methods(self) -> list[str]:
        """What was asked, in order."""
        return [message["method"] for message in self.received if "method" in message]

    def sent(self, method: str) -> Json:
        """The params of the last message of this method."""
        found: Json = [m for m in self.received if m.get("method") == method][-1]["params"]
        return found

    async def accept(self, request: WebSocketRequest) -> None:
        """The door: bearer, cookie, then one connection."""
        headers = {name.decode(): value.decode() for name, value in request.headers}
        self.handshakes.append(headers)
        self.paths.append(request.path)
        if self.bearer and headers.get("authorization") != f"Bearer {self.bearer}":
            await request.reject(self.status, body=b"no")
            return
        extra = [(b"Set-Cookie", self.cookie.encode())] if self.cookie else []
        socket = await request.accept(extra_headers=extra)
        self.open += 1
        try:
            await _Connection(self, socket).serve()
        except ConnectionClosed:
            pass
        finally:
            self.open -= 1


class _Connection:
    def __init__(self, agent: RemoteAgent, socket: WebSocketConnection) -> None:
        self.agent = agent
        self.socket = socket
        self.session = ""
        self.asked = 0

    async def serve(self) -> None:
        while True:
            message = await self.read()
            if "id" in message and "method" in message:
                result = await self.answer(message["method"], message["params"])
                await self.write({"jsonrpc": "2.0", "id": message["id"], **result})

    async def read(self) -> Json:
        text = await self.socket.get_message()
        assert isinstance(text, str)
        self.agent.frames.append(text)
        message: Json = json.loads(text)
        self.agent.received.append(message)
        return message

    async def write(self, message: Json) -> None:
        await self.socket.send_message(b"binary frames say nothing")
        await self.socket.send_message(json.dumps(message, indent=2))

    async def update(self, update: Json) -> None:
        params = {"sessionId": self.session, "update": update}
        await self.write({"jsonrpc": "2.0", "method": "session/update", "params": params})

    async def say(self, text: str) -> None:
        block = {"type": "text", "text": text}
        await self.update({"sessionUpdate": "agent_message_chunk", "content": block})

    async def answer(self, method: str, params: Json) -> Json:
        if method == "initialize":
            if "ag2/deliver" in (params.get("_meta") or {}):
                self.agent.late.append(self)
            return {
                "result": {
                    "protocolVersion": 1,
                    "_meta": {"ag2/deliver": self.agent.delivers},
                    "agentCapabilities": {
                        "loadSession": True,
                        "promptCapabilities": {"embeddedContext": True},
                    },
                    "agentInfo": {"name": "remote", "version": "3"},
                }
            }
        if method == "session/new":
            self.session = f"r-{len(self.agent.sessions)}"
            self.agent.sessions[self.session] = []
            return {"result": {"sessionId": self.session}}
        if method == "session/load":
            self.session = params["sessionId"]
            if self.session not in self.agent.sessions:
                return {"error": {"code": -32002, "message": "Resource not found"}}
            for text in self.agent.sessions[self.session]:
                await self.say(f"REPLAYED {text}")
            return {"result": {}}
        if method == "session/prompt":
            return await self.prompt(params["prompt"][0]["text"])
        return {"error": {"code": -32601, "message": "Method not found"}}

    async def prompt(self, text: str) -> Json:
        self.agent.sessions[self.session].append(text)
        for line in text.splitlines():
            if line.startswith("#"):
                name, _, rest = line[1:].partition(" ")
                if await self.step(name, rest) == "cancelled":
                    return {"result": {"stopReason": "cancelled"}}
        return {"result": {"stopReason": "end_turn"}}

    async def step(self, name: str, rest: str) -> str:
        match name:
            case "say":
                await self.say(rest)
            case "history":
                await self.say(f"[turns {len(self.agent.sessions[self.session])}]")
            case "prompt":
                await self.say(self.agent.sessions[self.session][-1].replace("#", "$"))
            case "huge":
                await self.say("y" * int(rest))
            case "link":
                block = {"type": "resource_link", "uri": rest, "name": "it"}
                await self.update({"sessionUpdate": "agent_message_chunk", "content": block})
            case "ask-write":
                await self.ask_write(rest)
            case "drop":
                await self.socket.aclose(1011, "the agent crashed")
            case "hang":
                await self.say("working")
                while (await self.read()).get("method") != "session/cancel":
                    pass
                return "cancelled"
            case "deaf":
                await self.say("working")
                while True:
                    await self.read()
        return ""

    async def ask_write(self, path: str) -> None:
        call = {"toolCallId": f"w{self.asked}", "title": f"Write {path}", "kind": "edit"}
        call_id, self.asked = self.asked, self.asked + 1
        await self.write(
            {
                "jsonrpc": "2.0",
                "id": call_id,
                "method": "session/request_permission",
                "params": {
                    "sessionId": self.session,
                    "toolCall": call | {"locations": [{"path": path}]},
                    "options": OPTIONS,
                },
            }
        )
        outcome = (await self.read())["result"]["outcome"]
        await self.say(f"[{outcome.get('optionId') or outcome['outcome']}]")


@asynccontextmanager
async def remote_agent(tls: ssl.SSLContext | None = None) -> AsyncIterator[RemoteAgent]:
    """One that listens on loopback until the end of the block."""
    agent = RemoteAgent()
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve_websocket, agent.accept, "127.0.0.1", 0, tls)
        agent.port = server.port
        yield agent
        nursery.cancel_scope.cancel()
