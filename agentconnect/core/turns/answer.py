"""From what an adapter said to what the room reads (worker.md §7, §11.3-§11.6).

Owns the transcript of one turn (blocks, steps, refusals), and the composition of the body out of
its parts. It knows no marker grammar: the shell asks that of ``core.relay.markers`` and hands the
verdict in as :class:`Marked`. Invariant: an event costs constant time, however long the turn is.
"""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from agentconnect.core.destination import units
from agentconnect.core.surrogates import replace_surrogates
from agentconnect.core.turns import wording
from agentconnect.core.turns.events import (
    BlockSuperseded,
    Done,
    Event,
    FileOffered,
    MessageChunk,
    PermissionAsked,
    Reason,
    ToolFinished,
    ToolRetitled,
    ToolStarted,
)

EDIT_MAX_CHARS = 4000  # the relay's own limit (relay-wire.md §13), in either way of counting


class Marked(msgspec.Struct, frozen=True, kw_only=True):
    """What the marker grammar says about a text: its words without markers, and what they ask."""

    text: str
    files: int = 0
    elsewhere: bool = False
    """The text is redirected to another room, or to a direct message."""
    silence: bool = False
    """Nothing but a skip marker: an intended silence (relay-wire.md §22 ★26)."""


class EndingKind(StrEnum):
    """The rows of worker.md §11.3 that do not depend on the ladder's own state."""

    ANSWER = "answer"
    FILES = "files"
    ELSEWHERE = "elsewhere"
    SILENT = "silent"
    NOTHING = "nothing"


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn leaves: ``body`` as a result, ``shown`` as an edit, ``no_send`` as neither.

    ``files`` go with ``body`` and nothing else: an ending that has some is never edited in whole.
    """

    kind: EndingKind
    body: str = ""
    shown: str = ""
    pointer: str = ""
    no_send: str = ""
    files: tuple[str, ...] = ()


class Step(msgspec.Struct, kw_only=True):
    """One tool call, by its id."""

    title: str
    action: str
    failed: bool = False

    @property
    def label(self) -> str:
        return wording.step_label(self.title, self.action)


class Transcript:
    """What one turn has said so far."""

    def __init__(self) -> None:
        self._blocks: dict[int, list[str]] = {}
        self._superseded: set[int] = set()
        self._steps: dict[str, Step] = {}
        self._latest: Step | None = None
        self._refused: list[str] = []
        self.files: list[FileOffered] = []

    def take(self, event: Event) -> bool:
        """Note one event; True if it is activity that the ladder shows."""
        match event:
            case MessageChunk(text=text, block=block):
                self._blocks.setdefault(block, []).append(text)
            case BlockSuperseded(block=block):
                self._superseded.add(block)
            case ToolStarted(tool_id=tool_id, title=title, action=action):
                return self._step(tool_id, title, action, started=True)
            case ToolRetitled(tool_id=tool_id, title=title, action=action):
                return self._step(tool_id, title, action, started=False)
            case ToolFinished(tool_id=tool_id, title=title, failed=failed):
                self._step(tool_id, title, "", started=False)
                self._steps[tool_id].failed = failed
                return True
            case PermissionAsked(title=title, allowed=False, reason=reason):
                self._refused.append(wording.refused_step(title, reason))
            case FileOffered():
                self.files.append(event)
            case _:
                pass
        return False

    def _step(self, tool_id: str, title: str, action: str, *, started: bool) -> bool:
        known = self._steps.get(tool_id)
        if known is None:
            known = self._steps[tool_id] = Step(title=title, action=str(action))
            self._latest = known
            return True
        known.title = title or known.title
        known.action = str(action) or known.action
        if started:
            self._latest = known
        return known is self._latest

    @property
    def activity(self) -> tuple[str, int]:
        """The latest step's label and the number of steps so far."""
        return (self._latest.label, len(self._steps)) if self._latest else ("", 0)

    @property
    def steps(self) -> int:
        return len(self._steps)

    def spoken(self) -> str:
        """The blocks in order, one blank line between; superseded ones left out."""
        texts = (
            "".join(parts).strip("\r\n")
            for number, parts in self._blocks.items()
            if number not in self._superseded
        )
        return trimmed("\n\n".join(text for text in texts if text.strip()))

    def answer(self, done: Done) -> str:
        """The turn's whole answer: what ``done`` says it is, else the blocks."""
        return trimmed(replace_surrogates(done.text if done.text.strip() else self.spoken()))

    def summary(self) -> str:
        """What ran and what was refused."""
        return wording.summary(_collapsed(list(self._steps.values())), self._refused)


def _collapsed(steps: Sequence[Step]) -> list[str]:
    """Labels in start order, equal neighbours as one with a count, failures marked."""
    labels: list[tuple[str, int]] = []
    for step in steps:
        label = step.label + (" (failed)" if step.failed else "")
        if labels and labels[-1][0] == label:
            labels[-1] = (label, labels[-1][1] + 1)
        else:
            labels.append((label, 1))
    return [label if count == 1 else f"{label} ×{count}" for label, count in labels]


def trimmed(text: str) -> str:
    """Without blank lines around it. The first line's indent stays: it may be what makes it code,
    and a marker shown in code must not come alive (relay-wire.md §10)."""
    lines = text.rstrip().splitlines(keepends=True)
    first = next((at for at, line in enumerate(lines) if line.strip()), len(lines))
    return "".join(lines[first:])


def joined(*parts: str) -> str:
    """The parts that hold something, one blank line between."""
    return "\n\n".join(part for part in parts if part.strip())


def stop_text(done: Done, *, quiet: bool = False) -> str:
    """The ending line: the note, else the reason's own; ``quiet`` where the answer says it."""
    if note := wording.inert(replace_surrogates(done.note).strip()):
        return note
    return "" if quiet else wording.stop_line(done.reason)


def compose(
    *, answer: str, marked: Marked, unposted: Sequence[str], ending: str, summary: str
) -> str:
    """The body of a turn that answers. A redirect stays first: behind a notice it would not act,
    and a private answer would be posted in the asking room."""
    notices = joined(*unposted)
    if marked.elsewhere:
        return joined(answer, notices, ending, summary)
    return joined(notices, answer, ending, summary)


def ending_of(body: str, whole: Marked, *, no_send: str, files: Sequence[str] = ()) -> Ending:
    """The row of an answer, from the verdict over its whole body and what it brings beside it."""
    count = whole.files + len(files)
    if whole.elsewhere:
        kind, pointer = EndingKind.ELSEWHERE, wording.pointer_elsewhere()
    elif count:
        kind, pointer = EndingKind.FILES, wording.pointer_files(count)
    elif whole.text.strip():
        kind, pointer = EndingKind.ANSWER, wording.pointer_long()
    else:
        return Ending(kind=EndingKind.NOTHING, no_send=no_send)
    return Ending(
        kind=kind,
        body=body,
        shown=whole.text,
        pointer=pointer,
        no_send=no_send,
        files=tuple(files),
    )


def unanswered(
    reason: Reason,
    *,
    unposted: Sequence[str],
    ending: str,
    summary: str,
    intended: bool = False,
) -> Ending:
    """The row of a turn without an answer: in order, or not (worker.md §11.3, §11.6).

    An ``intended`` silence leaves with the bare marker, since text behind it is a failure notice.
    """
    notices = joined(*unposted)
    archived = joined(f"[no-send] {wording.nothing_to_say(reason)}", notices, ending, summary)
    if reason is not Reason.COMPLETED:
        return Ending(kind=EndingKind.NOTHING, no_send=archived)
    shown = joined(notices, wording.silent(), ending, summary)
    return Ending(
        kind=EndingKind.SILENT,
        body=shown,
        shown=shown,
        pointer=wording.silent(),
        no_send="[no-send]" if intended else archived,
    )


def fits(text: str, ceiling: int) -> bool:
    """Whether ``text`` can be edited in: the ceiling, and the relay's limit in both countings."""
    if len(text) > min(ceiling, EDIT_MAX_CHARS):
        return False  # before its characters are looked at: an answer may have millions
    return units(text) <= EDIT_MAX_CHARS
