"""A worker group: the adapters of one workspace, each in a task of its own, and their attempts.

No provider is known here: an adapter's ``DeliveryError`` says rejected or failed, anything else is
failed (channel-delivery.md §10).
"""

import logging
from collections.abc import Callable, Mapping

import trio

from agentconnect.channels.contract import Adapter
from agentconnect.channels.registry import World, build
from agentconnect.core.channels.diagnostic import diagnostic
from agentconnect.core.channels.ipc import Channel, Request, Result, ToWorker, request_in
from agentconnect.core.channels.sending import DeliveryError, Outgoing
from agentconnect.core.destination import PUBLIC_TEXT, Code

log = logging.getLogger("agentconnect.channels")

IN_FLIGHT = 16
SEND_S = 25.0
START_S = 15.0
_TELLING_CHARS = 4  # a shorter text would blot out half of any sentence

Build = Callable[[Channel, World], Adapter]


class Group:
    """The adapters that started, and what is under way."""

    def __init__(
        self,
        channels: Mapping[str, Channel],
        world: World,
        *,
        build: Build = build,
        send_s: float = SEND_S,
    ) -> None:
        self._channels = channels
        self._world = world
        self._build = build
        self._send_s = send_s
        self._secrets = [secret for one in channels.values() for secret in one.all_secrets]
        self._running: dict[str, Adapter] = {}
        self._active = 0
        self.failed: dict[str, str] = {}

    @property
    def started(self) -> tuple[str, ...]:
        """The names of the channels that can be sent to."""
        return tuple(self._running)

    async def start(self, adapters: trio.Nursery) -> None:
        """Start all side by side; returns when each runs or has failed, in bounded time."""
        async with trio.open_nursery() as starting:
            for name, channel in self._channels.items():
                starting.start_soon(self._start, adapters, name, channel)

    async def attempt(self, attempt: ToWorker, wall_ms: int) -> Result:
        """One attempt to its end. Never raises but for a cancellation."""
        if attempt.expires_at <= wall_ms:
            return _refused(attempt.id, Code.TIMEOUT)
        request = request_in(attempt)
        if request is None:
            return _refused(attempt.id, Code.INVALID)
        adapter = self._running.get(request.channel_name)
        if adapter is None:
            return _refused(attempt.id, Code.UNAVAILABLE)
        if self._active >= IN_FLIGHT:
            return _refused(attempt.id, Code.QUEUE_FULL)
        self._active += 1
        try:
            return await self._send(attempt.id, adapter, request)
        finally:
            self._active -= 1

    async def _send(self, attempt_id: str, adapter: Adapter, request: Request) -> Result:
        outgoing = Outgoing(
            delivery_id=request.delivery_id,
            channel=request.channel_name,
            target=request.target,
            text=request.text,
        )
        try:
            with trio.fail_after(self._send_s):
                await adapter.send(outgoing)
        except DeliveryError as error:
            code = Code.REJECTED if error.disposition == "permanent" else Code.FAILED
            return self._failed(attempt_id, request, code, error)
        except trio.TooSlowError:
            told = f"the send took longer than {self._send_s:g} s"
            return self._failed(attempt_id, request, Code.FAILED, told)
        except Exception as error:  # noqa: BLE001 - the boundary of one attempt; its text is not ours
            return self._failed(attempt_id, request, Code.FAILED, type(error).__name__)
        return Result(id=attempt_id, ok=True)

    def _failed(self, attempt_id: str, request: Request, code: Code, error: object) -> Result:
        text = (request.text,) if len(request.text) >= _TELLING_CHARS else ()
        told = diagnostic(error, request.target.id, (*self._secrets, *text))
        return Result(id=attempt_id, ok=False, code=code, error=PUBLIC_TEXT[code], diagnostic=told)

    async def _start(self, adapters: trio.Nursery, name: str, channel: Channel) -> None:
        try:
            adapter = self._build(channel, self._world)
            with trio.fail_after(START_S):
                await adapters.start(self._keep, name, adapter)
        except trio.TooSlowError:
            self.failed[name] = "it did not start in time"
        except DeliveryError as error:
            self.failed[name] = diagnostic(error, "", self._secrets)
        except Exception as error:  # noqa: BLE001 - one adapter's fault costs its own channel
            self.failed[name] = type(error).__name__

    async def _keep(
        self,
        name: str,
        adapter: Adapter,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """The standing task of one adapter; its end leaves the others running."""
        told = _Told(task_status, lambda: self._running.update({name: adapter}))
        try:
            await adapter.run(task_status=told)
        except Exception as error:
            if not told.started_once:
                raise  # the start fails, and says why
            log.error("channel %s ended: %s", name, type(error).__name__)  # noqa: TRY400
        finally:
            self._running.pop(name, None)


class _Told(trio.TaskStatus[None]):
    """Passes on that it has started, once it has been noted."""

    def __init__(self, to: trio.TaskStatus[None], note: Callable[[], None]) -> None:
        self._to = to
        self._note = note
        self.started_once = False

    def started(self, value: None = None) -> None:
        self.started_once = True
        self._note()
        self._to.started(value)


def _refused(attempt_id: str, code: Code) -> Result:
    return Result(id=attempt_id, ok=False, code=code, error=PUBLIC_TEXT[code])
