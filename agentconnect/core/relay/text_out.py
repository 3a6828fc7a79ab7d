"""Text on its way out, always encodable: how the relay splits a long answer (relay-wire.md §20)."""

import re

from agentconnect.core.surrogates import replace_surrogates

CHUNK_CHARS = 12_000
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_FENCE_LINE = re.compile(r"^[^\S\n]{0,3}(`{3,}+|~{3,}+)([^\n]*)$", re.M)
_MAX_RUN_CHARS = 40  # a longer fence is not reopened: its lines alone could fill a chunk
_MAX_INFO_CHARS = 40
_MIN_FENCED_CHARS = 320


def chunks(body: str, limit: int = CHUNK_CHARS) -> list[str]:
    """``body`` in pieces of at most ``limit`` characters.

    Cut at blank lines, else at lines, else anywhere. A fence that is open at a cut is closed
    there and opened again in the next piece.
    """
    body, limit = replace_surrogates(body), max(limit, 1)
    # too little room for the lines that close and open a fence
    reserve = _MAX_RUN_CHARS + 1 if limit >= _MIN_FENCED_CHARS else 0
    pieces: list[str] = []
    position, opening = 0, ""
    while position < len(body):
        head = f"{opening}\n" if opening else ""
        if len(head) + len(body) - position <= limit:
            pieces.append(head + body[position:])
            break
        # room for the line that closes a fence left open here
        end, after = _cut(body, position, limit - len(head) - reserve)
        text = body[position:end]
        opening = _open_fence(text, opening) if reserve else ""
        closing = f"\n{_run(opening)}" if opening else ""
        if text.strip():
            pieces.append(head + text + closing)
        position = after
    return pieces


def _cut(body: str, start: int, room: int) -> tuple[int, int]:
    """(end of this piece, start of the next): the cut's own line breaks are left out."""
    stop = start + room
    blanks = list(_BLANK_LINE.finditer(body, start + room // 2, stop))
    if blanks:
        return blanks[-1].span()
    line = body.rfind("\n", start + room // 2, stop)
    if line >= 0:
        return line, line + 1
    return stop, stop


def _open_fence(text: str, opening: str) -> str:
    """The fence line to open the next piece with, ``""`` if no fence is open after ``text``."""
    for match in _FENCE_LINE.finditer(text):
        run, info = match.group(1), match.group(2).strip()
        if not opening:
            if len(run) <= _MAX_RUN_CHARS and not (run[0] == "`" and "`" in info):
                opening = run + info[:_MAX_INFO_CHARS]
        elif run[0] == opening[0] and len(run) >= len(_run(opening)) and not info:
            opening = ""
    return opening


def _run(opening: str) -> str:
    return opening[: len(opening) - len(opening.lstrip(opening[0]))] if opening else ""
