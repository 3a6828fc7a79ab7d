"""The JSON-RPC peer over memory streams."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from agentconnect.acp.messages import CancelParams
from agentconnect.acp.peer import MAX_ID_BYTES, Bounds, Peer, RequestRefused
from agentconnect.core.errors import (
    AgentConnectError,
    AgentError,
    AgentExitedError,
    PeerError,
)

PARAMS = CancelParams(session_id="s")


class Answer(msgspec.Struct):
    ok: bool = True


class Recorder:
    """A handler that notes what it sees, and answers what it is told to."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.gate: trio.Event | None = None
        self.slow = trio.Event()
        self.slow.set()

    async def notified(self, method: str, params: msgspec.Raw) -> None:
        await self.slow.wait()
        self.seen.append(method)

    async def asked(self, method: str, params: msgspec.Raw) -> msgspec.Struct:
        self.seen.append(f"?{method}")
        if method == "unknown":
            raise RequestRefused(-32601, "Method not found")
        if "broken" in method:
            raise RuntimeError("/secret/path")
        if method == "refused":
            raise RequestRefused(-32010, "Not yet", {"outcome": "retry", "retry_after_s": 5})
        if self.gate is not None:
            await self.gate.wait()
        return Answer()

    def withdrawn(self, method: str) -> msgspec.Struct | None:
        return Answer(ok=False) if method == "mine" else None

    def aside(self, method: str) -> bool:
        return method.startswith("aside")

    def overfull(self, method: str) -> RequestRefused:
        data = {"outcome": "retry"} if method == "patient" else None
        return RequestRefused(-32603, "Too many requests", data)


class Wire:
    """The agent's side of the streams."""

    def __init__(self, peer: Peer, handler: Recorder, stream: trio.abc.Stream) -> None:
        self.peer = peer
        self.handler = handler
        self.stream = stream
        self.buffer = b""

    async def send(self, *messages: object) -> None:
        lines = [json.dumps(m) if not isinstance(m, str) else m for m in messages]
        await self.stream.send_all("".join(line + "\n" for line in lines).encode())

    async def receive(self) -> dict[str, Any]:
        while b"\n" not in self.buffer:
            block = await self.stream.receive_some()
            assert block, "the peer closed its side"
            self.buffer += block
        line, self.buffer = self.buffer.split(b"\n", 1)
        value: dict[str, Any] = json.loads(line)
        return value

    async def result(self) -> tuple[object, object]:
        message = await self.receive()
        return message["id"], message["result"]


@asynccontextmanager
async def wired(bounds: Bounds = Bounds()) -> AsyncIterator[Wire]:  # noqa: B008 - frozen
    """A running peer and the other end of it."""
    ours, theirs = trio.testing.memory_stream_pair()
    handler = Recorder()
    peer = Peer(ours, ours, handler, bounds)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(peer.run)
        yield Wire(peer, handler, theirs)
        nursery.cancel_scope.cancel()


async def catch(call: Callable[[], Any], into: list[object]) -> None:
    """Keep what a call gives or raises."""
    try:
        into.append(await call())
    except AgentConnectError as error:
        into.append(error)


async def test_an_answer_is_seen_after_everything_before_it(autojump_clock: object) -> None:
    """Ten thousand updates stand before the response in the same reads."""
    async with wired() as wire, trio.open_nursery() as nursery:
        order: list[int] = []
        results: list[object] = []

        async def ask() -> object:
            return await wire.peer.request(
                "m", PARAMS, on_settled=lambda: order.append(len(wire.handler.seen))
            )

        nursery.start_soon(catch, ask, results)
        assert 1 == (await wire.receive())["id"]
        updates = [{"method": "u"}] * 10_000
        await wire.send(*updates, {"id": 1, "result": {"a": 1}}, {"method": "late"})
        await trio.testing.wait_all_tasks_blocked()
        assert [10_000] == order
        assert [b'{"a":1}'] == [bytes(r).replace(b" ", b"") for r in results]  # type: ignore[call-overload]


async def test_five_hundred_chunks_meet_a_slow_handler_in_order(autojump_clock: object) -> None:
    """In one write with the answer, 200 times; in some a chunk takes a millisecond (D7)."""

    class Slow(Recorder):
        pause = 0.0

        async def notified(self, method: str, params: msgspec.Raw) -> None:
            await trio.sleep(self.pause)
            self.seen.append(bytes(params).decode())

    expected = [str(number) for number in range(500)]
    lines = [json.dumps({"method": "u", "params": number}) + "\n" for number in range(500)]
    for run in range(200):
        ours, theirs = trio.testing.memory_stream_pair()
        handler = Slow()
        handler.pause = 0.001 if run % 20 == 0 else 0.0
        peer = Peer(ours, ours, handler)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.run)
            block = "".join([*lines, '{"id":1,"result":{}}\n']).encode()
            nursery.start_soon(theirs.send_all, block)
            await peer.request("m", PARAMS)
            assert expected == handler.seen
            nursery.cancel_scope.cancel()


async def test_a_slow_handler_stops_the_reading(autojump_clock: object) -> None:
    """Back-pressure: nothing is queued in memory while one update is being handled."""
    async with wired() as wire:
        wire.handler.slow = trio.Event()
        await wire.send({"method": "a"}, {"method": "b"})
        await trio.testing.wait_all_tasks_blocked()
        assert [] == wire.handler.seen
        wire.handler.slow.set()
        await trio.testing.wait_all_tasks_blocked()
        assert ["a", "b"] == wire.handler.seen


@pytest.mark.parametrize(
    ("method", "code"), [("unknown", -32601), ("fs/write_text_file", None), ("broken", -32603)]
)
async def test_requests_of_the_agent_are_answered(
    method: str, code: int | None, autojump_clock: object
) -> None:
    """With the id it used, and never with a path of ours."""
    async with wired() as wire:
        await wire.send({"jsonrpc": "2.0", "id": "x-0", "method": method})
        answer = await wire.receive()
        assert "x-0" == answer["id"]
        assert code == answer.get("error", {}).get("code")
        assert "secret" not in json.dumps(answer)


async def test_both_id_spaces_are_independent(autojump_clock: object) -> None:
    """The agent's request 1 is not our request 1."""
    async with wired() as wire, trio.open_nursery() as nursery:
        results: list[object] = []
        nursery.start_soon(catch, lambda: wire.peer.request("m", PARAMS), results)
        await wire.receive()
        await wire.send({"id": 1, "method": "theirs"})
        assert {"ok": True} == (await wire.receive())["result"]
        assert [] == results
        await wire.send({"id": 1, "error": {"code": -32000, "message": "login"}})
        await trio.testing.wait_all_tasks_blocked()
        assert [-32000] == [e.code for e in results if isinstance(e, AgentError)]


async def test_a_cancelled_call_ignores_its_late_answer(autojump_clock: object) -> None:
    """And so do repeats and answers to nothing; junk is passed over."""
    async with wired() as wire:
        with trio.move_on_after(1):
            await wire.peer.request("m", PARAMS)
        await wire.send({"id": 1, "result": 1}, {"id": 99, "result": 1}, "junk", {"method": "on"})
        await trio.testing.wait_all_tasks_blocked()
        assert ["on"] == wire.handler.seen


async def test_a_withdrawn_request_is_answered_as_such(autojump_clock: object) -> None:
    """``$/cancel_request`` by the agent, :meth:`Peer.withdraw` by us."""
    async with wired() as wire:
        wire.handler.gate = trio.Event()
        await wire.send({"id": 0, "method": "mine"}, {"id": 1, "method": "other"})
        await wire.send({"id": 2, "method": "mine"})
        await trio.testing.wait_all_tasks_blocked()
        await wire.send({"method": "$/cancel_request", "params": {"requestId": 0}})
        assert (0, {"ok": False}) == await wire.result()
        await wire.send({"method": "$/cancel_request", "params": {"requestId": 1}})
        assert -32800 == (await wire.receive())["error"]["code"]
        await wire.send({"method": "$/cancel_request", "params": {"requestId": 77}})
        wire.peer.withdraw("mine")
        assert (2, {"ok": False}) == await wire.result()


async def test_a_refusal_has_its_data(autojump_clock: object) -> None:
    """As it is; an answer without any has no such member."""
    async with wired() as wire:
        await wire.send({"id": 1, "method": "refused"}, {"id": 2, "method": "unknown"})
        answers = {(answer := await wire.receive())["id"]: answer for _ in range(2)}
        data = {"outcome": "retry", "retry_after_s": 5}
        assert {"code": -32010, "message": "Not yet", "data": data} == answers[1]["error"]
        assert {"code": -32601, "message": "Method not found"} == answers[2]["error"]


BOUNDS = Bounds()


async def test_a_flood_of_requests_is_bounded(autojump_clock: object) -> None:
    """Some are refused, far too many end the connection; the reader never waits."""
    async with wired() as wire:
        wire.handler.gate = trio.Event()
        await wire.send(*({"id": n, "method": "patient"} for n in range(BOUNDS.handled + 1)))
        refused = await wire.receive()
        assert (BOUNDS.handled, -32603) == (refused["id"], refused["error"]["code"])
        assert {"outcome": "retry"} == refused["error"]["data"]
        wire.handler.gate.set()
        assert set(range(BOUNDS.handled)) == {
            (await wire.receive())["id"] for _ in range(BOUNDS.handled)
        }
        await wire.send({"id": "after", "method": "m"})
        assert "after" == (await wire.receive())["id"]
    ours, theirs = trio.testing.memory_stream_pair()
    handler = Recorder()
    handler.gate = trio.Event()
    flood = b'{"id":1,"method":"m"}\n' * (BOUNDS.handled + BOUNDS.refused + 2)
    await theirs.send_all(flood)
    with pytest.raises(PeerError, match="too many"):
        await Peer(ours, ours, handler).run()


async def test_large_requests_are_bounded_by_their_bytes(autojump_clock: object) -> None:
    """One alone is taken whatever its size; what it held is free again after its answer."""
    async with wired(Bounds(held_bytes=1000)) as wire:
        wire.handler.gate = trio.Event()
        large = {"method": "m", "params": {"text": "x" * 2000}}
        await wire.send({"id": 1, **large}, {"id": 2, **large})
        assert (2, -32603) == refused_as(await wire.receive())
        await wire.send({"method": "aside", "params": {"text": "x" * 2000}})
        wire.handler.gate.set()
        assert (1, {"ok": True}) == await wire.result()
        await wire.send({"id": 3, **large})
        assert (3, {"ok": True}) == await wire.result()
    assert ["?m", "?m"] == wire.handler.seen


async def test_an_id_of_any_size_is_not_echoed(autojump_clock: object) -> None:
    """One that nobody would choose is no request."""
    async with wired() as wire:
        await wire.send(
            {"id": "x" * MAX_ID_BYTES, "method": "m"}, {"id": "x" * 4000, "method": "m"}
        )
        assert 4000 == len((await wire.receive())["id"])
    assert ["?m"] == wire.handler.seen


async def test_a_notification_that_is_a_request_without_an_answer(autojump_clock: object) -> None:
    """It holds up nothing behind it, and neither its refusal nor its fault is answered."""
    async with wired() as wire:
        wire.handler.gate = trio.Event()
        await wire.send(*[{"method": "aside"}] * 1000)  # of which those that fit are taken
        await wire.send({"method": "on"}, {"id": 1, "method": "m"})
        assert (1, -32603) == refused_as(await wire.receive())
        assert ["?aside"] * BOUNDS.handled + ["on"] == sorted(wire.handler.seen)
        wire.handler.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        await wire.send({"method": "aside broken"}, {"id": 2, "method": "m"})
        assert (2, {"ok": True}) == await wire.result()


async def test_what_is_open_can_be_waited_for(autojump_clock: object) -> None:
    """Until it was answered; what comes later does not count."""
    async with wired() as wire, trio.open_nursery() as nursery:
        await wire.peer.answered()
        wire.handler.gate = trio.Event()
        await wire.send({"id": 1, "method": "m"})
        await trio.testing.wait_all_tasks_blocked()
        over = trio.Event()

        async def wait() -> None:
            await wire.peer.answered()
            over.set()

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert not over.is_set()
        wire.handler.gate.set()
        assert (1, {"ok": True}) == await wire.result()
        wire.handler.gate = trio.Event()
        await wire.send({"id": 2, "method": "m"})
        await over.wait()


def refused_as(message: dict[str, Any]) -> tuple[object, object]:
    """The id and the code of an error."""
    return message["id"], message["error"]["code"]


async def test_the_end_fails_every_open_call(autojump_clock: object) -> None:
    """And every later one."""
    async with wired() as wire, trio.open_nursery() as nursery:
        results: list[object] = []
        for _ in range(3):
            nursery.start_soon(catch, lambda: wire.peer.request("m", PARAMS), results)
        await trio.testing.wait_all_tasks_blocked()
        wire.peer.fail(AgentExitedError("gone", returncode=3))
        await trio.testing.wait_all_tasks_blocked()
        await catch(lambda: wire.peer.request("m", PARAMS), results)
        assert [3] * 4 == [e.returncode for e in results if isinstance(e, AgentExitedError)]
        assert wire.peer.broken


async def test_a_call_to_an_agent_that_has_just_ended_tells_how_it_ended(
    autojump_clock: object,
) -> None:
    """Its input breaks first; the exit code and the last words come a moment later (D20)."""
    results: list[object] = []
    peer = Peer(BrokenPipe(), BrokenPipe(), Recorder())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(catch, lambda: peer.request("m", PARAMS), results)
        await trio.sleep(1)
        peer.fail(AgentExitedError("the agent exited (code 127)", returncode=127))
    assert [127] == [e.returncode for e in results if isinstance(e, AgentExitedError)]
    began = trio.current_time()
    unknown = Peer(BrokenPipe(), BrokenPipe(), Recorder())
    await catch(lambda: unknown.request("m", PARAMS), results)
    assert trio.current_time() - began <= 5
    assert "no longer reads" in str(results[-1])


class BrokenPipe(trio.abc.Stream):
    """A process that has closed its input and not been reaped yet."""

    async def send_all(self, data: object) -> None:
        await trio.lowlevel.checkpoint()
        raise trio.BrokenResourceError

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.sleep_forever()
        return b""

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize(("size", "seconds"), [(0, 60), (6_553_600, 160)])
async def test_an_agent_that_does_not_read_is_given_up(
    size: int, seconds: int, autojump_clock: object
) -> None:
    """After a minute and what a slow uplink needs for the frame; every open call ends then."""
    ours, theirs = trio.testing.lockstep_stream_pair()
    peer = Peer(ours, ours, Recorder())
    results: list[object] = []
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            params = CancelParams(session_id="s" * size)
            nursery.start_soon(catch, partial(peer.request, "m", params), results)
    assert ["the agent stopped reading its input"] * 2 == [str(error) for error in results]
    assert seconds == int(trio.current_time() - began)
    assert peer.broken
    await theirs.aclose()


async def test_a_frame_that_nobody_waits_for_is_soon_given_up(autojump_clock: object) -> None:
    """A cancel does not cut it at once, but it costs a second and not a minute."""
    ours, theirs = trio.testing.lockstep_stream_pair()
    peer = Peer(ours, ours, Recorder())
    began = trio.current_time()
    with trio.move_on_after(5) as cancelled:
        await peer.request("m", PARAMS)
    assert cancelled.cancelled_caught
    assert 6 == int(trio.current_time() - began)
    assert peer.broken
    await theirs.aclose()


async def test_a_cancel_leaves_a_frame_whole(autojump_clock: object) -> None:
    """The agent that reads at last finds all of it, and the connection goes on."""
    ours, theirs = trio.testing.lockstep_stream_pair()
    peer = Peer(ours, ours, Recorder())
    sent: list[str] = []
    read = bytearray()

    async def reader() -> None:
        await trio.sleep(5.5)
        while not read.endswith(b"\n"):
            read.extend(await theirs.receive_some())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader)
        with trio.move_on_after(5):
            await peer.request("m", PARAMS, on_sent=lambda: sent.append("sent"))
    assert {"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"sessionId": "s"}} == json.loads(
        read
    )
    assert ["sent"] == sent
    assert not peer.broken
    await ours.aclose()
    await theirs.aclose()
