"""What the concierge is told and what it says (relay-wire.md §20.1). Pure.

Its commands count only in a direct message with it, said by somebody who has agents of their own;
anywhere else the same words grant nothing.
"""

import re
from collections.abc import Sequence

import msgspec

_COMMAND = re.compile(
    r"[\s`]*(trust|untrust|allow)[\s`]+(@[^\s:@`]+:[^\s:@/`]+?)[\s`.]*", re.IGNORECASE
)

GREETING = (
    "Hello. Here you set who counts as an owner of your agents: `trust @user:domain`, "
    "`untrust @user:domain`, or `allow @user:domain` to name somebody a guest."
)


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One command with the full id it names."""

    verb: str
    user_id: str


def command(body: str) -> Command | None:
    """The command a message is, or None; the whole message must be it."""
    match = _COMMAND.fullmatch(body)
    if match is None:
        return None
    return Command(verb=match[1].lower(), user_id=match[2])


def level_of(verb: str) -> str:
    """The trust a verb leaves behind."""
    return {"trust": "owner", "untrust": "", "allow": "guest"}[verb]


def done(said: Command, agents: Sequence[str]) -> str:
    """The reply after a command was carried out; it lists the agents it reached."""
    names = ", ".join(f"`{agent}`" for agent in agents)
    who = f"`{said.user_id}`"
    if said.verb == "trust":
        return f"{who} is now an owner on all of your agents: {names}."
    if said.verb == "untrust":
        return f"{who} is no longer an owner on any of your agents: {names}."
    return f"{who} is named a guest on all of your agents: {names}."


def unknown(said: Command) -> str:
    """The reply where the id belongs to nobody here."""
    return f"I know nobody called `{said.user_id}` here. Nothing was changed."


def yourself() -> str:
    """The reply to somebody who names themselves."""
    return "You are the owner of your own agents already. Nothing was changed."


def powerless() -> str:
    """The reply to somebody who has no agents."""
    return "You have registered no agents, so there is nothing that you could grant."


def pointer(concierge_id: str) -> str:
    """The line added where the words of a command were said in the wrong place."""
    return (
        f"Nothing was granted: that counts only in a direct message to `{concierge_id}`, "
        "from the owner of the agent."
    )
