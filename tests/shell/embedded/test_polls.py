"""A poll whose client leaves between the lease and the answer, driven without a socket."""

from pathlib import Path

import pytest
import trio
import trio.testing

from agentconnect.core.errors import WorkspaceHeldError
from agentconnect.embedded import tasks
from agentconnect.embedded.house import House
from agentconnect.embedded.http1 import Message
from agentconnect.embedded.local import EmbeddedRelay
from agentconnect.embedded.timing import Timing
from agentconnect.embedded.wire import Poll
from tests.support.relay import running_relay


@pytest.mark.parametrize("leaves_at", ["http.response.start", "http.response.body"])
async def test_lease_is_given_back_when_its_answer_reached_nobody(
    tmp_path: Path, leaves_at: str
) -> None:
    """The client leaves while it is answered: the task waits again and lost no attempt."""
    house = House(tmp_path, Timing(), None)
    try:
        await house.open()
        relay = EmbeddedRelay(house)
        setup = await relay.ensure_local("Helper", "Olivia")
        source = await relay.post(setup.room_id, setup.owner_id, "hello")
        gone = trio.Event()
        sent: list[str] = []

        async def receive() -> Message:
            if not sent:
                await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message["type"])
            if message["type"] == leaves_at:
                gone.set()
                await trio.testing.wait_all_tasks_blocked()

        secret = setup.agent_token.partition("|")[2].encode()
        scope: Message = {
            "type": "http",
            "method": "GET",
            "path": "/v1/tasks",
            "query_string": b"wait=5",
            "headers": [(b"authorization", b"Bearer " + secret)],
        }
        await Poll(house)(scope, receive, send)
        (row,) = await house.store.read(lambda tx: tasks.of_source(tx, source))
        assert (row.state, row.attempt) == ("queued", 0)
    finally:
        await house.aclose()


async def test_one_relay_per_folder(tmp_path: Path) -> None:
    """A second relay on the same folder is refused by name of the first; later it may start."""
    async with running_relay(tmp_path):
        with pytest.raises(WorkspaceHeldError, match=r"pid \d+"):
            async with running_relay(tmp_path):
                pass
    async with running_relay(tmp_path) as relay:
        assert await relay.bodies() == []
