"""Asks the one marker grammar about a text, for the pure turns (design.md decision 7)."""

from agentconnect.core.relay import markers
from agentconnect.core.turns import wording
from agentconnect.core.turns.answer import Marked


def guard(text: str) -> str:
    """An agent's text with a leading skip marker made prose (relay-wire.md §22 ★26)."""
    return markers.guard_agent_skip(text)


def disown(text: str) -> str:
    """The text of an agent on another machine: no file that it names is one of ours."""
    return markers.disown_files(text, wording.FILE_ELSEWHERE)


def read(text: str) -> Marked:
    """What ``text`` says without its markers, and what those ask for."""
    parsed = markers.parse(text)
    kinds = [str(action.kind) for action in parsed.actions]
    return Marked(
        text=markers.guard_prepared(parsed.body),
        files=kinds.count("attach"),
        elsewhere="redirect" in kinds or "dm-only" in kinds,
        silence="skip" in kinds,
    )
