"""Who is spoken to: what an agent is told of a room, whom its words mention (worker.md §20.4).

Owns the lines of the preamble and the reading of mentions. Only a full MXID counts: a name alone
reaches nobody. Linear in the length of the text.
"""

import re
from collections.abc import Sequence

from agentconnect.core.surrogates import replace_surrogates
from agentconnect.core.task import Task
from agentconnect.core.turns.wording import inert, one_line

MENTIONS_MAX = 10  # relay-wire.md §3.6
MXID_MAX_CHARS = 255

_MXID = re.compile(
    r"(?<![\w.+@-])@[A-Za-z0-9._=/+-]{1,250}:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?"
)
_PORT = re.compile(r":[0-9]{1,5}(?![0-9])")


def mentions(text: str, members: Sequence[str] = (), *, complete: bool = True) -> tuple[str, ...]:
    """The full MXIDs in ``text``, each once, in order; with a complete roster only its members."""
    found: dict[str, None] = {}
    roster = frozenset(members) if complete else frozenset()
    for match in _MXID.finditer(text):
        user = match.group()
        port = _PORT.match(text, match.end())
        if port is not None and (not roster or user + port.group() in roster):
            user += port.group()
        if len(user) <= MXID_MAX_CHARS and (not roster or user in roster):
            found[user] = None
        if len(found) == MENTIONS_MAX:
            break
    return tuple(found)


def mentioned_by(task: Task, text: str) -> tuple[str, ...]:
    """Whom an answer to ``task`` mentions. A roster that was cut short restricts nobody."""
    complete = task.room_member_count <= len(task.room_members)
    return mentions(text, task.room_members, complete=complete)


def preamble(task: Task) -> tuple[str, ...]:
    """What an agent is told of the people around a message; nothing known, no lines."""
    return tuple(line for line in (_others(task), _addressee(task)) if line)


def _others(task: Task) -> str:
    others = [member for member in task.room_members if member != task.user_id]
    if not others:
        return ""
    more = task.room_member_count - len(task.room_members)
    tail = f" and {more} more" if more > 0 else ""
    listed = ", ".join(_shown(member) for member in others)
    return (
        f"In this room there are also: {listed}{tail}. To hand a question to one of them, write "
        "the full id (@name:server) in your answer; whoever is not named so gets nothing."
    )


def _addressee(task: Task) -> str:
    if not task.addressed_to.strip():
        return ""
    return (
        f"The message is addressed to {_shown(task.addressed_to)}; answer only if it asks you too."
    )


def _shown(user: str) -> str:
    return inert(one_line(replace_surrogates(user), MXID_MAX_CHARS))
