"""What a result body asks the relay to do (relay-wire.md §10, §20). Pure.

The relay obeys only what stands at the body's start: silence, "already said", "a duplicate", and
"post it in another room". All the rest is text.
"""

import re

import msgspec

_SKIP = re.compile(r"\s*(?:\[(no-send)\]|\[(REPLIED)\]|\[(deduped):[^\]]+\])", re.IGNORECASE)
_CHANNEL = re.compile(r"\s*\[channel:([^\]]*)\][^\S\n]*\n?")

PLACEHOLDER = "⏳ On it..."
INTAKE = "🫡"
_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NOTICE_CHARS = 600
_WARNING = "⚠️ "
FAREWELL = "⏸ "
"""How a worker that stops marks a placeholder whose message will be run again."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a result: ``text`` to post (in ``room_id`` if it is given), or nothing.

    ``notice`` is the reason behind a silence, owed to the room in one line; ``archive`` is the
    answer that is in the room already.
    """

    text: str = ""
    room_id: str = ""
    notice: str = ""
    archive: str = ""


def judge(body: str) -> Verdict:
    """Read the markers at the start of a result."""
    redirect = _CHANNEL.match(body)
    rest = body if redirect is None else body[redirect.end() :]
    skip = _SKIP.match(rest)
    if skip is not None and (skip[2] is None or skip[2] == "REPLIED"):
        behind = rest[skip.end() :].strip()
        if skip[1]:
            return Verdict(notice=one_line(_reason(behind)))
        return Verdict(archive=behind if skip[2] else "")
    if redirect is None:
        return Verdict(text=body.strip("\n"))
    return Verdict(text=rest.strip("\n"), room_id=redirect[1].strip())


def _reason(behind: str) -> str:
    """What a person needs of a silence's text: not its first paragraph where that only says so.

    A worker's first paragraph holds ``reason: <word>`` and whose notice it is; what follows, if
    anything does, says what happened.
    """
    first, _, rest = behind.partition("\n\n")
    return rest if "reason:" in first and rest.strip() else behind


def one_line(text: str) -> str:
    """A reason on one line, bounded."""
    line = " ".join(text.split())
    return line if len(line) <= _NOTICE_CHARS else line[: _NOTICE_CHARS - 1] + "…"


def failure(reason: str) -> str:
    """The line a room reads where a task ended without an answer."""
    return f"{_WARNING}{reason or 'This request could not be handled.'}"


def is_failure(text: str) -> bool:
    """Whether a task's stored answer is such a line."""
    return text.startswith(_WARNING)


def rejected(code: str) -> str:
    """The line for a task that the worker refused for good; its code is a word or nothing."""
    word = f" ({code})" if _CODE.fullmatch(code) else ""
    return failure(f"The agent's worker could not take this request{word}.")


def removed() -> str:
    """The line for a task whose agent was taken off."""
    return failure("The agent was removed before it answered.")


def gave_up(attempts: int) -> str:
    """The line for a task nobody finished."""
    return failure(f"The agent did not finish this request in {attempts} attempts; ask again.")
