"""Answers that need only the conversation. Pure apart from the clock that is handed in."""

from datetime import datetime

from agentconnect.demo import wording
from agentconnect.demo.intents import Intent, Kind
from agentconnect.demo.memory import Conversation

RECALLED = 8
ALONE = frozenset({
    Kind.ABOUT, Kind.BACKGROUND, Kind.BYE, Kind.CANNOT, Kind.CLOCK, Kind.COUNT_TO, Kind.CRASH,
    Kind.ECHO, Kind.GREET, Kind.HELP, Kind.MY_NAME, Kind.NAMED, Kind.NOTE, Kind.NOTES, Kind.RECALL,
    Kind.SLOW, Kind.THANKS,
})  # fmt: skip
"""Requests that no file name can change: the folder need not be looked at for them."""


def greet(conversation: Conversation) -> str:
    """A greeting, by name where it is known."""
    name = f", {conversation.name}" if conversation.name else ""
    if conversation.count > 1:
        return f"Hello again{name}! What shall we try? Say **help** for the list."
    return f"Hello{name}! I can list and read the files here, write new ones, and more."


def recall(conversation: Conversation) -> str:
    """What was asked before this message."""
    before = conversation.turns[:-1]
    if not before:
        return "This is the first thing you said to me in this conversation."
    last = before[-1]
    lines = [f"Before this you said {wording.inline(last.said)}."]
    if len(before) > 1:
        first = max(0, len(before) - RECALLED)
        skipped = conversation.count - 1 - (len(before) - first)
        lines.append(f"\nThe last {len(before) - first} messages, oldest first:\n")
        lines += [
            f"{skipped + number}. {wording.inline(turn.said, 120)}"
            for number, turn in enumerate(before[first:], 1)
        ]
    return "\n".join(lines)


def picture(conversation: Conversation) -> str:
    """Which files came earlier in the conversation."""
    got = [what for turn in conversation.turns for what in turn.got]
    if not got:
        return (
            "No picture or file came with a message in this conversation. Drop one into the room "
            "and I will tell you what arrived."
        )
    return "So far I got:\n\n" + "\n".join(f"- {what}" for what in got[-20:])


def named(conversation: Conversation, name: str) -> str:
    """Learn a name."""
    clean = " ".join("".join(c for c in name if c.isprintable() and c not in "[]`<>*_@").split())
    if not clean:
        return "I did not get the name. Try “my name is Ada”."
    conversation.name = clean[:40]
    return f"Nice to meet you, {conversation.name}. I will remember it in this conversation."


def my_name(conversation: Conversation) -> str:
    """Tell the name."""
    if conversation.name:
        return f"You are {conversation.name}."
    return "You have not told me. Say “my name is …” and I will remember it."


def note(conversation: Conversation, text: str) -> str:
    """Keep a note."""
    conversation.notes = [*conversation.notes[-49:], text]
    return f"I will remember {wording.inline(text)}. Ask **what do you remember** any time."


def notes(conversation: Conversation) -> str:
    """Tell the notes."""
    if not conversation.notes and not conversation.name:
        return "You have not asked me to remember anything yet. Try “remember that …”."
    lines = [f"- {wording.inline(text, 200)}" for text in conversation.notes]
    if conversation.name:
        lines.insert(0, f"- you are {conversation.name}")
    return "I remember:\n\n" + "\n".join(lines)


def clock(now: datetime) -> str:
    """Date and time on this machine."""
    return f"On this machine it is {now:%H:%M:%S} on {now:%A}, {now.day} {now:%B %Y}."


def simple(intent: Intent, conversation: Conversation, now: datetime) -> str | None:
    """The answer to a request that only needs the conversation; None for any other."""
    match intent.kind:
        case Kind.HELP:
            return wording.HELP
        case Kind.ABOUT:
            return wording.ABOUT
        case Kind.GREET:
            return greet(conversation)
        case Kind.THANKS:
            return "You are welcome. Say **help** for more to try."
        case Kind.BYE:
            return "Goodbye! The conversation stays here; write again any time."
        case Kind.ECHO:
            return wording.quote(intent.text)
        case Kind.RECALL:
            return recall(conversation)
        case Kind.PICTURE:
            return picture(conversation)
        case Kind.NAMED:
            return named(conversation, intent.text)
        case Kind.MY_NAME:
            return my_name(conversation)
        case Kind.NOTE:
            return note(conversation, intent.text)
        case Kind.NOTES:
            return notes(conversation)
        case Kind.CLOCK:
            return clock(now)
        case Kind.CANNOT:
            return wording.cannot(intent.text)
        case Kind.UNKNOWN:
            return wording.echo(intent.text, conversation.count)
        case _:
            return None
