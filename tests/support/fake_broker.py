"""A scriptable broker on loopback for the relay client's tests: hostile where told to be.

By default it behaves: queued tasks are served by long poll, acks and results are taken, room ops
make events. ``script`` replaces the next answers of a route. Every request is recorded before it
is answered, so a test waits for what arrived. It speaks raw HTTP/1.1, since it has to break it.
"""

from __future__ import annotations

import hashlib
import json
import socket
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import trio

KEYED = {
    "room_post_idempotency": {
        "header": "Idempotency-Key",
        "ttl_seconds": 86400,
        "routes": ["POST /v1/rooms/{room}/messages", "POST /v1/rooms/{room}/media"],
    }
}
SECRET = "s3cret-bearer"


@dataclass
class Answer:
    """What to answer. ``apply``: do what the route does, but answer this instead."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    """Sent in place of everything."""
    drop: bool = False
    """Close the connection without an answer."""
    apply: bool = False
    delay_s: float = 0.0
    hold: trio.Event | None = None
    """Answer once this is set."""
    drip_s: float = 0.0
    """Send the body a byte at a time with this pause."""


@dataclass
class Request:
    method: str
    path: str
    query: str
    headers: dict[str, str]
    raw: bytes
    route: str
    at: float

    @property
    def body(self) -> Any:
        return json.loads(self.raw) if self.raw else None


class FakeBroker:
    """One identity's broker; ``base`` ends in a path, as a gateway's does."""

    def __init__(self, work: trio.Nursery) -> None:
        self.base = ""
        self.requests: list[Request] = []
        self.messages: dict[str, dict[str, Any]] = {}
        """event id → {room, body, edits}"""
        self.files: list[dict[str, Any]] = []
        self.results: dict[str, dict[str, Any]] = {}
        self.stored: dict[str, Answer] = {}
        """Media to serve: path below the base → answer."""
        self.secret = SECRET
        self.poll_hold_s = 5.0
        self.open_requests = 0
        self.connections = 0
        self._work = work
        self._queue: list[dict[str, Any]] = []
        self._scripts: dict[str, deque[Answer]] = defaultdict(deque)
        self._standing: dict[str, Answer] = {}
        self._keys: dict[str, tuple[str, Any]] = {}
        self._events = 0
        self._changed = trio.Event()

    # scripting

    def serve(self, *tasks: dict[str, Any]) -> None:
        """Queue tasks for the next poll."""
        self._queue += tasks
        self._poke()

    def script(self, route: str, *answers: Answer) -> None:
        """The next answers of a route, one request each."""
        self._scripts[route] += answers

    def always(self, route: str, answer: Answer | None) -> None:
        """What a route answers from now on; None: behave again."""
        if answer is None:
            self._standing.pop(route, None)
        else:
            self._standing[route] = answer

    def keyed(self) -> None:
        """Offer keyed posts."""
        self.always("capabilities", Answer(body=KEYED))

    def of(self, route: str) -> list[Request]:
        return [request for request in self.requests if request.route == route]

    def bodies(self, room: str) -> list[str]:
        """What a room shows, edits applied."""
        return [m["body"] for m in self.messages.values() if m["room"] == room]

    async def until(self, condition: Callable[[], Any], within_s: float = 60.0) -> None:
        """Wait for a state that requests bring about."""
        with trio.fail_after(within_s):
            while not condition():
                await self._changed.wait()

    async def seen(self, route: str, count: int = 1, within_s: float = 60.0) -> list[Request]:
        """Wait for so many requests of a route."""
        await self.until(lambda: len(self.of(route)) >= count, within_s)
        return self.of(route)

    # serving

    async def handle(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        buffer = bytearray()
        try:
            async with stream:
                while True:
                    request = await self._read(stream, buffer)
                    if request is None:
                        return
                    self.open_requests += 1
                    try:
                        if not await self._respond(stream, request):
                            return
                    finally:
                        self.open_requests -= 1
                        self._poke()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def _read(self, stream: trio.SocketStream, buffer: bytearray) -> Request | None:
        while b"\r\n\r\n" not in buffer:
            chunk = await stream.receive_some(65536)
            if not chunk:
                return None
            buffer += chunk
        head, _, _ = bytes(buffer).partition(b"\r\n\r\n")
        del buffer[: len(head) + 4]
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {k.strip().lower(): v.strip() for k, _, v in (li.partition(":") for li in lines)}
        length = int(headers.get("content-length", "0"))
        while len(buffer) < length:
            chunk = await stream.receive_some(65536)
            if not chunk:
                return None
            buffer += chunk
        raw = bytes(buffer[:length])
        del buffer[:length]
        path, _, query = target.partition("?")
        path = path.removeprefix("/relay")
        return Request(method, path, query, headers, raw, _route(method, path), trio.current_time())

    async def _respond(self, stream: trio.SocketStream, request: Request) -> bool:
        self.requests.append(request)
        self._poke()
        answer = self._scripted(request.route)
        if answer is None and request.route == "tasks":
            answer = await self._attended(stream, request)
            if answer is None:
                return False
        elif answer is None:
            answer = await self._behave(request)
        elif answer.apply:
            await self._behave(request)
        if answer.delay_s:
            await trio.sleep(answer.delay_s)
        if answer.hold is not None:
            await answer.hold.wait()
        if answer.drop:
            return False
        if answer.raw is not None:
            await stream.send_all(answer.raw)
            return False
        body = answer.body
        if not isinstance(body, bytes):
            body = json.dumps({"ok": True} if body is None else body).encode()
        if answer.status == 204:
            body = b""
        headers = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **answer.headers,
        }
        head = f"HTTP/1.1 {answer.status} X\r\n"
        head += "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n"
        if not answer.drip_s:
            await stream.send_all(head.encode() + body)
            return True
        await stream.send_all(head.encode())
        for index in range(len(body)):
            await stream.send_all(body[index : index + 1])
            await trio.sleep(answer.drip_s)
        return True

    async def _attended(self, stream: trio.SocketStream, request: Request) -> Answer | None:
        """A long poll, given up when its client goes away: it must not swallow tasks."""
        answer: Answer | None = None

        async def watch() -> None:
            while True:
                await trio.lowlevel.wait_readable(stream.socket)
                try:
                    gone = not await stream.socket.recv(1, socket.MSG_PEEK)
                except OSError:
                    gone = True
                if gone:
                    polling.cancel_scope.cancel()
                await trio.sleep(0.01)

        async with trio.open_nursery() as polling:
            polling.start_soon(watch)
            answer = await self._behave(request)
            polling.cancel_scope.cancel()
        return answer

    def _scripted(self, route: str) -> Answer | None:
        if self._scripts[route]:
            return self._scripts[route].popleft()
        return self._standing.get(route)

    async def _behave(self, request: Request) -> Answer:
        if request.headers.get("authorization") != f"Bearer {self.secret}":
            return Answer(401, {"error": "unknown bearer"})
        match request.route:
            case "tasks":
                asked_s = float(request.query.partition("wait=")[2] or 0)
                return await self._poll(min(asked_s, self.poll_hold_s))
            case "results":
                self.results.setdefault(request.body["id"], request.body)
                return Answer()
            case "room":
                return self._room_op(request.body)
            case "messages" | "media":
                return self._keyed_post(request)
            case "fetch":
                return self.stored.get(request.path, Answer(502, {"error": "no media"}))
            case "capabilities":
                return Answer(404, {"error": "not found"})
            case "ack" | "heartbeat":
                return Answer()
        return Answer(404, {"error": "not found"})

    async def _poll(self, hold_s: float) -> Answer:
        with trio.move_on_after(hold_s):
            while not self._queue:
                await self._changed.wait()
        tasks, self._queue = self._queue, []
        return Answer(body={"tasks": tasks})

    def _room_op(self, body: dict[str, Any]) -> Answer:
        if body["op"] == "edit":
            message = self.messages.get(body["event_id"])
            if message is None:
                return Answer(404, {"error": "no such event"})
            message["body"] = body["body"]
            message["edits"] += 1
            return Answer(body={"ok": True, "event_id": body["event_id"]})
        return Answer(body=self._message(body["room_id"], body["body"]))

    def _keyed_post(self, request: Request) -> Answer:
        room = unquote(request.path.split("/")[3])
        key = request.headers.get("idempotency-key", "")
        digest = hashlib.sha256(request.path.encode() + request.raw).hexdigest()
        if key in self._keys:
            known, made = self._keys[key]
            if known != digest:
                return Answer(409, {"state": "conflict"})
            return Answer(body=made, headers={"Idempotency-Status": "replayed"})
        if request.route == "messages":
            made = self._message(room, request.body["body"])
        else:
            self.files.append({"room": room, **request.body})
            made = {"ok": True, "mxc": "mxc://h/x", "event_id": self._event()}
        if not key:
            return Answer(body=made)
        self._keys[key] = (digest, made)
        return Answer(body=made, headers={"Idempotency-Status": "created"})

    def _message(self, room: str, body: str) -> dict[str, Any]:
        event = self._event()
        self.messages[event] = {"room": room, "body": body, "edits": 0}
        return {"ok": True, "event_id": event}

    def _event(self) -> str:
        self._events += 1
        return f"$e{self._events}"

    def _poke(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


def _route(method: str, path: str) -> str:
    if method == "GET" and path == "/v1/tasks":
        return "tasks"
    if path.startswith("/v1/tasks/") and path.endswith("/ack"):
        return "ack"
    if path.startswith("/v1/rooms/"):
        return path.rsplit("/", 1)[1]
    if path.startswith("/v1/media/"):
        return "fetch"
    return path.removeprefix("/v1/")


def wire_task(task_id: str, body: str = "hello", room: str = "!r:h", **more: Any) -> dict[str, Any]:
    """One task as a broker serves it."""
    return {
        "id": task_id,
        "task": body,
        "channel_id": room,
        "user_id": "@ann:h",
        "access_tier": "owner",
        **more,
    }


@asynccontextmanager
async def open_broker() -> AsyncIterator[FakeBroker]:
    """A broker on a free loopback port, gone with the context."""
    async with trio.open_nursery() as work:
        broker = FakeBroker(work)
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        broker.base = f"http://127.0.0.1:{port}/relay"
        work.start_soon(trio.serve_listeners, broker.handle, listeners)
        try:
            yield broker
        finally:
            work.cancel_scope.cancel()
