"""What a worker makes of an adapter's ending, in memory."""

from collections.abc import Awaitable, Callable

import msgspec
import pytest
import trio
from trio.testing import MockClock

from agentconnect.channels.contract import Adapter
from agentconnect.channels.group import Group
from agentconnect.channels.registry import World
from agentconnect.core.channels.ipc import Channel, Request, Result, ToWorker
from agentconnect.core.channels.sending import DeliveryError, Outgoing
from agentconnect.core.destination import Code, Target

Send = Callable[[Outgoing], Awaitable[None]]


class Double:
    """An adapter that does what a test says."""

    def __init__(self, send: Send, fails: Exception | None = None) -> None:
        self._send = send
        self._fails = fails
        self.end = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        await trio.lowlevel.checkpoint()
        if self._fails is not None:
            raise self._fails
        task_status.started()
        await self.end.wait()
        raise RuntimeError("s3cret")

    async def send(self, outgoing: Outgoing) -> None:
        await self._send(outgoing)

    async def check(self) -> str:
        return ""


async def fine(_outgoing: Outgoing) -> None:
    await trio.lowlevel.checkpoint()


def raising(error: Exception) -> Send:
    async def send(_outgoing: Outgoing) -> None:
        await trio.lowlevel.checkpoint()
        raise error

    return send


def group(**adapters: Adapter) -> Group:
    world: World = None  # type: ignore[assignment] # the doubles need none
    channels = {name: Channel(type=name, secrets={"token": "s3cret"}) for name in adapters}
    return Group(channels, world, build=lambda channel, _world: adapters[channel.type])


def attempt(channel: str = "ops", *, expires_at: int = 1000, text: str = "hello") -> ToWorker:
    target = Target(type="chat", id="!room")
    request = Request(delivery_id="d", channel_name=channel, target=target, text=text)
    return ToWorker(
        id="a", expires_at=expires_at, request=msgspec.Raw(msgspec.json.encode(request))
    )


async def once(adapter: Adapter, wanted: ToWorker) -> Result:
    async with trio.open_nursery() as adapters:
        made = group(ops=adapter)
        await made.start(adapters)
        result = await made.attempt(wanted, 999)
        adapters.cancel_scope.cancel()
    return result


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (DeliveryError("permanent", "no !room s3cret"), Code.REJECTED, "no <redacted> <redacted>"),
        (DeliveryError("transient", "busy"), Code.FAILED, "busy"),
        (RuntimeError("s3cret hello !room"), Code.FAILED, "RuntimeError"),
        (ExceptionGroup("x", [DeliveryError("permanent", "y")]), Code.FAILED, "ExceptionGroup"),
    ],
)
async def test_how_a_send_ended_becomes_a_code(error: Exception, code: Code, told: str) -> None:
    """A refusal, a failure; of anything else the type alone is told."""
    result = await once(Double(raising(error)), attempt())
    assert (False, code, told) == (result.ok, result.code, result.diagnostic)


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (attempt(expires_at=999), Code.TIMEOUT),
        (attempt(text=" "), Code.INVALID),
        (attempt(channel="other"), Code.UNAVAILABLE),
    ],
)
async def test_what_is_not_even_tried(wanted: ToWorker, code: Code) -> None:
    """Too late, against the rules, no such channel."""
    result = await once(Double(raising(AssertionError("sent"))), wanted)
    assert Result(id="a", ok=False, code=code, error=result.error) == result


async def test_a_send_has_its_own_limit(autojump_clock: MockClock) -> None:
    """Shorter than the daemon's, so that its answer is heard."""

    async def never(_outgoing: Outgoing) -> None:
        await trio.sleep_forever()

    result = await once(Double(never), attempt())
    assert (Code.FAILED, "the send took longer than 25 s") == (result.code, result.diagnostic)
    assert 25 == trio.current_time()


async def test_sixteen_are_under_way_at_most() -> None:
    """The seventeenth is refused at once."""
    go, active = trio.Event(), []

    async def wait(outgoing: Outgoing) -> None:
        active.append(outgoing)
        await go.wait()

    results: list[Result] = []
    async with trio.open_nursery() as adapters:
        made = group(ops=Double(wait))
        await made.start(adapters)

        async def one() -> None:
            results.append(await made.attempt(attempt(), 0))

        async with trio.open_nursery() as sending:
            for _ in range(17):
                sending.start_soon(one)
            await trio.testing.wait_all_tasks_blocked()
            assert [Code.QUEUE_FULL] == [result.code for result in results]
            assert 16 == len(active)
            go.set()
        adapters.cancel_scope.cancel()
    assert 16 == sum(result.ok for result in results)


async def test_one_adapters_fault_is_its_own_channels() -> None:
    """At the start and later; the reasons hold no secret."""
    ends = Double(fine)
    async with trio.open_nursery() as adapters:
        made = group(
            good=Double(fine),
            refused=Double(fine, DeliveryError("permanent", "no s3cret")),
            broken=Double(fine, RuntimeError("s3cret")),
            ends=ends,
        )
        await made.start(adapters)
        assert {"refused": "no <redacted>", "broken": "RuntimeError"} == made.failed
        assert {"good", "ends"} == set(made.started)
        ends.end.set()
        await trio.testing.wait_all_tasks_blocked()
        assert ("good",) == made.started
        adapters.cancel_scope.cancel()
