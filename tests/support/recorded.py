"""A recorded agent: plays its side of a transcript and checks ours against the recorded client's.

Lines of the agent are sent as they were, in order, with our own request ids in place of the
recorded client's. Where the recording has a line of the client, ours must have sent its like: the
same method with the same shape of params, the same answer to the same request.
"""

import json
from pathlib import Path
from typing import Any

import trio
import trio.testing

from agentconnect.acp.agent import Agent
from agentconnect.acp.links import EndPace
from agentconnect.acp.process import Spawner

Json = dict[str, Any]
FOLDER = Path(__file__).parents[1] / "cases" / "transcripts"


class Recording:
    """The lines of one file."""

    def __init__(self, name: str) -> None:
        text = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8")
        self.lines: list[Json] = [json.loads(line) for line in text.splitlines()]

    def prompts(self) -> list[Json]:
        """The recorded prompts, in order."""
        return [
            line["msg"]
            for line in self.lines
            if line["dir"] == "c2a" and line["msg"].get("method") == "session/prompt"
        ]

    def turn(self, call_id: int) -> list[Json]:
        """What the agent wrote from a prompt up to its answer, that included."""
        found: list[Json] = []
        for line in self.lines:
            message = line["msg"]
            if line["dir"] == "c2a":
                if message.get("id") == call_id and "method" in message:
                    found = [{}]
            elif line["dir"] == "a2c" and found:
                found.append(message)
                if message.get("id") == call_id and "method" not in message:
                    return found[1:]
        raise AssertionError(f"no answer to {call_id}")


class Player:
    """One connection; a ``Source`` of the pool."""

    umask = -1

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.cancel_due = trio.Event()
        self.ended = trio.Event()
        self.differences: list[str] = []
        self.finished = trio.Event()
        self._ours: list[Json] = []
        self._arrived = trio.Event()
        self._ids: dict[int, int] = {}

    def agent(self, spawner: Spawner) -> Agent:
        """Begun when the pool begins it."""
        return Agent(self._connect)

    def not_started(self, error: OSError) -> str:
        return str(error)

    async def _connect(self, wires: trio.Nursery) -> "PlayedLink":
        ours, theirs = trio.testing.memory_stream_pair()
        wires.start_soon(self._listen, theirs)
        wires.start_soon(self._play, theirs)
        return PlayedLink(ours, self.ended)

    async def _listen(self, stream: trio.abc.Stream) -> None:
        buffer = b""
        async for block in stream:
            *lines, buffer = (buffer + block).split(b"\n")
            self._ours += [json.loads(line) for line in lines]
            self._arrived.set()

    async def _play(self, stream: trio.abc.Stream) -> None:
        for line in self.recording.lines:
            if line["dir"] == "c2a":
                if line["msg"].get("method") == "session/cancel":
                    self.cancel_due.set()
                await self._expect(line["msg"])
            elif line["dir"] == "a2c":
                message = dict(line["msg"])
                if "method" not in message and message.get("id") in self._ids:
                    message["id"] = self._ids[message["id"]]
                await stream.send_all(json.dumps(message).encode() + b"\n")
        self.finished.set()

    async def _expect(self, recorded: Json) -> None:
        """Wait for our like of a recorded line; requests may come in another order."""
        while True:
            for message in self._ours:
                if self._alike(recorded, message):
                    self._ours.remove(message)
                    self._compare(recorded, message)
                    return
            self._arrived = trio.Event()
            await self._arrived.wait()

    def _alike(self, recorded: Json, ours: Json) -> bool:
        if "method" in recorded:
            return bool(recorded["method"] == ours.get("method"))
        return "method" not in ours and recorded["id"] == ours["id"]

    def _compare(self, recorded: Json, ours: Json) -> None:
        if "method" in recorded and "id" in recorded:
            self._ids[recorded["id"]] = ours["id"]
        mine, theirs = matters(ours), matters(recorded)
        if mine != theirs:
            self.differences.append(f"{theirs} was recorded, {mine} was sent")


def matters(message: Json) -> Json:
    """What of a client's line must be the same."""
    if "method" not in message:
        return {"result": message.get("result"), "error": message.get("error")}
    params = json.loads(json.dumps(message["params"]))
    params.pop("clientInfo", None)
    for block in params.get("prompt", []):
        if block["type"] == "text":  # ours has the framing in front
            block["text"] = block["text"].rpartition("]\n\n")[2]
    return {"method": message["method"], "id": "id" in message, "params": params}


class PlayedLink:
    """An agent that is no process."""

    pid = 0
    returncode: int | None = None
    running = True

    def __init__(self, stream: trio.abc.Stream, ended: trio.Event) -> None:
        self.stdin: trio.abc.SendStream = stream
        self.stdout: trio.abc.ReceiveStream = stream
        self._ended = ended

    def stderr_tail(self, characters: int = 500) -> str:
        return ""

    async def drain_stderr(self) -> None:
        await trio.lowlevel.checkpoint()

    async def exited(self) -> object:
        await self._ended.wait()
        return None

    async def end(self, pace: EndPace) -> None:
        self._ended.set()
        await self.stdin.aclose()

    async def close(self) -> None:
        await self.stdin.aclose()
