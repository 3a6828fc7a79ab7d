"""Follow-ups settled against the conversation: "again", "the other file", "it". Pure."""

from dataclasses import dataclass, replace

from agentconnect.demo import words
from agentconnect.demo.intents import ALL, IT, OTHER, Intent, Kind, aimed_at

ABOUT_A_FILE = frozenset({Kind.READ, Kind.SEND, Kind.COUNT, Kind.SEARCH, Kind.LIST})
REPEATABLE = ABOUT_A_FILE | {
    Kind.WRITE, Kind.BACKGROUND, Kind.SLOW, Kind.COUNT_TO, Kind.ECHO, Kind.CLOCK, Kind.TOUR,
    Kind.PICTURE, Kind.HELP,
}  # fmt: skip
MAX_ALL = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What a follow-up can refer to. ``asked``: our last answer was the question which file."""

    last: Intent | None = None
    last_file: str = ""
    used: tuple[str, ...] = ()
    asked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do: these requests in order, or this question."""

    intents: tuple[Intent, ...] = ()
    question: str = ""


def settle(intent: Intent, past: Past, names: list[str]) -> Plan:
    """The requests an intent stands for, given what went before and which files there are."""
    if past.asked and past.last and intent.kind in {Kind.READ, Kind.UNKNOWN}:
        picked = words.best_names(intent.name or intent.text, names)
        if len(picked) == 1:
            return Plan(intents=(aimed_at(past.last, picked[0]),))
    if intent.kind is Kind.AGAIN:
        if past.last is None:
            return Plan(
                question="There is nothing yet that I could do again. Ask me something first."
            )
        return Plan(intents=(past.last,))
    if intent.kind is Kind.SAME_FOR:
        return _same_for(intent, past, names)
    if intent.name == IT:
        if not past.last_file:
            return Plan(
                question="Which file do you mean? No file came up in this conversation yet."
            )
        return Plan(intents=(aimed_at(intent, past.last_file),))
    if intent.name == OTHER:
        return _other(intent, past, names)
    return Plan(intents=(intent,))


def _same_for(intent: Intent, past: Past, names: list[str]) -> Plan:
    last = past.last
    if last and last.kind is Kind.WRITE and intent.name not in {ALL, OTHER}:
        return Plan(intents=(_rewritten(last, intent.name),))
    if last is None or last.kind not in ABOUT_A_FILE:
        return Plan(
            question="I do not know what to do with it: nothing before this was about a file. "
            "Try “read notes.txt” first, and then “now the same for the other file”."
        )
    if intent.name == ALL:
        rest = [name for name in names if name not in past.used][:MAX_ALL]
        if not rest:
            return Plan(question="No other file is left in the working folder.")
        return Plan(intents=tuple(aimed_at(last, name) for name in rest))
    if intent.name == OTHER:
        return _other(last, past, names)
    if last.kind is Kind.SEARCH and not words.best_names(intent.name, names):
        return Plan(intents=(replace(last, text=intent.name),))
    return Plan(intents=(aimed_at(last, intent.name),))


def _rewritten(last: Intent, wanted: str) -> Intent:
    """The same kind of document under another name, or about another topic."""
    if words.looks_like_file(wanted):
        return aimed_at(last, wanted)
    return replace(last, name="", text=wanted)


def _other(intent: Intent, past: Past, names: list[str]) -> Plan:
    others = [name for name in names if name != past.last_file]
    fresh = [name for name in others if name not in past.used] or others
    folder = past.last_file.rpartition("/")[0]
    near = [name for name in fresh if name.rpartition("/")[0] == folder] or fresh
    alike = [name for name in near if _ending(name) == _ending(past.last_file)]
    for few in (near, alike):
        if len(few) == 1:
            return Plan(intents=(aimed_at(intent, few[0]),))
    if not near:
        return Plan(question="There is no other file in the working folder.")
    shown = ", ".join(f"`{name}`" for name in (alike or near)[:8])
    return Plan(question=f"There is more than one other file: {shown}. Which one do you mean?")


def _ending(name: str) -> str:
    return name.rpartition(".")[2].lower()
