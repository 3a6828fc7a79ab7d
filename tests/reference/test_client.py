"""``ag2-relay-client`` 0.1.0, unchanged, against our relay."""

import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from agentconnect.embedded.answers import PLACEHOLDER
from agentconnect.embedded.timing import Timing
from tests.support.relay import Relay, running_relay

#: The first one may have to install it.
pytestmark = [pytest.mark.reference, pytest.mark.timeout(900)]


class Client:
    """The reference client in its own process, driven line by line."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout
        self._read = b""

    async def tell(self, **said: object) -> None:
        """Send one line."""
        await self._stdin.send_all(json.dumps(said).encode() + b"\n")

    async def do(self, do: str, **members: object) -> Any:
        """Run one command and return what came of it."""
        await self.tell(do=do, **members)
        while b"\n" not in self._read:
            part = await self._stdout.receive_some()
            assert part, "the reference client ended"
            self._read += part
        line, _, self._read = self._read.partition(b"\n")
        return json.loads(line)

    async def next(self, timeout: float = 20) -> Any:
        """The next task."""
        return await self.do("next", timeout=timeout)


@asynccontextmanager
async def client_of(relay: Relay, python: Path, folder: Path) -> AsyncIterator[Client]:
    """A reference client on the relay's first agent."""
    root = folder / "root"
    root.mkdir()
    script = Path(__file__).with_name("drive_client.py")
    async with trio.open_nursery() as work:
        run = partial(
            trio.run_process,
            [str(python), "-I", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            check=False,
            env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        )
        process = await work.start(run)
        client = Client(process)
        await client.tell(
            token=relay.token, state_dir=str(folder / "state"), root=str(root), poll_wait=2
        )
        try:
            yield client
        finally:
            process.kill()


async def test_client_takes_acks_edits_and_completes(reference: Path, tmp_path: Path) -> None:
    """The client takes a task, acks it, edits its placeholder, and closes it with [REPLIED]."""
    async with (
        running_relay(tmp_path / "relay") as relay,
        client_of(relay, reference, tmp_path) as client,
    ):
        source = await relay.say("hello")
        task = await client.next()
        assert (task["body"], task["tier"], task["room"]) == ("hello", "owner", relay.room)
        placeholder = await client.do("message", room=relay.room, body=PLACEHOLDER)
        assert placeholder.startswith("$")
        assert await client.do("edit", room=relay.room, event=placeholder, body="Hi.")
        await client.do("complete", id=task["id"], body="[REPLIED]\n\nHi.")
        assert await relay.relay.answer_to(source) == "Hi."
        assert await relay.bodies() == ["hello", "Hi."]
        assert await relay.reactions(source) == [("🫡", relay.agent)]


async def test_client_gets_a_picture_and_sends_a_file(reference: Path, tmp_path: Path) -> None:
    """A picture of the room arrives whole; a file named in the answer lands in the room."""
    async with (
        running_relay(tmp_path / "relay") as relay,
        client_of(relay, reference, tmp_path) as client,
    ):
        picture = b"\x89PNG" + bytes(range(256)) * 40
        source = await relay.relay.post_file(relay.room, relay.owner, "a b].png", picture)
        task = await client.next()
        (attachment,) = task["attachments"]
        assert (attachment["ok"], attachment["mime"]) == (True, "image/png")
        assert await trio.Path(attachment["path"]).read_bytes() == picture
        await trio.Path(tmp_path / "root" / "out.txt").write_text("made here")
        await client.do("complete", id=task["id"], body="Here. [file: out.txt]")
        assert await relay.relay.answer_to(source) == "Here."
        kinds = [(m.kind, m.body) for m in await relay.relay.messages(relay.room)]
        assert kinds == [("file", ""), ("file", ""), ("text", "Here.")]


async def test_clients_other_calls_are_understood(reference: Path, tmp_path: Path) -> None:
    """Heartbeat, health, reactions and rejections of the client all succeed."""
    async with (
        running_relay(tmp_path / "relay") as relay,
        client_of(relay, reference, tmp_path) as client,
    ):
        assert await client.do("heartbeat") is True
        assert (await client.do("healthz"))["ok"] is True
        event = await relay.say("reject me")
        task = await client.next()
        other = await client.do("message", room=relay.room, body="a word")
        assert await client.do("react", room=relay.room, event=other, key="👍") is True
        await client.do("reject", id=task["id"], reason="no thanks")
        assert "NO_THANKS" in await relay.relay.answer_to(event)
        assert (await client.do("snapshot"))["state"] == "connected"


async def test_acked_lease_lives_while_the_client_polls(reference: Path, tmp_path: Path) -> None:
    """Over many short windows an acked task is served once, as long as the client polls."""
    timing = Timing(visibility_s=0.5, sweep_s=0.05)
    async with (
        running_relay(tmp_path / "relay", timing=timing) as relay,
        client_of(relay, reference, tmp_path) as client,
    ):
        source = await relay.say("slow one")
        task = await client.next()
        assert await client.next(timeout=4) is None
        (row,) = await relay.relay.tasks_of(source)
        assert (row.attempt, row.acked) == (1, True)
        await client.do("complete", id=task["id"], body="done")
        assert await relay.relay.answer_to(source) == "done"
