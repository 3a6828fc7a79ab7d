"""Results after the turn: queued on one connection, sent on another, once it takes deliveries."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import trio

from agentconnect.deliver import Outbox, declared, destination
from tests.support.acp_client import AcpClient, demo_client

BINDING = "a" * 32 + "." + "b" * 32
ASKED = "build this in the background and send me the report, in 1 second"
LISTENER = {"ag2/receive": True, "ag2/deliver": True}
TURN = {"ag2/receive": True}

Json = dict[str, Any]


@pytest.fixture
def meta(tmp_path: Path) -> Json:
    """The meta of a session whose worker takes late results."""
    folder = tmp_path / "export" / BINDING
    folder.mkdir(parents=True)
    told = {"binding": BINDING, "export_dir": str(folder), "expires_at": "2030-01-01T00:00:00Z"}
    return {"ag2/delivery": told}


@asynccontextmanager
async def listener(work: Path, state: Path, *answers: Json | None) -> AsyncIterator[AcpClient]:
    """The standing connection; what it asks is answered in turn, the last answer for ever."""
    left = list(answers)

    def extend(_request: Json) -> Json | None:
        return left.pop(0) if len(left) > 1 else left[0]

    async with demo_client(work, state, LISTENER, extend) as client:
        yield client


def queue(state: Path, meta: Json, count: int = 1) -> None:
    """As a turn does it."""
    to = destination(meta)
    assert to is not None
    report = to.export_dir / "report.md"
    report.write_text("# Report\n")
    state.mkdir(exist_ok=True)
    with Outbox(state / "outbox.db") as outbox:
        for number in range(count):
            outbox.put(f"x{number}", to, "Done.", [report])


def delivered(parts: int = 2) -> Json:
    """A success for every part."""
    named = [{"part": n, "event_id": f"${n}", "status": "created"} for n in range(parts)]
    return {"result": {"outcome": "delivered", "delivered": named}}


async def asked(client: AcpClient, times: int = 1) -> list[Json]:
    """The params of the first so many deliveries."""
    await client.until(lambda: len(client.extensions) >= times)
    assert {"_ag2/deliver"} == {request["method"] for request in client.extensions}
    return [request["params"] for request in client.extensions]


async def ended(state: Path) -> str:
    """The state of the only delivery once it has ended and was told."""
    while True:
        with Outbox(state / "outbox.db") as outbox:
            (entry,) = outbox.entries()
        if entry.told:
            return entry.state
        await trio.sleep(0.05)


async def test_declares(work: Path, state: Path) -> None:
    """It says in its answer that it delivers, so that a worker starts a listener."""
    async with demo_client(work, state) as client:
        said = await client.initialize()
    assert declared(said["agentCapabilities"])


async def test_a_report_after_the_turn(work: Path, state: Path, meta: Json) -> None:
    """A turn's process queues the report, and after its end the listener's process sends it."""
    async with listener(work, state, delivered()) as late:
        async with demo_client(work, state, TURN) as client:
            session = await client.new(work)
            turn = await client.turn(session, ASKED, meta=meta)
            assert "will come into this room by itself" in turn.text
            assert "[file:" not in turn.text
            assert [] == late.extensions
        (params,) = await asked(late)
        assert "delivered" == await ended(state)
        assert [] == client.extensions

    assert {"id", "binding", "text", "files"} == set(params)
    assert BINDING == params["binding"]
    (file,) = params["files"]
    report = trio.Path(unquote(urlsplit(file["uri"]).path))
    assert meta["ag2/delivery"]["export_dir"] == str(report.parent)
    assert (await report.read_text()).startswith("# ")
    assert f"`{report.name}`" in params["text"]
    (permission,) = client.asked
    assert [{"path": str(report)}] == permission["toolCall"]["locations"]


async def test_what_waits_is_sent_when_a_listener_comes(
    work: Path, state: Path, meta: Json
) -> None:
    """A turn's connection sends nothing that waits; a listener does, after its handshake."""
    queue(state, meta)
    async with demo_client(work, state, TURN) as client:
        assert "milk" in (await client.turn(await client.new(work), "read notes.txt")).text
        assert [] == client.extensions
    async with listener(work, state, delivered()) as late:
        assert 1 == len(await asked(late))
        assert "delivered" == await ended(state)
        assert [False] == [request["early"] for request in late.extensions]


async def test_a_lost_connection(work: Path, state: Path, meta: Json) -> None:
    """A listener that is killed while the worker works sends exactly the same again."""
    queue(state, meta)
    async with listener(work, state, None) as late:
        first = await asked(late)
        late.process.kill()
    async with listener(work, state, delivered()) as late:
        assert first == await asked(late)
        assert "delivered" == await ended(state)


@pytest.mark.parametrize(
    "answer",
    [
        {
            "error": {
                "code": -32010,
                "message": "x",
                "data": {"outcome": "retry", "retry_after_s": 1},
            }
        },
        {
            "error": {
                "code": -32603,
                "message": "x",
                "data": {"outcome": "retry", "retry_after_s": 0},
            }
        },
    ],
)
async def test_a_retry(work: Path, state: Path, meta: Json, answer: Json) -> None:
    """A Retry is asked again on the same connection."""
    queue(state, meta)
    async with listener(work, state, answer, delivered()) as late:
        first, again = await asked(late, 2)
        assert first == again
        assert "delivered" == await ended(state)


async def test_a_final(work: Path, state: Path, meta: Json) -> None:
    """A Final is the end."""
    final = {"code": -32011, "message": "x", "data": {"outcome": "final", "reason": "rejected"}}
    queue(state, meta)
    async with listener(work, state, {"error": final}) as late:
        await asked(late)
        assert "final" == await ended(state)


async def test_a_client_that_takes_none_after_all(work: Path, state: Path, meta: Json) -> None:
    """After "method not found" that connection is asked nothing more, and the result waits."""
    queue(state, meta, 6)
    async with demo_client(work, state, LISTENER) as late:
        await late.until(lambda: len(late.extensions) >= 1)
        # each of the four runs may have asked before the first answer came; a turn shows it lives
        assert "milk" in (await late.turn(await late.new(work), "read notes.txt")).text
        assert 4 >= len(late.extensions)
    with Outbox(state / "outbox.db") as outbox:
        assert ["waiting"] * 6 == [entry.state for entry in outbox.entries()]


@pytest.mark.parametrize(
    "told", [None, {}, {"ag2/delivery": None}, {"ag2/delivery": {"binding": "x"}}]
)
async def test_a_worker_without_deliveries(work: Path, state: Path, told: Json | None) -> None:
    """Without a binding it says so, does the work in the turn and answers with the file."""
    async with demo_client(work, state) as client:
        turn = await client.turn(await client.new(work), ASKED, meta=told)
        assert "takes no results after a turn" in turn.text
        assert "[file: report.md]" in turn.text
        assert (work / "report.md").exists()
        assert [] == client.extensions
    assert not (state / "outbox.db").exists()


async def test_a_refused_report(work: Path, state: Path, meta: Json) -> None:
    """Where the permission is refused nothing is queued."""
    async with demo_client(work, state, TURN) as client:
        client.choose = lambda _: None
        turn = await client.turn(await client.new(work), ASKED, meta=meta)
    assert "I wrote nothing" in turn.text
    assert not (state / "outbox.db").exists()
    assert [] == list(await trio.Path(meta["ag2/delivery"]["export_dir"]).iterdir())


async def test_a_broken_outbox(work: Path, tmp_path: Path, meta: Json) -> None:
    """An outbox that cannot be used is said, the work is done in the turn, and nobody crashes."""
    state = tmp_path
    (state / "outbox.db").write_bytes(b"not an outbox" * 99)
    async with listener(work, state, delivered()) as late:
        turn = await late.turn(await late.new(work), ASKED, meta=meta)
        assert "could not queue" in turn.text
        assert "[file: report.md]" in turn.text
        await trio.Path(state / "outbox.db").unlink()
        assert "will come" in (await late.turn(await late.new(work), ASKED, meta=meta)).text
