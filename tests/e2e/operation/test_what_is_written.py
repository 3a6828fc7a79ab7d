"""One run from end to end with planted words: which of them are in which file afterwards.

Secrets are in no file of the worker at all. What people and the agent say is only where it must
be, so that nothing is lost: in the journal (a message until it is answered, an answer until the
relay has it) and in the folders of attachments. No line of a log holds either; what an agent writes
on its stderr before it dies is logged without secrets, since it is all there is to say why.
"""

import json
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from agentconnect.embedded.faults import Fault
from tests.support.relay import Relay, running_relay
from tests.support.worker import Worker, end, environment, start, until

AGENT = Path(__file__).parents[2] / "support" / "fake_agent.py"

# what is planted, each word once in the world
ASKED, ANSWERED, STEP, THOUGHT = "quagga-asked", "quagga-answered", "quagga-step", "quagga-thought"
JUNK, ERROR, CAPTION, FILE = "quagga-junk", "quagga-error", "quagga-caption", "quagga-file"
CONTENT = (ASKED, ANSWERED, STEP, THOUGHT, JUNK, ERROR, CAPTION, FILE)

AGENT_KEY = "sk-plantedinagentsenvironment"
IN_MESSAGE = "ghp_plantedinamessage0123456789"
IN_ANSWER = "AKIAPLANTEDINANSWER1"
SETTING = "planted-bearer-of-a-dialled-agent"
OLD_TOKEN = "planted-older-token"


class Run:
    """The worker processes of one run, over restarts."""

    def __init__(self, relay: Relay, folder: Path, form: str) -> None:
        self.relay = relay
        self.folder = folder
        options = {"state": str(folder / "agent.json")}
        self.env = environment(
            relay.token,
            folder,
            AGENT_CONNECT_ACP_COMMAND=shlex.join([sys.executable, str(AGENT), json.dumps(options)]),
            AGENT_CONNECT_ACP_TOKEN=SETTING,
            REMOTE_TASK_TOKEN=OLD_TOKEN,
            AGENT_CONNECT_LOG=form,
            AGENT_API_KEY=AGENT_KEY,
        )
        self.worker: Worker

    async def start(self) -> None:
        """Start a worker; it is connected."""
        self.worker = start(self.env, self.folder)
        await until(lambda: self.worker.connected(), "a connected worker")

    async def ask(self, *lines: str, sender: str = "") -> str:
        """Ask with a script for the agent; the answer."""
        body = "\n".join((f"{ASKED} {IN_MESSAGE}", *lines))
        answer = await self.relay.relay.ask(self.relay.room, sender or self.relay.owner, body, 60)
        assert answer is not None, f"no answer to {lines}: {self.worker.output()}"
        return answer


async def everything_that_can_happen(run: Run) -> None:
    """Turns that end well and badly, files both ways, tiers, errors of the relay, two restarts."""
    relay = run.relay
    await run.start()
    told = await run.ask(f"#think {THOUGHT}", f"#tool t read {STEP}", f"#say {ANSWERED}")
    assert ANSWERED in told
    assert AGENT_KEY in await run.ask("#env AGENT_API_KEY AGENT_CONNECT_TOKEN")
    await run.ask(f"#junk {JUNK}", f"#say {ANSWERED} {IN_ANSWER}")
    await run.ask(f"#error -32603 {ERROR}")
    await run.ask("#flood-stderr 4000", "#crash 9")
    assert "passwd" in await run.ask("#say look\n#say [file: /etc/passwd]")
    await run.ask("#ask-write /etc/quagga", f"#say {ANSWERED}")
    (run.folder / "repo" / "made.txt").write_text(FILE)
    await run.ask("#say here", "#say [file: made.txt]")
    event = await relay.relay.post_file(
        relay.room, relay.owner, "notes.txt", FILE.encode(), caption=f"{CAPTION}\n#say seen"
    )
    await relay.relay.answer_to(event)
    guest, _ = await relay.relay.add_person(relay.room, "Gus", "guest")
    await run.ask("#say never", sender=guest)
    relay.faults.plan(Fault(method="GET", path="/v1/tasks", status=401))
    relay.faults.plan(Fault(method="GET", path="/v1/tasks", status=502, skip=1))
    relay.faults.plan(Fault(method="POST", path="/v1/results", status=503, body=b"quagga-error"))
    await run.ask(f"#say {ANSWERED}")
    await relay.say(f"{ASKED}\n#say {ANSWERED}\n#hang")
    await until(lambda: bool(run.worker.status.get("tasks_running")), "a running turn")
    assert await run.worker.stop() == 0
    await run.start()
    await run.ask("#history")
    await run.worker.kill()
    await run.start()
    await run.ask(f"#say {ANSWERED}")
    assert await run.worker.stop(signal.SIGINT) == 0


def found(folder: Path, word: str) -> list[str]:
    """The files below a folder that hold a word."""
    data = word.encode()
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(str(path.relative_to(folder)) for path in files if data in path.read_bytes())


def holds_content(path: str) -> bool:
    """The places where what was said must be kept, and for how long is said above."""
    return path.startswith(("relay/default/journal.db", "relay/default/media/", "inline/"))


@pytest.mark.parametrize("form", ["text", "json"])
async def test_nothing_planted_is_found_where_it_must_not_be(
    tmp_path: Path, home: Path, form: str
) -> None:
    """Secrets nowhere, content in the journal alone; the log tells of every task all the same."""
    async with running_relay(tmp_path / "relay") as relay:
        run = Run(relay, tmp_path, form)
        try:
            await everything_that_can_happen(run)
        finally:
            with trio.CancelScope(shield=True):
                await end(run.worker)
        tasks = [row async for row in _tasks(relay)]
    log = run.worker.output()
    state = run.worker.state_dir
    for secret in (relay.secret, relay.token, SETTING, OLD_TOKEN):
        assert secret not in log
        assert found(state, secret) + found(home, secret) == []
    for secret in (AGENT_KEY, IN_MESSAGE, IN_ANSWER):
        assert secret not in log
        assert [path for path in found(state, secret) if not holds_content(path)] == []
    for word in CONTENT:
        assert word not in log
        assert [path for path in found(state, word) if not holds_content(path)] == []
        assert found(home, word) == []
    assert "Traceback" not in log
    for task in tasks:
        assert f"task={task} " in log or f'"task":"{task}"' in log
    lines = [line for line in log.splitlines() if line.startswith("{")]
    told: list[dict[str, Any]] = [json.loads(line) for line in lines]
    if form == "json":
        events = {line.get("event") for line in told}
        assert {"taken", "turn", "posted", "state", "relay"} <= events
        turns = [line for line in told if line.get("event") == "turn"]
        assert {"completed", "failed"} <= {line["reason"] for line in turns}
        assert all(line["seconds"] >= 0 and line["room"] == relay.room for line in turns)
    modes = {path.stat().st_mode & 0o077 for path in state.rglob("*")}
    assert modes == {0}


async def _tasks(relay: Relay) -> Any:
    await trio.lowlevel.checkpoint()
    for message in await relay.relay.messages(relay.room):
        for row in await relay.relay.tasks_of(message.event_id):
            yield row.id
