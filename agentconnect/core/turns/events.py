"""What an adapter may say during a turn (worker.md §7). No ACP type crosses this line."""

from enum import StrEnum

import msgspec


class Reason(StrEnum):
    """Why a turn ended."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    TOKEN_LIMIT = "token_limit"  # noqa: S105 - a stop reason
    FAILED = "failed"


class Action(StrEnum):
    """What a tool does, as far as the ladder cares."""

    READ = "read"
    EDIT = "edit"
    EXECUTE = "execute"
    SEARCH = "search"
    OTHER = "other"


class MessageChunk(msgspec.Struct, frozen=True, kw_only=True):
    """Answer text. ``block`` numbers the message it belongs to: a new number is a new paragraph."""

    text: str
    block: int = 0


class BlockSuperseded(msgspec.Struct, frozen=True, kw_only=True):
    """A retried model call streamed ``block`` again: leave it out of the answer (acp.md §6)."""

    block: int


class Thinking(msgspec.Struct, frozen=True, kw_only=True):
    """Never reaches a room."""

    text: str


class ToolStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A step began, once per id; ``title`` may be empty and come with a ToolRetitled."""

    tool_id: str
    title: str
    action: Action = Action.OTHER


class ToolRetitled(msgspec.Struct, frozen=True, kw_only=True):
    """A running step's title or kind became known."""

    tool_id: str
    title: str
    action: Action = Action.OTHER


class ToolFinished(msgspec.Struct, frozen=True, kw_only=True):
    """A step ended; ``failed`` marks it in the summary."""

    tool_id: str
    title: str
    failed: bool = False


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """(title, status) pairs; not shown."""

    entries: tuple[tuple[str, str], ...]


class PermissionAsked(msgspec.Struct, frozen=True, kw_only=True):
    """A judged permission request; refused ones are reported in the reply."""

    title: str
    allowed: bool
    reason: str
    paths: tuple[str, ...] = ()


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A message of its own in the room, before the answer."""

    text: str


class FileOffered(msgspec.Struct, frozen=True, kw_only=True):
    """One more outgoing file (a ``resource_link``) at this point; judged like ``[file:]``."""

    path: str
    name: str = ""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The ending, once and last. ``text`` (if any) is the full answer, ``note`` its ending line.

    ``told``: ``text`` is no work of the agent's but the sentence about how it ended; no line about
    the ending is added to it.
    """

    reason: Reason
    text: str = ""
    note: str = ""
    told: bool = False


Event = (
    MessageChunk
    | BlockSuperseded
    | Thinking
    | ToolStarted
    | ToolRetitled
    | ToolFinished
    | Plan
    | PermissionAsked
    | Notice
    | FileOffered
)
