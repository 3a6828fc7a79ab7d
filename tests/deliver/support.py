"""Doubles for the tests of the outbox: a clock, and answers as a worker gives them."""

from typing import Any

from agentconnect.deliver import Sender
from agentconnect.deliver.outbox import Claim
from agentconnect.deliver.sender import Stop, Wait

BINDING = "a" * 32 + "." + "b" * 32
OTHER = "c" * 32 + "." + "d" * 32


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.at = 1_800_000_000.0

    def __call__(self) -> float:
        return self.at


class RpcError(Exception):
    """What a library raises for a JSON-RPC error."""

    def __init__(self, code: int, data: object = None) -> None:
        super().__init__(f"error {code}")
        self.code = code
        self.data = data


def delivered(parts: int = 1, expires_at: object = None) -> dict[str, Any]:
    """A Delivered that covers so many parts."""
    named = [{"part": i, "event_id": f"$e{i}", "status": "created"} for i in range(parts)]
    return {"outcome": "delivered", "delivered": named, "expires_at": expires_at}


def retry(after: object = 30, expires_at: object = None) -> dict[str, object]:
    """A Retry's data."""
    return {
        "outcome": "retry", "retry_after_s": after, "reason": "busy", "expires_at": expires_at,
    }  # fmt: skip


def final(reason: str, **more: object) -> dict[str, object]:
    """A Final's data."""
    return {"outcome": "final", "reason": reason, **more}


def claimed(sender: Sender) -> Claim:
    """The claim that has to be next."""
    step = sender.next()
    assert isinstance(step, Claim), step
    return step


def waits(sender: Sender) -> bool:
    """Whether nothing is to be done now."""
    step = sender.next()
    assert not isinstance(step, Stop)
    return isinstance(step, Wait)
