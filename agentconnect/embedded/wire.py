"""The worker's endpoints (relay-wire.md §3): tasks, acks, results, heartbeat, rooms, files.

401 means the bearer and nothing else; everything an identity may not do is a 404 or a 400
(relay-wire.md §20).
"""

import logging
import math
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import Response

from agentconnect.embedded import media, talk, tasks
from agentconnect.embedded.bodies import (
    Refusal,
    answer,
    answered,
    raw_json,
    read_as,
    refused,
)
from agentconnect.embedded.house import House
from agentconnect.embedded.http1 import Message, Receive, Send
from agentconnect.embedded.leases import Ack
from agentconnect.embedded.line import Gone
from agentconnect.embedded.routes import Route
from agentconnect.embedded.store import Tx
from agentconnect.embedded.timing import JSON_BYTES, RESULT_BYTES

_log = logging.getLogger("agentconnect.embedded")
Handler = Callable[[House, str, Request], Awaitable[Response]]


class AckBody(msgspec.Struct, frozen=True, kw_only=True):
    """An ack; ``lease_id`` only from newer clients."""

    id: str = ""
    lease_id: str = ""


class ResultBody(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, or a rejection."""

    id: str
    body: str | None = None
    status: str = ""
    error_code: str = ""


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker says of itself; kept as the newest of each, and null takes one back."""

    client: str | msgspec.UnsetType = msgspec.UNSET
    inflight: int | msgspec.UnsetType = msgspec.UNSET
    status: str | msgspec.UnsetType | None = msgspec.UNSET
    step: str | msgspec.UnsetType | None = msgspec.UNSET


def bearer(house: House, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint behind the bearer; refusals become answers here."""

    async def inside(request: Request) -> Response:
        agent_id = await house.admit(request)
        house.presence.heard(agent_id, house.now())
        return await handler(house, agent_id, request)

    async def endpoint(request: Request) -> Response:
        return await answered(inside(request))

    return endpoint


async def ack(house: House, agent_id: str, request: Request) -> Response:
    """``POST /v1/tasks/{id}/ack``."""
    said = await read_as(request, AckBody, JSON_BYTES)
    task_id = request.path_params["task_id"]
    verdict = await house.store.write(
        lambda tx: tasks.ack(tx, agent_id, task_id, said.lease_id), durable=False
    )
    if verdict in (Ack.NOT_LEASED, Ack.STALE):
        return answer({"error": str(verdict)}, 404)
    return answer({"ok": True})


async def result(house: House, agent_id: str, request: Request) -> Response:
    """``POST /v1/results``: idempotent by id; the room send is part of the same transaction."""
    said = await read_as(request, ResultBody, RESULT_BYTES)
    if said.status == "rejected":
        outcome = await house.store.write(
            lambda tx: talk.reject(tx, agent_id, said.id, said.error_code or "INVALID_TASK_SCHEMA")
        )
    elif said.status or said.body is None or not said.body.strip():
        raise Refusal(400, "A result needs a body with text, or the status `rejected`.")
    else:
        text = said.body
        outcome = await house.store.write(lambda tx: talk.finish(tx, agent_id, said.id, text))
    if outcome == "undelivered":
        _log.warning("result without a task: agent=%s id=%s", agent_id, said.id[:64])
    extra = {} if outcome == "done" else {outcome: True}
    if said.status == "rejected" and outcome == "duplicate":
        extra["rejected"] = True
    return answer({"ok": True, **extra})


async def heartbeat(house: House, agent_id: str, request: Request) -> Response:
    """``POST /v1/heartbeat``."""
    said = await read_as(request, Heartbeat, JSON_BYTES)
    told = {name: value[:500] if isinstance(value, str) else value for name, value in _said(said)}

    def unit(tx: Tx) -> None:
        last = tx.text("SELECT heartbeat FROM users WHERE user_id = ?", agent_id)
        merged = {**(msgspec.json.decode(last, type=dict[str, Any]) if last else {}), **told}
        text = msgspec.json.encode(merged).decode()
        tx.run("UPDATE users SET heartbeat = ? WHERE user_id = ?", text, agent_id)

    await house.store.write(unit, durable=False)
    return answer({"ok": True})


def _said(beat: Heartbeat) -> list[tuple[str, object]]:
    return list(msgspec.to_builtins(beat).items())


async def fetch(house: House, agent_id: str, request: Request) -> Response:
    """A file out of a room; 502 for every cause but the bearer (relay-wire.md §3.10)."""
    media_id, server = request.path_params["media_id"], request.path_params["server"]
    found = await house.store.read(lambda tx: media.find(tx, media_id, agent_id))
    data = await house.shelf.read(media_id) if found and server == house.domain else None
    if found is None or data is None:
        raise Refusal(502, "The file cannot be had.")
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    return Response(data, headers=headers, media_type=found.mime)


class Caller:
    """The client of a poll: whether it is gone, and what wakes the poll."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.gone = False
        self.bell = trio.Event()

    async def watch(self) -> None:
        """Follow the connection until it ends."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        self.bell.set()


class Poll:
    """``GET /v1/tasks``: held open until a task waits or the time is up.

    A lease taken for a poller that left before its answer was sent is given back.
    """

    def __init__(self, house: House) -> None:
        self._house = house

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        house, request = self._house, Request(scope, receive)
        try:
            only_get(request)  # HEAD would take tasks and tell nobody
            agent_id = await house.admit(request)
        except Refusal as refusal:
            await refused(refusal)(scope, receive, send)
            return
        wait_s = _wait_of(request.query_params.get("wait", ""), house.timing.wait_cap_s)
        caller = Caller(receive)
        alive = house.presence.alive(agent_id, house.now())
        async with trio.open_nursery() as watch:
            watch.start_soon(caller.watch)
            with house.presence.polling(agent_id, house.now()) as others:
                house.crowded(agent_id, others + 1)
                served = await self._wait(agent_id, wait_s, caller, alive)
            house.presence.polled(agent_id, house.now())
            await self._send(agent_id, served, caller, send)
            watch.cancel_scope.cancel()

    async def _wait(
        self, agent_id: str, wait_s: float, caller: Caller, alive: bool
    ) -> list[tasks.Served]:
        house = self._house
        with trio.move_on_after(wait_s):
            while not caller.gone:
                caller.bell = bell = trio.Event()
                house.bells.hang(agent_id, bell)
                try:
                    with trio.CancelScope(shield=True):  # what is leased is told or given back
                        served = await house.take(agent_id, alive=alive)
                    alive = True  # from here on this poll is the proof
                    if served or house.bells.stopping or house.directory.is_gone(agent_id):
                        return served
                    await bell.wait()
                finally:
                    house.bells.take_down(agent_id, bell)
        return []

    async def _send(
        self, agent_id: str, served: list[tasks.Served], caller: Caller, send: Send
    ) -> None:
        body = msgspec.json.encode({"tasks": served})
        headers = [
            (b"content-type", b"application/json"),
            (b"cache-control", b"no-store"),
            (b"content-length", str(len(body)).encode()),
        ]
        try:
            if not caller.gone:
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await send({"type": "http.response.body", "body": body, "more_body": True})
                await trio.lowlevel.checkpoint()
        except (Gone, trio.Cancelled):
            caller.gone = True
            raise
        finally:
            if caller.gone and served:
                with trio.CancelScope(shield=True):
                    await self._house.store.write(lambda tx: tasks.release(tx, agent_id, served))
        if not caller.gone:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def only_get(request: Request) -> None:
    """Refuse HEAD, which comes with GET.

    Raises:
        Refusal: 405.
    """
    if request.method != "GET":
        raise Refusal(405, "This is not how it is asked.")


def _wait_of(value: str, cap_s: float) -> float:
    try:
        wait_s = float(value or 0)
    except ValueError:
        return 0.0
    return 0.0 if math.isnan(wait_s) else min(max(wait_s, 0.0), cap_s)


async def healthz(_request: Request) -> Response:
    """``GET /v1/healthz``: no bearer, no side effect."""
    return raw_json(b'{"ok":true}')


def routes(house: House) -> list[Route]:
    """The worker's routes but those of :mod:`roomwire` and :mod:`sse`, under the base."""

    return [
        Route("GET", "/v1/tasks", app=Poll(house)),
        Route("POST", "/v1/tasks/{task_id}/ack", bearer(house, ack)),
        Route("POST", "/v1/results", bearer(house, result)),
        Route("POST", "/v1/heartbeat", bearer(house, heartbeat)),
        Route("GET", "/v1/media/{server}/{media_id}", bearer(house, fetch)),
        Route("GET", "/v1/healthz", healthz),
    ]
