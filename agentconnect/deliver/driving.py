"""Drivers: the sender over an agent's own connection, on any event loop or on plain threads.

One run sends one delivery at a time. For several at once start several runs: they share the outbox.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from agentconnect.deliver.outbox import Claim, Entry, Outbox
from agentconnect.deliver.sender import Sender, Stop, Wait
from agentconnect.deliver.wire import DELIVER

log = logging.getLogger("agentconnect.deliver")

SendRequest = Callable[[str, dict[str, Any]], Awaitable[Any]]
OnEnd = Callable[[Entry], Any]
ErrorOf = Callable[[Exception], tuple[object, object] | None]


def error_of(raised: Exception) -> tuple[object, object] | None:
    """The ``(code, data)`` of a JSON-RPC error that a library raised; None for anything else."""
    code = getattr(raised, "code", None)
    return (code, getattr(raised, "data", None)) if type(code) is int else None


async def deliver(
    outbox: Outbox,
    send_request: SendRequest,
    sleep: Callable[[float], Awaitable[Any]],
    *,
    on_end: OnEnd | None = None,
    error_of: ErrorOf = error_of,
) -> None:
    """Send what is due, now and later, over a connection whose client has ``declared`` it.

    Runs until it is cancelled; cancel it when the connection ends. Returns only where the client
    turns out to take no deliveries. ``send_request(method, params)`` returns the result and raises
    for an error; ``sleep`` is ``asyncio.sleep`` or ``trio.sleep``. ``on_end(entry)``, plain or
    async, hears of each end at least once: again after a crash, and if it raises.
    """
    sender = Sender(outbox)
    while not isinstance(step := sender.next(), Stop):
        if isinstance(step, Wait):
            await sleep(step.seconds)
        elif step.entry.state == "waiting":
            await _send(sender, step, send_request, error_of)
        else:
            await _tell(sender, step, on_end)


def deliver_blocking(
    outbox: Outbox,
    send_request: Callable[[str, dict[str, Any]], Any],
    wait: Callable[[float], Any],
    *,
    on_end: OnEnd | None = None,
    error_of: ErrorOf = error_of,
) -> None:
    """The same in a thread. ``wait(seconds)`` ends the run by returning something true.

    With ``stop = threading.Event()`` pass ``stop.wait``.
    """

    async def send(method: str, params: dict[str, Any]) -> Any:
        return send_request(method, params)

    async def sleep(seconds: float) -> None:
        if wait(seconds):
            raise _StoppedError

    run = deliver(outbox, send, sleep, on_end=on_end, error_of=error_of)
    try:
        run.send(None)  # nothing in it waits for an event loop, so this is the whole run
    except (StopIteration, _StoppedError):
        return
    finally:
        run.close()
    raise TypeError("on_end must not be async in deliver_blocking")


class _StoppedError(BaseException):
    """The thread's run was told to end."""


async def _send(sender: Sender, claim: Claim, send_request: SendRequest, error_of: ErrorOf) -> None:
    try:
        result = await send_request(DELIVER, claim.params)
    except Exception as raised:  # noqa: BLE001 - whatever a library raises when a pipe breaks
        answer = error_of(raised)
        if answer is None:
            log.warning("a delivery got no answer (%s); it goes again", type(raised).__name__)
            sender.lost(claim)
        else:
            sender.refused(claim, *answer)
    except BaseException:
        sender.dropped(claim)
        raise
    else:
        sender.succeeded(claim, result)


async def _tell(sender: Sender, claim: Claim, on_end: OnEnd | None) -> None:
    try:
        if on_end is not None:
            heard = on_end(claim.entry)
            if inspect.isawaitable(heard):
                await heard
    except Exception:  # the boundary to the agent's own code
        log.exception("on_end failed; it is called again")
        sender.untold(claim)
    except BaseException:
        sender.dropped(claim)
        raise
    else:
        sender.told(claim)
