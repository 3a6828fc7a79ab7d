"""A scripted delivery service, and the folder by which a test talks to the scripted agent."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import trio

from agentconnect.core.delivery.ports import (
    DeliveredResult,
    DeliveryMeta,
    DeliveryRefused,
    Listening,
    NotifyResult,
)
from agentconnect.core.task import SessionKey, Tier

Json = dict[str, Any]
RETRY: Json = {"outcome": "retry", "retry_after_s": 30, "reason": "not now", "expires_at": None}
DELIVERED: Json = {"outcome": "delivered", "delivered": [], "expires_at": None}


class Service:
    """Satisfies ``DeliveryService`` and ``Destinations``."""

    def __init__(self, folder: Path, *, offered: bool = True) -> None:
        self.folder = folder
        self.offered = offered
        self.probes = 0
        self.probe_finds: Callable[[], None] = lambda: None
        self.said = False
        self.states: list[str] = []
        self.delivered: list[Json] = []
        self.noticed: list[Json] = []
        self.gates: dict[str, trio.Event] = {}
        self.forgotten = 0
        self.bound: list[SessionKey] = []
        self._changed = trio.Event()

    def switch(self, *, offered: bool) -> None:
        """From now on they are offered, or not."""
        self.offered = offered
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    @property
    def enabled(self) -> bool:
        return self.offered and self.said

    async def changed(self, known: bool) -> bool:
        while self.enabled == known:
            await self._changed.wait()
        return not known

    async def probe(self) -> None:
        await trio.lowlevel.checkpoint()
        self.probes += 1
        self.probe_finds()

    def declared(self, delivers: bool, *, elsewhere: bool = False) -> None:
        self.said, self.elsewhere = delivers, elsewhere
        self._tell()

    def listening(self, state: Listening) -> None:
        self.states.append(state.value)

    async def deliver(self, params: msgspec.Raw) -> msgspec.Struct:
        asked = msgspec.json.decode(params)
        if not isinstance(asked, dict) or "id" not in asked:
            raise DeliveryRefused(-32602, "Invalid params", {"outcome": "final"})
        self.delivered.append(asked)
        if not self.offered:
            raise DeliveryRefused(-32010, "Not yet", RETRY)
        if (gate := self.gates.get(str(asked["id"]))) is not None:
            try:
                await gate.wait()
            except trio.Cancelled:
                self.forgotten += 1
                raise
        return DeliveredResult(outcome="delivered", delivered=(), expires_at=None)

    async def notify(self, params: msgspec.Raw) -> msgspec.Struct:
        asked = msgspec.json.decode(params)
        if (gate := self.gates.get("notify")) is not None:
            await gate.wait()
        if not asked.get("text"):
            raise DeliveryRefused(-32602, "Invalid params", {"field": "text"})
        self.noticed.append(asked)
        return NotifyResult(posted=True)

    async def delivery(self, key: SessionKey) -> DeliveryMeta | None:
        await trio.lowlevel.checkpoint()
        if not self.enabled or key.tier is not Tier.OWNER:
            return None
        self.bound.append(key)
        export = self.folder / "export" / name_of(key)
        export.mkdir(parents=True, exist_ok=True)
        number = f"{len(self.bound):02}"
        return DeliveryMeta(
            binding=export.name,
            export_dir=str(export),
            expires_at=f"2030-01-01T00:00:{number}Z",
        )

    async def destination(self, key: SessionKey) -> str | None:
        await trio.lowlevel.checkpoint()
        return f"w.{name_of(key)}" if self.enabled and key.tier is Tier.OWNER else None

    def folder_of(self, key: SessionKey) -> str | None:
        return str(self.folder / "export" / name_of(key)) if key in self.bound else None

    async def unattested(self, room: str, sender: str) -> None:
        raise AssertionError("nobody here asks for that")


def name_of(key: SessionKey) -> str:
    """A folder name for a session."""
    return "".join(c if c.isalnum() else "-" for c in key.room)


class LateFolder:
    """What the scripted agents note there, and what the test has them send."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "late"
        self.path.mkdir()
        self._files = 0

    @property
    def starts(self) -> dict[int, Json]:
        """The ``initialize`` of each process, by pid."""
        return {
            int(path.stem.partition("-")[2]): json.loads(path.read_text())
            for path in self.path.glob("init-*.json")
        }

    @property
    def listeners(self) -> list[int]:
        """The processes that were told that deliveries are taken, in order of their start."""
        found = [p for p, params in self.starts.items() if "ag2/deliver" in params["_meta"]]
        return sorted(found, key=lambda pid: (self.path / f"init-{pid}.json").stat().st_mtime_ns)

    def send(self, *messages: Json) -> None:
        """Have the listener's process send these in one go."""
        self._files += 1
        new = self.path / f"new-{self._files}"
        new.write_text("".join(json.dumps(message) + "\n" for message in messages))
        new.rename(self.path / f"send-{self._files}")

    def deliver(self, *ids: str) -> None:
        """Have it send deliveries; a request's id is the delivery's."""
        self.send(*({"id": i, "method": "_ag2/deliver", "params": {"id": i}} for i in ids))

    @property
    def answers(self) -> dict[str, Json]:
        """What came back, by id."""
        try:
            text = (self.path / "answers").read_text()
        except FileNotFoundError:
            return {}
        lines = text[: text.rfind("\n") + 1].splitlines()  # the last one may be half written
        return {answer["id"]: answer for answer in map(json.loads, lines)}

    def results(self, ids: Sequence[str]) -> list[Any]:
        """The results of these, None for one that is missing or an error."""
        answers = self.answers
        return [answers.get(i, {}).get("result") for i in ids]


async def until(check: Callable[[], object], limit_s: float = 60.0) -> None:
    """Wait for a state that is seen in files."""
    with trio.fail_after(limit_s):
        while not check():
            await trio.sleep(0.05)
