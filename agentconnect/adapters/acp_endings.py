"""How a turn of an ACP agent ends, as our own words (worker.md §8.8)."""

from agentconnect.core.acp.jsonrpc import AUTH_REQUIRED, detail_of
from agentconnect.core.errors import (
    AgentConnectError,
    AgentError,
    AgentExitedError,
    PreflightError,
)
from agentconnect.core.redaction import redact
from agentconnect.core.turns import wording_acp as wording
from agentconnect.core.turns.events import Done, Reason

_STOPPED = {
    "cancelled": Reason.CANCELLED,
    "refusal": Reason.REFUSED,
    "max_tokens": Reason.TOKEN_LIMIT,
}
_SESSION_LOST = (-32002, -32602)


def stopped(stop_reason: str, *, by_us: bool) -> Done:
    """The agent answered the prompt. A turn that we interrupted is told of by whoever did."""
    if stop_reason == "end_turn":
        return Done(reason=Reason.COMPLETED)
    if by_us:
        return Done(reason=Reason.CANCELLED)
    reason = _STOPPED.get(stop_reason, Reason.FAILED)
    return Done(reason=reason, note=wording.stopped_early(stop_reason))


def failed(
    error: AgentConnectError,
    *,
    resumable: bool,
    login: str,
    offered: tuple[str, ...],
    dialled: bool = False,
) -> Done:
    """The turn ended with an error."""
    match error:
        case AgentExitedError() if dialled:
            note = wording.agent_lost(resumable=resumable)
        case AgentExitedError(returncode=code):
            note = wording.agent_died(code, resumable=resumable)
        case AgentError(code=code) if code == AUTH_REQUIRED:
            note = wording.not_logged_in(login, offered)
        case AgentError():
            note = wording.agent_error(detail_of(error))
        case PreflightError() if dialled:
            note = wording.cannot_dial(str(error))
        case PreflightError():
            note = wording.cannot_start(str(error))
        case _:
            note = wording.agent_error(str(error))
    return Done(reason=Reason.FAILED, note=note)


def problem_of(error: AgentConnectError, done: Done) -> str:
    """What the owner's status file says of it, ``""`` where it is no matter for the owner.

    The end of stderr goes there and not into the room: it may hold anything (worker.md §8.8).
    """
    if isinstance(error, AgentExitedError) and error.stderr_tail:
        return redact(f"{done.note} stderr: {error.stderr_tail}")
    if isinstance(error, AgentExitedError | PreflightError) or is_auth(error):
        return done.note
    return ""


def is_auth(error: AgentConnectError) -> bool:
    """The agent wants a login."""
    return isinstance(error, AgentError) and error.code == AUTH_REQUIRED


def lost_session(error: AgentConnectError) -> bool:
    """The agent does not know the session that its process had open: reopen it next time."""
    return isinstance(error, AgentError) and (
        error.code in _SESSION_LOST or "session not found" in detail_of(error).lower()
    )
