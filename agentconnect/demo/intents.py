"""What a person can ask for, as values. The text is read by :mod:`agentconnect.demo.requests`."""

from dataclasses import dataclass, replace
from enum import StrEnum


class Kind(StrEnum):
    """What the demonstration can do."""

    ABOUT = "about"
    AGAIN = "again"
    BACKGROUND = "background"
    BYE = "bye"
    CANNOT = "cannot"
    CLOCK = "clock"
    COUNT = "count"
    COUNT_TO = "count_to"
    CRASH = "crash"
    ECHO = "echo"
    GREET = "greet"
    HELP = "help"
    LIST = "list"
    MY_NAME = "my_name"
    NAMED = "named"
    NOTE = "note"
    NOTES = "notes"
    PICTURE = "picture"
    READ = "read"
    RECALL = "recall"
    SAME_FOR = "same_for"
    SAVE = "save"
    SEARCH = "search"
    SEND = "send"
    SLOW = "slow"
    THANKS = "thanks"
    TOUR = "tour"
    UNKNOWN = "unknown"
    WRITE = "write"


OTHER = "\0other"
ALL = "\0all"
IT = "\0it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One request. ``name`` is a file as the person named it, or OTHER, ALL or IT."""

    kind: Kind
    name: str = ""
    text: str = ""
    form: str = ""
    number: int = 0


def as_json(intent: Intent) -> dict[str, object]:
    """For the conversation's file."""
    return {
        "kind": intent.kind.value,
        "name": intent.name,
        "text": intent.text,
        "form": intent.form,
        "number": intent.number,
    }


def from_json(raw: object) -> Intent | None:
    """An intent of the conversation's file; None for anything else."""
    if not isinstance(raw, dict):
        return None
    try:
        return Intent(
            kind=Kind(raw["kind"]),
            name=str(raw.get("name", "")),
            text=str(raw.get("text", "")),
            form=str(raw.get("form", "")),
            number=int(raw.get("number", 0)),
        )
    except (KeyError, ValueError, TypeError):
        return None


def aimed_at(intent: Intent, name: str) -> Intent:
    """The same request about another file."""
    return replace(intent, name=name)
