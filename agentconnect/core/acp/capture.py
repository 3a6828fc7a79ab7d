"""Which of an agent's chunks are one message, and which were said again (acp.md §6).

Owns the bookkeeping of one turn: the numbering of blocks, the superseded ones, the tool calls by id
and the ids that must not be heard of in the next turn. Joining the text is not done here.
"""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from agentconnect.core.acp.permission import merged
from agentconnect.core.acp.updates import ToolPatch

MAX_REMEMBERED_IDS = 10_000
"""Ids of finished turns and replays; the oldest go first."""


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """Where a chunk goes; ``superseded`` are earlier blocks that it says again."""

    block: int
    superseded: tuple[int, ...] = ()


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool message changed, after merging. At most one of the flags is true."""

    tool_id: str
    title: str
    kind: str
    started: bool = False
    retitled: bool = False
    finished: bool = False
    failed: bool = False


class _Block:
    """An identified block that may still turn out to have been said again."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.parts: list[str] = []
        self.size = 0

    def text(self) -> str:
        whole = "".join(self.parts)
        self.parts = [whole]
        return whole


class Blocks:
    """Numbers the blocks of one turn; a new number at a changed message id or any tool activity."""

    def __init__(self) -> None:
        self._number = 0
        self._message_id: str | None = None
        self._current: _Block | None = None
        self._open = False
        self._earlier: list[_Block] = []
        self._matched = (
            0  # how far the current block repeats the newest earlier one; -1: it differs
        )

    def chunk(self, text: str, message_id: str | None) -> Placed:
        """Place one non-empty chunk of answer text."""
        if self._open and message_id != self._message_id:
            self._next(repeatable=self._message_id is not None and message_id is not None)
        if not self._open:
            self._open = True
            self._message_id = message_id
            self._current = _Block(self._number) if message_id is not None else None
        superseded: tuple[int, ...] = ()
        if self._current is not None:
            self._current.parts.append(text)
            self._current.size += len(text)
            superseded = self._superseded(text)
        return Placed(block=self._number, superseded=superseded)

    def tool(self) -> None:
        """Something ran: the text before it is said for good."""
        if self._open:
            self._next(repeatable=False)
        self._earlier.clear()

    def alone(self) -> int:
        """The number of a block that holds one item of its own (a link)."""
        self.tool()
        self._number += 1
        return self._number - 1

    def _next(self, *, repeatable: bool) -> None:
        if not repeatable:
            self._earlier.clear()
        elif self._current is not None:
            self._earlier.append(self._current)
        self._matched = 0
        self._current = None
        self._open = False
        self._number += 1

    def _superseded(self, text: str) -> tuple[int, ...]:
        found: list[int] = []
        assert self._current is not None
        while self._earlier and self._matched >= 0:
            earlier = self._earlier[-1].text()
            if found:  # the one before it is compared from the start
                text = self._current.text()
            piece = earlier[self._matched : self._matched + len(text)]
            if not text.startswith(piece):
                self._matched = -1
            elif self._matched + len(piece) < len(earlier):
                self._matched += len(piece)
                break
            else:
                found.append(self._earlier.pop().number)
                self._matched = 0
        return tuple(found)


class Tools:
    """The tool calls of one turn, each known by what all its messages said together."""

    def __init__(self) -> None:
        self._calls: dict[str, ToolPatch] = {}
        self._finished: set[str] = set()
        self._shown: dict[str, tuple[str, str]] = {}

    def known(self, patch: ToolPatch) -> ToolPatch:
        """``patch`` over the earlier fields of its call, remembered."""
        call = merged(self._calls.get(patch.tool_id, ToolPatch()), patch)
        self._calls[patch.tool_id] = call
        return call

    def step(self, patch: ToolPatch) -> tuple[Step, ...]:
        """What to show of one ``tool_call`` or ``tool_call_update``."""
        call = self.known(patch)
        face = (call.title or "", call.kind or "other")
        base = Step(tool_id=call.tool_id, title=face[0], kind=face[1])
        steps: list[Step] = []
        if call.tool_id not in self._shown:
            steps.append(replace(base, started=True))
        elif self._shown[call.tool_id] != face:
            steps.append(replace(base, retitled=True))
        self._shown[call.tool_id] = face
        if call.status in ("completed", "failed") and call.tool_id not in self._finished:
            self._finished.add(call.tool_id)
            failed = call.status == "failed"
            steps.append(replace(base, finished=True, failed=failed))
        return tuple(steps)

    def ids(self) -> Iterable[str]:
        """Every call seen in this turn."""
        return self._calls.keys()


class StaleIds:
    """Message and tool ids that belong to history: whatever carries one is late."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def add(self, ids: Iterable[str | None]) -> None:
        """Remember ids of a finished turn or of a replay; the oldest are forgotten."""
        for each in ids:
            if each:
                self._ids[each] = None
        while len(self._ids) > MAX_REMEMBERED_IDS:
            del self._ids[next(iter(self._ids))]

    def __contains__(self, each: str | None) -> bool:
        return each is not None and each in self._ids
