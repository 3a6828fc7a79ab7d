"""What the one-shot adapters decide without touching anything (worker.md §6, §7.1).

Owns the sandbox of a tier, the shape of a prompt, what is kept of a child's output, and what an
output means. Reading is linear in the length of the text.
"""

import re
from enum import StrEnum

import msgspec

from agentconnect.core.task import Tier
from agentconnect.core.turns import wording_cli as wording
from agentconnect.core.turns.events import Done, Reason

WORD_MAX_BYTES = 100_000  # the kernel takes 128 KiB a word; what is longer goes through stdin
ERROR_HEAD_CHARS = 1500
ERROR_TAIL_CHARS = 1000
_COLOURS = re.compile(r"\x1b\[[0-9;:]{0,64}m")


class Sandbox(StrEnum):
    """What a turn may touch, in codex's words."""

    WORKSPACE_WRITE = "workspace-write"
    READ_ONLY = "read-only"


def sandbox_of(tier: Tier) -> Sandbox:
    """The sandbox of a tier: whatever is not the owner reads only."""
    return Sandbox.WORKSPACE_WRITE if tier is Tier.OWNER else Sandbox.READ_ONLY


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One message for an agent that knows nothing of it yet."""

    message: str
    sandbox: Sandbox
    tier: Tier
    cwd: str
    around: tuple[str, ...] = ()
    """What is known of the people in the room (worker.md §20.4)."""

    @property
    def prompt(self) -> str:
        """The circumstances on one line, a blank line, the message as it was typed.

        It begins with a bracket, so no message can be taken for an option.
        """
        return self.about(self.message)

    def about(self, message: str) -> str:
        """:attr:`prompt` for a part of the message."""
        writes = self.sandbox is Sandbox.WORKSPACE_WRITE
        said = wording.preamble(self.sandbox, self.tier, writes=writes, around=self.around)
        return f"{said}\n\n{message}"


def word(text: str) -> str | None:
    """``text`` as one word of a command line; None where it is too long for one.

    A NUL would end the word; nothing else is changed.
    """
    clean = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return clean if len(encoded(clean)) <= WORD_MAX_BYTES else None


def encoded(text: str) -> bytes:
    """``text`` as bytes for a child; what no encoding can hold becomes a question mark."""
    return text.encode("utf-8", "replace")


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """What a child left behind; ``code`` is negative for a signal."""

    code: int
    out: str = ""
    err: str = ""


class Kept:
    """The beginning and the end of a stream that may never end."""

    def __init__(self, head_bytes: int, tail_bytes: int) -> None:
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, data: bytes) -> None:
        """Take more of it."""
        room = self._head_bytes - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._tail_bytes:  # now and then: each byte is moved once
            self._cut()

    def _cut(self) -> None:
        surplus = max(len(self._tail) - self._tail_bytes, 0)
        del self._tail[:surplus]
        self._dropped += surplus

    @property
    def text(self) -> str:
        """As text; what is no UTF-8 is replaced, what was left out is said."""
        self._cut()
        if not self._dropped:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = (part.decode("utf-8", "replace") for part in (self._head, self._tail))
        return f"{head}\n{wording.left_out(self._dropped)}\n{tail}"


def uncoloured(text: str) -> str:
    """``text`` without a terminal's colours."""
    return _COLOURS.sub("", text)


def ending(
    name: str,
    output: Output,
    answer: str,
    *,
    error_tail: bool = True,
    error_answers: bool = False,
) -> Done:
    """What a finished child means: the answer, or the sentence about its failure.

    ``error_tail``: the end of stderr says most, not its beginning. ``error_answers``: stderr
    stands for an answer that is missing.
    """
    answer = answer.strip()
    said = uncoloured(output.err).strip()
    said = said[-ERROR_TAIL_CHARS:] if error_tail else said[:ERROR_HEAD_CHARS]
    if output.code and answer:
        return Done(reason=Reason.FAILED, text=answer, note=wording.ended_with(name, output.code))
    if output.code:
        return failure(wording.failed(name, output.code, said))
    if answer:
        return Done(reason=Reason.COMPLETED, text=answer)
    return failure(wording.no_output(name, said if error_answers else ""))


def failure(sentence: str) -> Done:
    """A turn that ended with words of ours instead of an answer."""
    return Done(reason=Reason.FAILED, text=sentence, told=True)


def problem_of(done: Done) -> str:
    """What the owner's status file says of a run that failed, on one line; "" of any other."""
    if done.reason is not Reason.FAILED:
        return ""
    lines = (done.text if done.told else done.note).splitlines()
    said = " ".join(line.strip() for line in lines if line.strip("` "))
    return said.removeprefix("⚠").strip()


def stopped(name: str, seconds: float, answer: str) -> Done:
    """A turn that was told to end; what there was by then is kept."""
    if answer.strip():
        return Done(reason=Reason.TIMEOUT, text=answer.strip())
    return Done(reason=Reason.TIMEOUT, text=wording.timed_out(name, seconds), told=True)
