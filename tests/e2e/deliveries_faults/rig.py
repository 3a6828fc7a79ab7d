"""One case: a relay with planned faults, worker processes, and an agent that delivers late.

What is claimed is read where others would look: the room's own messages, the record on disk beside
the running worker, the agent's own notes of what it was told.
"""

import json
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import trio

from agentconnect.core.errors import StoreUnreadableError
from agentconnect.deliver import Destination, Outbox
from agentconnect.embedded.records import Message
from agentconnect.embedded.timing import Timing
from agentconnect.store.delivery_record import read_record
from tests.e2e.faults.stand import LIMIT_S, Log, Stand, end
from tests.support.relay import Relay, running_relay
from tests.support.worker import until

AGENT = Path(__file__).parent / "agent.py"
KEYED = "/v1/rooms/"
TURN_WORDS = ("later ", "turn ", "said: ", "⏳", "✅")
"""How what the agent says in its turns begins, and what the worker says in the same messages."""

Json = dict[str, Any]


class Late(Stand):
    """A stand whose agent delivers after its turns."""

    def __init__(self, relay: Relay, faults: Log, folder: Path) -> None:
        super().__init__(relay, faults, folder)
        self.calls = faults
        self.store = folder / "workspace" / "deliveries.db"
        self.export = folder / "workspace" / "export"
        for name in ("later", "requests", "answers"):
            (folder / name).mkdir(exist_ok=True)

    def env(self, **settings: str) -> dict[str, str]:
        """The environment of a worker: no spare process, so that the listener is the one child."""
        command = f"{sys.executable} {AGENT} {self.folder}"
        chosen = {"AGENT_CONNECT_ACP_COMMAND": command, "AGENT_CONNECT_ACP_SPARE": "0"}
        return super().env(**{**chosen, **settings})

    @property
    def block(self) -> Json:
        """The newest worker's word on deliveries; empty while the file is an earlier one's."""
        status = self.worker.status
        ours = status.get("pid") == self.worker.process.pid
        return (status.get("delivery") or {}) if ours else {}

    async def listening(self, **settings: str) -> None:
        """Start a worker; deliveries are offered and its agent listens."""
        await self.start(**settings)
        await until(
            lambda: (self.block.get("state"), self.block.get("listener")) == ("enabled", "up"),
            f"a listener: {self.block} {self.worker.output()[-2000:]}",
            LIMIT_S,
        )

    async def again(self, **settings: str) -> None:
        """``kill -9`` and another one on the same folders."""
        await self.kill()
        await self.listening(**settings)

    # --- the agent

    async def ask(self, body: str, *, room: str = "", sender: str = "") -> str:
        """One turn; its answer."""
        relay = self.relay
        said = await relay.relay.ask(room or relay.room, sender or relay.owner, body, LIMIT_S)
        assert said is not None, f"no answer to {body!r}: {self.worker.output()}"
        return said

    async def told(self, *, room: str = "", sender: str = "") -> Json:
        """What the agent is told at a prompt in this room: binding, export folder, destination."""
        await self.ask("hello", room=room, sender=sender)
        return self.notes("told.jsonl")[-1]

    async def queue(self, ident: str, text: str | None = None, **files: str) -> None:
        """A turn puts a delivery into the agent's outbox. A file's ``_`` stands for its dot."""
        named = {name.replace("_", "."): content for name, content in files.items()}
        order = {"id": ident, "text": text, "files": named}
        (self.folder / "later" / f"{ident}.json").write_text(json.dumps(order))
        assert f"later {ident}: queued" == await self.ask(f"later {ident}")

    def put(self, to: Json, ident: str, text: str | None = None, **files: str) -> None:
        """The same from a process that runs no turn any more, into the destination of one."""
        for name, content in files.items():
            link(to["export_dir"], name.replace("_", "."), content)
        folder = Path(to["export_dir"])
        paths = [folder / name.replace("_", ".") for name in files]
        with Outbox(self.folder / "outbox.db") as outbox:
            outbox.put(ident, Destination(to["binding"], folder), text, paths)

    @property
    def listener(self) -> int:
        """The pid of the newest listener's process."""
        return int(self.notes("listeners.jsonl")[-1]["pid"])

    def send(self, name: str, params: Mapping[str, Any], method: str = "_ag2/deliver") -> None:
        """The listener's process sends exactly this; its answer is called ``name``."""
        path = self.folder / "requests" / f"{name}.json"
        path.with_suffix(".half").write_text(json.dumps({"method": method, "params": params}))
        path.with_suffix(".half").rename(path)

    def has_answer(self, name: str) -> bool:
        """Whether it is there."""
        return (self.folder / "answers" / f"{name}.json").exists()

    async def answer(self, name: str) -> Json:
        """The answer to a request: ``result``, or the error's ``data`` with its ``code``."""
        await until(
            lambda: self.has_answer(name), f"an answer to {name}: {self.worker.output()}", LIMIT_S
        )
        return plain(json.loads((self.folder / "answers" / f"{name}.json").read_text()))

    async def deliver(self, name: str, params: Mapping[str, Any]) -> Json:
        """Send and wait."""
        self.send(name, params)
        return await self.answer(name)

    def notes(self, name: str) -> list[Json]:
        """The agent's own notes."""
        path = self.folder / name
        text = path.read_text() if path.exists() else ""
        lines = text[: text.rfind("\n") + 1].splitlines()  # the last one may be half written
        return [json.loads(line) for line in lines]

    def sent(self, ident: str) -> Json | None:
        """The params with which the outbox sent a delivery first."""
        for line in self.notes("sent.jsonl"):
            if line.get("params", {}).get("id") == ident:
                return dict(line["params"])
        return None

    def heard(self, ident: str) -> list[Json]:
        """Every answer that the outbox's sender got for a delivery."""
        lines = self.notes("sent.jsonl")
        return [plain(n["answer"]) for n in lines if n.get("id") == ident and "answer" in n]

    # --- what came of it

    async def late(self, room: str = "") -> list[Message]:
        """What the agent has in a room that no turn said."""
        return [m for m in await self.mine(room) if not m.body.startswith(TURN_WORDS)]

    async def came(self, count: int, room: str = "") -> None:
        """So many late messages are in the room."""

        async def there() -> bool:
            return len(await self.late(room)) == count

        await until(there, f"{count} late messages: {self.worker.output()}", LIMIT_S)

    def entry(self, ident: str) -> Json | None:
        """One delivery as it is recorded on disk; None: it is not, or nothing can be read."""
        try:
            found = json.loads(read_record(self.store))["deliveries"].get(ident)
        except StoreUnreadableError:
            return None
        return dict(found) if found else None

    async def ended(self, ident: str) -> Json:
        """The record of a delivery that has an end, its notice included."""

        def is_over() -> bool:
            entry = self.entry(ident)
            return bool(entry and entry["outcome"] and entry["notice"] != "owed")

        await until(is_over, f"the end of {ident}: {self.worker.output()}", LIMIT_S)
        entry = self.entry(ident)
        assert entry is not None
        return entry

    def posts(self) -> int:
        """How many keyed posts have reached the relay."""
        return sum(KEYED in path for _, path in self.calls.calls)

    async def content(self, message: Message) -> str:
        """A file of the room, as a person opens it."""
        async with self.relay.visitor() as browser:
            domain = self.relay.relay.domain
            return (await browser.get(f"/page/media/{domain}/{message.media_id}")).text

    @contextmanager
    def store_held(self) -> Iterator[None]:
        """Nobody else can write to the store meanwhile."""
        with closing(sqlite3.connect(self.store, isolation_level=None, timeout=30)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            yield
            holder.execute("ROLLBACK")


def plain(answer: Json) -> Json:
    """A result as it is; an error's data with its code."""
    if "error" in answer:
        error = answer["error"]
        return {"code": error["code"], **(error.get("data") or {})}
    result: Json = answer["result"]
    return result


def link(folder: str | Path, name: str, content: str | None = None) -> str:
    """The URI of a file of an export folder, written first where there is something to write."""
    path = Path(folder) / name
    if content is not None:
        path.write_text(content)
    return path.as_uri()


@asynccontextmanager
async def late(
    folder: Path, *, timing: Timing | None = None, **options: Any
) -> AsyncIterator[Late]:
    """A case in a folder of its own; whatever it started is killed at the end."""
    await trio.Path(folder).mkdir(parents=True, exist_ok=True)
    faults = Log()
    async with running_relay(folder / "relay", faults=faults, timing=timing, **options) as relay:
        case = Late(relay, faults, folder)
        try:
            yield case
        finally:
            end(case.workers)
