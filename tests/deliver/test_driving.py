"""The drivers on asyncio, on Trio and in a thread."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from agentconnect.deliver import DELIVER, Entry, Outbox, deliver, deliver_blocking
from tests.deliver.support import BINDING, RpcError, delivered, final, retry

Send = Callable[[str, dict[str, Any]], Awaitable[Any]]


class Client:
    """Answers in turn; the last of them again and again. ``None`` breaks the connection."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str]] = []

    def answer(self, method: str, params: dict[str, Any]) -> object:
        self.asked.append((method, params["id"]))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class _EnoughError(Exception):
    """The test has seen what it waits for."""


async def no_sleep(_seconds: float) -> None:
    """The end of a test's run: nothing is left to do."""
    raise _EnoughError


@pytest.fixture
def live(path: Any) -> Any:
    """An outbox with the real clock."""
    with Outbox(path) as outbox:
        yield outbox


def test_on_asyncio(live: Outbox) -> None:
    """With asyncio's own sleep, an async on_end and a cancel."""
    live.put("x", BINDING, "hello")
    client, ends = Client(delivered()), list[str]()

    async def send(method: str, params: dict[str, Any]) -> object:
        await asyncio.sleep(0)
        return client.answer(method, params)

    async def main() -> None:
        told = asyncio.Event()

        async def on_end(entry: Entry) -> None:
            await asyncio.sleep(0)
            ends.append(entry.state)
            told.set()

        task = asyncio.create_task(deliver(live, send, asyncio.sleep, on_end=on_end))
        await told.wait()
        live.put("y", BINDING, "hello")
        told.clear()
        await told.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ["delivered"] * 2 == ends
    assert [(DELIVER, "x"), (DELIVER, "y")] == client.asked


async def test_on_trio(live: Outbox) -> None:
    """Several runs over one connection send several at once; a cancel gives all of them back."""
    for number in range(3):
        live.put(f"x{number}", BINDING, "hello")
    asked: list[str] = []
    all_three = trio.Event()

    async def send(_method: str, params: dict[str, Any]) -> object:
        asked.append(params["id"])
        if len(asked) == 3:
            all_three.set()
        await trio.sleep_forever()
        return None

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(deliver, live, send, trio.sleep)
        await all_three.wait()
        nursery.cancel_scope.cancel()
    assert {"x0", "x1", "x2"} == set(asked)
    assert live.claim("somebody") is not None


def test_in_a_thread(live: Outbox) -> None:
    """A plain thread sends until it is told to stop."""
    live.put("x", BINDING, "hello")
    client, told, stop = Client(delivered()), threading.Event(), threading.Event()
    thread = threading.Thread(
        target=deliver_blocking,
        args=(live, client.answer, stop.wait),
        kwargs={"on_end": lambda _: told.set()},
    )
    thread.start()
    assert told.wait(60)
    stop.set()
    thread.join(60)
    assert not thread.is_alive()
    assert [(DELIVER, "x")] == client.asked


def test_an_async_on_end_in_a_thread(live: Outbox) -> None:
    """What cannot work in a thread is said."""
    live.put("x", BINDING, "hello")

    with pytest.raises(TypeError, match="on_end"):
        deliver_blocking(live, Client(delivered()).answer, bool, on_end=lambda _: _Pending())


class _Pending:
    """What only an event loop could finish."""

    def __await__(self) -> Any:
        yield


async def run(live: Outbox, client: Client, on_end: Any = None) -> None:
    """Drive until nothing is left to do."""

    async def send(method: str, params: dict[str, Any]) -> object:
        return client.answer(method, params)

    with pytest.raises(_EnoughError):
        await deliver(live, send, no_sleep, on_end=on_end)


async def test_errors_of_libraries(live: Outbox) -> None:
    """An exception with a code is the client's answer; any other is a lost connection."""
    live.put("a", BINDING, "hello")
    ends: list[Entry] = []
    await run(live, Client(RpcError(-32011, final("rejected"))), ends.append)
    assert ["rejected"] == [entry.reason for entry in ends]

    live.put("b", BINDING, "hello")
    await run(live, Client(RpcError(-32010, retry(1000))), ends.append)
    live.put("c", BINDING, "hello")
    await run(live, Client(ConnectionResetError()), ends.append)
    assert {"b": "busy", "c": "the connection was lost"} == {
        entry.id: entry.reason for entry in live.entries(waiting=True)
    }


async def test_returns_where_nothing_is_taken(live: Outbox) -> None:
    """After -32601 the run is over, and the delivery waits."""
    live.put("x", BINDING, "hello")
    live.put("y", BINDING, "hello")
    client = Client(RpcError(-32601))

    async def send(method: str, params: dict[str, Any]) -> object:
        return client.answer(method, params)

    await deliver(live, send, no_sleep)
    assert [(DELIVER, "x")] == client.asked
    assert 2 == len(live.entries(waiting=True))


async def test_an_on_end_that_fails(live: Outbox, caplog: pytest.LogCaptureFixture) -> None:
    """A failing on_end costs no other delivery, and hears of it again."""
    live.put("x", BINDING, "hello")
    live.put("y", BINDING, "hello")
    heard: list[str] = []

    def on_end(entry: Entry) -> None:
        heard.append(entry.id)
        if entry.id == "x":
            raise ValueError("no")

    await run(live, Client(delivered()), on_end)
    assert ["x", "y"] == heard
    assert {"x": False, "y": True} == {entry.id: entry.told for entry in live.entries()}
    assert "on_end failed" in caplog.text


async def test_nothing_secret_is_logged(live: Outbox, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the text nor the binding reaches the log."""
    live.put("x", BINDING, "the secret text")
    await run(live, Client(ValueError(f"the secret text {BINDING}")))
    assert "no answer" in caplog.text
    assert "secret" not in caplog.text
    assert BINDING not in caplog.text
