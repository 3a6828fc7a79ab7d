"""What an agent hangs on: two byte streams and a life (a child process, or a WebSocket)."""

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec
import trio

from agentconnect.core.acp.endpoint import Endpoint
from agentconnect.core.errors import SettingsError


class EndPace(msgspec.Struct, frozen=True, kw_only=True):
    """How long the other side may take after its input closed, and after being told to end."""

    term_after_s: float
    kill_after_s: float


GENTLE = EndPace(term_after_s=2.0, kill_after_s=5.0)
QUICK = EndPace(term_after_s=0.3, kill_after_s=2.0)


class Link(Protocol):
    """One running agent, from here."""

    @property
    def pid(self) -> int:
        """0 for one that is no process of ours."""
        ...

    @property
    def returncode(self) -> int | None:
        """None while it runs, and for one that is no process of ours."""
        ...

    @property
    def running(self) -> bool:
        """It can still be talked to, as far as is known."""
        ...

    @property
    def stdin(self) -> trio.abc.SendStream: ...

    @property
    def stdout(self) -> trio.abc.ReceiveStream: ...

    def stderr_tail(self, characters: int = 500) -> str:
        """For logs only."""
        ...

    async def drain_stderr(self) -> None:
        """What must go on beside the reading."""
        ...

    async def exited(self) -> object:
        """Return when it has ended."""
        ...

    async def end(self, pace: EndPace) -> None:
        """End it, bounded by ``pace``; called shielded."""
        ...

    async def close(self) -> None:
        """Give back what is held here."""
        ...


Connect = Callable[[trio.Nursery], Awaitable[Link]]
"""Makes the link; the nursery lives as long as the agent and holds what the link itself runs.

Raises: OSError or PreflightError when there is no agent.
"""

Token = Callable[[], Awaitable[str]]
"""Reads the bearer for one dial; "" where there is none."""


def dialler(where: Endpoint, token: Token) -> Connect:
    """What dials ``where`` each time it is called, with one set of cookies.

    Raises: SettingsError when the optional dependency is not installed.
    """
    try:  # here, since it is an extra that costs start-up time
        from agentconnect.acp.dial import Dialler
    except ImportError as error:
        raise SettingsError(
            "AGENT_CONNECT_ACP_URL needs a part that is not installed: "
            "pip install 'agentconnect[dial]'"
        ) from error
    return Dialler(where, token).connect
