"""The worker of ``ag2-agent-connect`` 0.2.1, unchanged, as a real process against our relay."""

import json
import os
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from agentconnect.embedded.answers import PLACEHOLDER
from tests.support.relay import Relay, running_relay

#: The first one may have to install it.
pytestmark = [pytest.mark.reference, pytest.mark.timeout(900)]

_CODEX = """#!/bin/sh
for last; do :; done
echo "codex heard: $last"
"""


@asynccontextmanager
async def worker_of(
    relay: Relay, python: Path, folder: Path, **settings: str
) -> AsyncIterator[trio.Process]:
    """The reference worker on the relay's first agent, with a folder of its own."""
    tools = folder / "tools"
    tools.mkdir()
    codex = tools / "codex"
    codex.write_text(_CODEX)
    codex.chmod(0o755)
    (folder / "repo").mkdir()
    env = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "HOME": str(folder),
        "AGENT_CONNECT_TOKEN": relay.token,
        "AGENT_CONNECT_WORKSPACE": str(folder / "workspace"),
        "AGENT_CONNECT_REPO": str(folder / "repo"),
        "AGENT_CONNECT_POLL": "0.05",
        **settings,
    }
    async with trio.open_nursery() as work:
        run = partial(trio.run_process, [str(python), "-m", "agent_connect"], check=False, env=env)
        process = await work.start(run)
        try:
            yield process
        finally:
            process.kill()


async def _saw(relay: Relay, room: str, wanted: str) -> list[str]:
    """Follow a room's messages until one reads ``wanted``; every text it showed meanwhile."""
    seen: list[str] = []
    while wanted not in seen:
        for body in await relay.bodies(room):
            if body not in seen:
                seen.append(body)
        if wanted not in seen:
            with trio.move_on_after(0.2):
                await relay.relay.changed()
    return seen


async def test_worker_with_codex_answers_in_its_placeholder(
    reference: Path, tmp_path: Path
) -> None:
    """Task, ack, placeholder, answer edited into it, task closed: nothing else is in the room."""
    async with (
        running_relay(tmp_path / "relay") as relay,
        worker_of(relay, reference, tmp_path, AGENT_CONNECT_ADAPTER="codex"),
    ):
        source = await relay.say("say it back")
        with trio.fail_after(110):
            answer = await relay.relay.answer_to(source)
        assert answer.startswith("codex heard:")
        assert "say it back" in answer
        asked, reply = await relay.relay.messages(relay.room)
        assert (asked.body, reply.body, reply.edited) == ("say it back", answer, True)
        assert reply.placeholder
        assert not reply.pending
        assert await relay.reactions(source) == [("🫡", relay.agent)]


async def test_worker_with_an_acp_agent_shows_its_placeholder_first(
    reference: Path, tmp_path: Path
) -> None:
    """With its ACP adapter the placeholder is in the room while the agent works."""
    agent = Path(__file__).parents[1] / "support" / "fake_agent.py"
    options = json.dumps({"state": str(tmp_path / "sessions.json"), "load": True})
    command = shlex.join([sys.executable, str(agent), options])
    settings = {"AGENT_CONNECT_ADAPTER": "acp", "AGENT_CONNECT_ACP_COMMAND": command}
    async with (
        running_relay(tmp_path / "relay") as relay,
        worker_of(relay, reference, tmp_path, **settings),
    ):
        seen: list[str] = []
        with trio.fail_after(110):
            async with trio.open_nursery() as watch:

                async def follow() -> None:
                    seen.extend(await _saw(relay, relay.room, PLACEHOLDER))

                watch.start_soon(follow)
                source = await relay.say("#sleep 0.5\n#say All done.")
                assert "All done." in await relay.relay.answer_to(source)
        assert PLACEHOLDER in seen
        _, reply = await relay.relay.messages(relay.room)
        assert "All done." in reply.body


async def test_worker_refuses_a_guest_aloud(reference: Path, tmp_path: Path) -> None:
    """A guest's task reaches the worker as a guest's, and its refusal the room."""
    agent = Path(__file__).parents[1] / "support" / "fake_agent.py"
    options = json.dumps({"state": str(tmp_path / "sessions.json")})
    settings = {
        "AGENT_CONNECT_ADAPTER": "acp",
        "AGENT_CONNECT_ACP_COMMAND": shlex.join([sys.executable, str(agent), options]),
    }
    async with (
        running_relay(tmp_path / "relay") as relay,
        worker_of(relay, reference, tmp_path, **settings),
    ):
        guest, _ = await relay.relay.add_person(relay.room, "Gus")
        with trio.fail_after(110):
            answer = await relay.relay.ask(relay.room, guest, "#say never", 60)
        assert answer is not None
        assert "trust" in answer
        assert "never" not in await relay.bodies()
