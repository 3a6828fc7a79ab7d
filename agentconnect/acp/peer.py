"""JSON-RPC over two byte streams, both ways at once (stack.md §4, acp.md §2-§3).

Notifications are handled inline, in wire order: a slow handler stops the reading and so, by the
pipe, the agent. An answer of the agent settles its request at its place in that order. Requests of
the agent run in bounded tasks of their own, and so do those of its notifications that are requests
without an answer. One frame is written at a time; one that is not written whole is the last.
"""

import logging
from collections.abc import Callable
from typing import Protocol

import msgspec
import trio

from agentconnect.acp import messages
from agentconnect.acp.sending import send_whole
from agentconnect.core.acp import jsonrpc
from agentconnect.core.acp.framing import LineReader
from agentconnect.core.acp.jsonrpc import Notification, OpenCalls, Request, Response, Unusable
from agentconnect.core.errors import AgentConnectError, AgentExitedError, PeerError

log = logging.getLogger("agentconnect.acp")

READ_BYTES = 65536
ENDING_WAIT_S = 4.0
"""A process that has closed its input has mostly ended: how, is known a moment later."""
MAX_ID_BYTES = 4096
"""Ids are echoed; a request with a longer one is no message."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests of the agent are open at once.

    Beyond ``handled``, or ``held_bytes`` of params, a request is refused; beyond ``refused``
    refusals that the agent does not read, the connection ends.
    """

    handled: int = 64
    refused: int = 192
    held_bytes: int = 64 * 1024 * 1024


class RequestRefused(AgentConnectError):
    """A handler's way to answer a request of the agent with an error object."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Handler(Protocol):
    """What is done with the agent's own messages."""

    async def notified(self, method: str, params: msgspec.Raw) -> None:
        """Handle one notification; unknown ones are ignored."""
        ...

    async def asked(self, method: str, params: msgspec.Raw) -> msgspec.Struct | None:
        """Answer one request. Raises: RequestRefused."""
        ...

    def withdrawn(self, method: str) -> msgspec.Struct | None:
        """The answer to a request that was cancelled; None: the protocol's error for it."""
        ...

    def aside(self, method: str) -> bool:
        """Whether its notification is the request without an answer: :meth:`asked`, unordered."""
        ...

    def overfull(self, method: str) -> RequestRefused:
        """The answer to a request of which there are too many."""
        ...


class _Asked:
    """One open request of the agent's; its end is that of the writing of its answer."""

    def __init__(self, method: str) -> None:
        self.method = method
        self.scope = trio.CancelScope()  # now: the next line may take the request back
        self.over = trio.Event()


class _Slot:
    """One open request of ours."""

    def __init__(self, on_settled: Callable[[], None] | None) -> None:
        self.done = trio.Event()
        self.on_settled = on_settled
        self.result: msgspec.Raw = jsonrpc.NULL
        self.error: Exception | None = None

    def settle(self, result: msgspec.Raw, error: Exception | None) -> None:
        self.result = result
        self.error = error
        if self.on_settled is not None:
            self.on_settled()
        self.done.set()


class Peer:
    """One connection. :meth:`run` reads until the stream ends; the rest may be used meanwhile."""

    def __init__(
        self,
        outgoing: trio.abc.SendStream,
        incoming: trio.abc.ReceiveStream,
        handler: Handler,
        bounds: Bounds = Bounds(),  # noqa: B008 - frozen
    ) -> None:
        self._outgoing = outgoing
        self._incoming = incoming
        self._handler = handler
        self._calls: OpenCalls[_Slot] = OpenCalls()
        self._lock = trio.Lock()
        self._asked: dict[bytes, _Asked] = {}
        self._bounds = bounds
        self._running = 0
        self._held_bytes = 0
        self._refusals, self._unwritten = trio.open_memory_channel[bytes](bounds.refused)
        self._junk_said = False
        self._failure: AgentConnectError | None = None

    @property
    def broken(self) -> bool:
        """Nothing can be asked any more."""
        return self._failure is not None

    async def run(self) -> None:
        """Read and dispatch until the agent closes its output.

        Raises: PeerError when the connection cannot go on. Pending requests are settled by
        :meth:`fail`, which the owner calls when it knows how the process ended.
        """
        failure: AgentConnectError | None = None
        async with trio.open_nursery() as requests:
            requests.start_soon(self._write_refusals)
            try:
                await self._read(requests)
            except AgentConnectError as error:
                failure = error  # raised below, so that no group hides it
            requests.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _read(self, requests: trio.Nursery) -> None:
        lines = LineReader()
        while True:
            try:
                # each call is a checkpoint, so a flood starves nobody
                block = await self._incoming.receive_some(READ_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                break
            if not block:
                break
            for line in lines.feed(block):
                await self._take(line, requests)
        if rest := lines.finish():
            await self._take(rest, requests)

    async def request(
        self,
        method: str,
        params: msgspec.Struct,
        *,
        on_sent: Callable[[], None] | None = None,
        on_settled: Callable[[], None] | None = None,
    ) -> msgspec.Raw:
        """Ask and wait; ``on_sent`` runs when the frame is out, ``on_settled`` in wire order.

        Raises: AgentError for an error object, AgentExitedError or PeerError when the connection
        ended. Cancellation: the late answer is ignored.
        """
        if self._failure is not None:
            raise self._failure
        slot = _Slot(on_settled)
        call_id = self._calls.open(slot)
        try:
            try:
                await self._write(jsonrpc.request(call_id, method, params), on_sent)
            except AgentExitedError:
                with trio.move_on_after(ENDING_WAIT_S):  # may end: it closed its input and lives on
                    await slot.done.wait()  # the owner knows the exit code and the last words
                if slot.error is None:
                    raise
            await slot.done.wait()
        finally:
            self._calls.take(call_id)
        if slot.error is not None:
            raise slot.error
        return slot.result

    async def notify(self, method: str, params: msgspec.Struct) -> None:
        """Tell; a connection that is gone is not an error here."""
        try:
            await self._write(jsonrpc.notification(method, params))
        except (AgentExitedError, PeerError):
            log.debug("notification %s not sent: the agent is gone", method)

    def withdraw(self, method: str) -> None:
        """Answer every open request of this method as cancelled."""
        for asked in tuple(self._asked.values()):
            if asked.method == method:
                asked.scope.cancel()

    async def answered(self) -> None:
        """Wait until the answers to all requests that are open now have been written."""
        for asked in tuple(self._asked.values()):
            await asked.over.wait()

    def fail(self, error: AgentConnectError) -> None:
        """The connection is over: every open request ends with ``error``, later ones too."""
        if self._failure is None:
            self._failure = error
        for slot in self._calls.drain():
            slot.settle(jsonrpc.NULL, self._failure)

    async def _take(self, line: bytes, requests: trio.Nursery) -> None:
        for message in jsonrpc.decode(line):
            match message:
                case Notification(method=messages.CANCEL_REQUEST, params=params):
                    self._cancel_asked(params)
                case Notification(method=method) if self._handler.aside(method):
                    self._begin_aside(message, requests)
                case Notification(method=method, params=params):
                    await self._handler.notified(method, params)
                case Response():
                    self._settle(message)
                case Request(id=call_id) if memoryview(call_id).nbytes > MAX_ID_BYTES:
                    self._say_junk("an id of that size", line)
                case Request():
                    self._begin(message, requests)
                case Unusable(reason=reason):
                    self._say_junk(reason, line)

    def _begin(self, request: Request, requests: trio.Nursery) -> None:
        if not self._room_for(request.params):
            why = self._handler.overfull(request.method)
            try:
                self._refusals.send_nowait(_refusal(request.id, why))
            except trio.WouldBlock:
                raise PeerError("the agent asked too many questions at once") from None
            return
        asked = self._asked[bytes(request.id)] = _Asked(request.method)
        self._hold(request.params)
        requests.start_soon(self._answer, request, asked)

    def _begin_aside(self, told: Notification, requests: trio.Nursery) -> None:
        if not self._room_for(told.params):
            log.debug("a notification %s was dropped: there are too many", told.method)
            return
        self._hold(told.params)
        requests.start_soon(self._hear, told)

    def _room_for(self, params: msgspec.Raw) -> bool:
        """One alone is always taken."""
        size = self._held_bytes + memoryview(params).nbytes
        fits = not self._running or size <= self._bounds.held_bytes
        return fits and self._running < self._bounds.handled

    def _hold(self, params: msgspec.Raw) -> None:
        self._running += 1
        self._held_bytes += memoryview(params).nbytes

    def _let_go(self, params: msgspec.Raw) -> None:
        self._running -= 1
        self._held_bytes -= memoryview(params).nbytes

    async def _write_refusals(self) -> None:
        try:
            async for frame in self._unwritten:
                await self._write(frame)
        except (AgentExitedError, PeerError):
            log.debug("refusals not sent: the agent is gone")

    def _settle(self, response: Response) -> None:
        slot = self._calls.take(response.id)
        if slot is None:
            log.debug("answer %d belongs to no open request", response.id)
            return
        slot.settle(msgspec.Raw(bytes(response.result)), response.error)

    def _cancel_asked(self, params: msgspec.Raw) -> None:
        try:
            key = bytes(msgspec.json.decode(params, type=_CancelRequest).request_id)
        except jsonrpc.BAD_LINE:
            return
        if found := self._asked.get(key):
            found.scope.cancel()

    async def _answer(self, request: Request, asked: _Asked) -> None:
        try:
            await self._write(await self._reply_to(request, asked.scope))
        except (AgentExitedError, PeerError):
            log.debug("answer to %s not sent: the agent is gone", request.method)
        finally:
            asked.over.set()
            self._let_go(request.params)
            if self._asked.get(bytes(request.id)) is asked:
                del self._asked[bytes(request.id)]

    async def _hear(self, told: Notification) -> None:
        try:
            await self._handler.asked(told.method, told.params)
        except RequestRefused as refused:
            log.debug("a notification %s was refused: %s", told.method, refused)
        except Exception:
            log.exception("handling %s failed", told.method)
        finally:
            self._let_go(told.params)

    async def _reply_to(self, request: Request, scope: trio.CancelScope) -> bytes:
        with scope:
            try:
                value = await self._handler.asked(request.method, request.params)
                return jsonrpc.result(request.id, value)
            except RequestRefused as refused:
                return _refusal(request.id, refused)
            except Exception:
                log.exception("answering %s failed", request.method)
                return jsonrpc.error(request.id, jsonrpc.INTERNAL_ERROR, "Internal error")
        withdrawn = self._handler.withdrawn(request.method)
        if withdrawn is not None:
            return jsonrpc.result(request.id, withdrawn)
        return jsonrpc.error(request.id, jsonrpc.REQUEST_CANCELLED, "Request cancelled")

    async def _write(self, frame: bytes, on_sent: Callable[[], None] | None = None) -> None:
        """Write one frame: whole, or the connection is over. Cancellation: as ``send_whole``."""
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            self._lock.acquire_nowait()  # nearly always: no turn of the loop then
        except trio.WouldBlock:
            await self._lock.acquire()
        try:
            if self._failure is not None:
                raise self._failure
            await send_whole(self._outgoing, frame, on_sent=on_sent, on_stuck=self.fail)
        finally:
            self._lock.release()

    def _say_junk(self, reason: str, line: bytes) -> None:
        if self._junk_said:
            return
        self._junk_said = True
        size = len(line)  # what it says may be what people said
        log.warning("the agent wrote %d bytes that are no message (%s)", size, reason)


class _CancelRequest(msgspec.Struct, rename="camel"):
    request_id: msgspec.Raw


def _refusal(call_id: msgspec.Raw, why: RequestRefused) -> bytes:
    return jsonrpc.error(call_id, why.code, str(why), why.data)
