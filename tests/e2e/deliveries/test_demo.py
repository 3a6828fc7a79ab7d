"""The bundled agent delivers after its turn: both halves, the relay between them."""

import os
import signal
from pathlib import Path
from typing import Any

import trio

from agentconnect.embedded.faults import Fault, Faults
from agentconnect.embedded.records import Message
from tests.support.relay import Relay, running_relay
from tests.support.worker import Worker, alive, running_worker, until

ASKED = "build this in the background and send me the report, in 1 second"
NO_SPARE = {"AGENT_CONNECT_ACP_SPARE": "0"}


async def ask(relay: Relay, body: str) -> str:
    """Ask in the room and wait for the answer."""
    answer = await relay.relay.ask(relay.room, relay.owner, body, 60)
    assert answer is not None, f"no answer to {body!r}"
    return answer


async def from_agent(relay: Relay) -> list[Message]:
    """What the agent identity has in the room now."""
    return [m for m in await relay.relay.messages(relay.room) if m.sender == relay.agent]


def block(worker: Worker) -> dict[str, Any]:
    """The status file's word on deliveries."""
    found: dict[str, Any] = worker.status.get("delivery") or {}
    return found


async def offered(worker: Worker) -> None:
    """Deliveries are offered, and the agent listens."""
    await until(
        lambda: (block(worker).get("state"), block(worker).get("listener")) == ("enabled", "up"),
        "a listener",
    )


async def delivered(worker: Worker) -> None:
    """All that was accepted is in the room."""
    await until(
        lambda: bool(block(worker).get("last_delivered_at")) and not block(worker)["in_progress"],
        "a delivery",
    )


async def test_build_this_in_the_background(tmp_path: Path) -> None:
    """The turn ends with a promise; the report comes by itself, whole and once."""
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path) as worker,
    ):
        await offered(worker)
        answer = await ask(relay, ASKED)
        assert "will come into this room by itself" in answer
        await delivered(worker)
        said, report, done = await from_agent(relay)
        assert answer == said.body
        assert done.body.startswith("What you asked for is done")
        async with relay.visitor() as browser:
            page = (await browser.get(f"/page/media/{relay.relay.domain}/{report.media_id}")).text
        assert page.startswith("# ")
        assert (1, 0) == (block(worker)["bindings"], block(worker)["in_flight"])
        # the turn's process put it into a folder of the session's own, and nowhere else
        (kept,) = (tmp_path / "workspace" / "export").glob("*/report.md")
        assert page == kept.read_text()
        assert [] == list((tmp_path / "repo").iterdir())


async def test_a_relay_without_keys(tmp_path: Path) -> None:
    """No listener, no binding: the agent does the work in the turn and says so."""
    faults = Faults()
    faults.plan(Fault(method="GET", path="/v1/capabilities", status=404, times=10_000))
    async with (
        running_relay(tmp_path / "relay", faults=faults) as relay,
        running_worker(relay.token, tmp_path, **NO_SPARE) as worker,
    ):
        await until(lambda: "safely" in block(worker).get("reason", ""), "the reason")
        assert ("disabled", "down") == (block(worker)["state"], block(worker)["listener"])
        assert [] == [pid for pid in worker.children() if alive(pid)]
        assert "takes no results after a turn" in await ask(relay, ASKED)


async def test_a_listener_that_is_killed_amid_a_delivery(tmp_path: Path) -> None:
    """The delivery goes on, a new listener comes, and the report is there once."""
    faults = Faults()
    held = faults.plan(Fault(method="POST", path="/media", hold=trio.Event()))
    async with (
        running_relay(tmp_path / "relay", faults=faults) as relay,
        running_worker(relay.token, tmp_path, **NO_SPARE) as worker,
    ):
        await offered(worker)
        (listener,) = [pid for pid in worker.children() if alive(pid)]
        await ask(relay, ASKED)
        with trio.fail_after(60):
            await held.reached.wait()
        os.kill(listener, signal.SIGKILL)
        await until(lambda: block(worker)["listener"] == "restarting", "a pause")
        assert 1 == block(worker)["in_progress"]
        assert held.hold is not None
        held.hold.set()
        await delivered(worker)
        await offered(worker)
        assert 3 == len(await from_agent(relay))
