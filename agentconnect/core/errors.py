"""The one tree of exceptions. Expected results are values, never exceptions (style rule 28)."""


class AgentConnectError(Exception):
    """Root of ours. ``str(error)`` is a sentence a person can act on, without secrets."""

    exit_code = 1


class SettingsError(AgentConnectError):
    """The owner sees it at start; never retried; exit 2."""

    exit_code = 2


class PreflightError(AgentConnectError):
    """The agent is missing or not logged in; the owner sees it at start; exit 3."""

    exit_code = 3


class WorkspaceHeldError(AgentConnectError):
    """Another worker holds this workspace; the sentence names its pid; exit 4."""

    exit_code = 4


class InvariantError(AgentConnectError):
    """We are wrong. It ends its unit and is logged; the room reads a worker error."""


class PeerError(AgentConnectError):
    """The peer broke its protocol. Not retried on that connection."""


class RelayError(AgentConnectError):
    """A call to the relay did not succeed.

    ``status`` is the HTTP status or None (network, time-out); ``body`` is the (bounded) text for
    callers that must read it, never logged; ``retry_after_s`` is what the relay asked for;
    ``sent`` is false where the request surely never left.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        body: str = "",
        retry_after_s: float | None = None,
        sent: bool = True,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = body
        self.retry_after_s = retry_after_s
        self.sent = sent


class AuthRejectedError(RelayError):
    """401 or 403: a class of its own (relay-wire.md §1.4)."""


class RelayStoppedError(AgentConnectError):
    """The relay client ended for good (fatal or displaced): the worker ends, exit 1."""


class AgentError(AgentConnectError):
    """A JSON-RPC error from the agent; ends that turn, the room reads its message."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class AgentExitedError(AgentConnectError):
    """The agent's process ended; one failed turn. ``stderr_tail`` is for the log only."""

    def __init__(
        self, message: str, *, returncode: int | None = None, stderr_tail: str = ""
    ) -> None:
        super().__init__(message)
        self.returncode = returncode
        self.stderr_tail = stderr_tail


class StoreUnreadableError(AgentConnectError):
    """A must-not-lose file cannot be read: fail closed, retry, never take it for empty."""


def first_cause(error: BaseException) -> BaseException:
    """The first real error inside any number of exception groups: what is said to a person."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error
