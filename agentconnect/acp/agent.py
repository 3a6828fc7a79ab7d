"""One running agent: its process, its connection, and the calls of the protocol (acp.md §3-§8).

Owns the life from spawn to the end of the process group. It knows sessions only by id and keeps no
conversation; what comes in goes to the one :class:`Listener`. Whatever ends the connection, every
open call ends with a sentence, and the process is gone when :meth:`Agent.live` returns.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec
import trio

from agentconnect.acp import messages
from agentconnect.acp.extensions import NOTHING
from agentconnect.acp.links import GENTLE, QUICK, Connect, Link
from agentconnect.acp.messages import AgentInfo, Meta, Opened, PromptBlock
from agentconnect.acp.peer import Peer, RequestRefused
from agentconnect.core.acp import jsonrpc
from agentconnect.core.acp.permission import Option, read_options
from agentconnect.core.acp.updates import Notified, ToolPatch, read_raw_tool_call, read_update
from agentconnect.core.errors import AgentConnectError, AgentError, AgentExitedError

log = logging.getLogger("agentconnect.acp")

EXIT_CODE_WAIT_S = 2.0
CLOSE_WAIT_S = 2.0
"""For ``session/close``: a courtesy that holds nobody up."""
DRAIN_S = 1.0


class Listener(Protocol):
    """Whoever holds the conversation that this agent is in."""

    async def updated(self, notified: Notified) -> None:
        """One ``session/update``, in wire order; the agent waits while this runs."""
        ...

    async def permission(
        self, session_id: str, call: ToolPatch, options: Sequence[Option]
    ) -> str | None:
        """The id of the chosen option; None answers ``cancelled``."""
        ...


class _Permission(msgspec.Struct, rename="camel"):
    session_id: str = ""
    tool_call: msgspec.Raw = jsonrpc.EMPTY
    options: msgspec.Raw = jsonrpc.NULL


class Agent:
    """Made before its process; :meth:`live` is its standing task."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self.info = AgentInfo(protocol_version=None)
        self.listener: Listener | None = None
        self.offers = NOTHING
        """To be set before it lives."""
        self.waited = False
        """It was kept ready for a while, so it may have died with nobody noticing."""
        self._process: Link | None = None
        self._peer: Peer | None = None
        self._stop = trio.Event()
        self._gone = trio.Event()
        self._hurry = trio.CancelScope()
        self._over = ""

    # --- life -----------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """0 before the process exists."""
        return self._process.pid if self._process else 0

    @property
    def begun(self) -> bool:
        """There is, or was, something behind it."""
        return self._process is not None

    @property
    def usable(self) -> bool:
        """It runs and nobody has asked it to end."""
        return (
            self._process is not None
            and self._peer is not None
            and not self._peer.broken
            and not self._stop.is_set()
            and self._process.running
        )

    @property
    def stderr_tail(self) -> str:
        """For the log and the owner's terminal; never for a room."""
        return self._process.stderr_tail() if self._process else ""

    async def live(
        self,
        on_started: Callable[[int], Awaitable[None]] | None = None,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Start the process (or dial) and stay until it has ended.

        Raises: OSError or PreflightError before ``started`` when there is none; nothing after.
        Cancellation: ends the process group at the quick pace, shielded and bounded.
        """
        failure: Exception | None = None
        async with trio.open_nursery() as wires:
            try:
                link = await self._connect(wires)
            except (OSError, AgentConnectError) as error:
                failure = error  # raised below, so that no group hides it
            else:
                await self._hold(link, on_started, task_status)
            wires.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _hold(
        self,
        process: Link,
        on_started: Callable[[int], Awaitable[None]] | None,
        task_status: trio.TaskStatus[None],
    ) -> None:
        self._process = process
        self._peer = Peer(process.stdin, process.stdout, self, self.offers.bounds)
        reason: AgentConnectError | None = None
        try:
            async with trio.open_nursery() as parts:
                parts.start_soon(process.drain_stderr)
                parts.start_soon(self._read, self._peer, process)
                parts.start_soon(self._watch, process)
                try:
                    if on_started is not None and process.pid:
                        parts.start_soon(on_started, process.pid)
                    task_status.started()
                    await self._stop.wait()
                    with self._hurry:
                        await self._close_session()
                        await process.end(GENTLE)
                finally:  # at once when it has ended; quick when somebody could not wait
                    self._stop.set()
                    with trio.CancelScope(shield=True):
                        await process.end(QUICK)
                    parts.cancel_scope.cancel()
        except* AgentConnectError as group:
            reason = next(e for e in group.exceptions if isinstance(e, AgentConnectError))
        finally:
            self._peer.fail(reason or self._exit_error(process))
            self._gone.set()
            with trio.CancelScope(shield=True):
                await process.close()

    def stop(self, *, quick: bool = False, over: str = "") -> None:
        """Begin the end, without waiting. Idempotent; quick even when a gentle end has begun.

        ``over`` is a session that will never be continued: the agent is told, where it can be.
        """
        if quick:
            self._hurry.cancel()
        if not self._stop.is_set():
            self._over = over
        self._stop.set()

    async def _close_session(self) -> None:
        if not (self._over and self.info.can_close):
            return
        with trio.move_on_after(CLOSE_WAIT_S):  # may end: it goes away all the same
            try:
                params = messages.CloseParams(session_id=self._over)
                await self._call(messages.SESSION_CLOSE, params)
            except AgentConnectError as error:
                log.info("agent %d did not close a session: %s", self.pid, error)

    async def gone(self) -> None:
        """Wait until its process has ended and was reaped."""
        if self._process is not None:
            await self._gone.wait()

    async def _read(self, peer: Peer, process: Link) -> None:
        error: AgentConnectError | None = None
        try:
            await peer.run()
        except AgentConnectError as caught:
            error = caught
        if error is None:
            with trio.move_on_after(EXIT_CODE_WAIT_S):
                await process.exited()
            error = self._exit_error(process)
        if not self._stop.is_set():
            tail = process.stderr_tail()
            log.warning("agent %d: %s%s", process.pid, error, f"; stderr: {tail}" if tail else "")
        peer.fail(error)
        self._stop.set()

    async def _watch(self, process: Link) -> None:
        """A leader that is gone ends it, even when a grandchild still holds its output open."""
        await process.exited()
        await trio.sleep(DRAIN_S)  # the reader normally meets the end of the stream first
        self._stop.set()

    def _exit_error(self, process: Link) -> AgentExitedError:
        code = process.returncode
        text = "the agent closed its output" if code is None else f"the agent exited (code {code})"
        return AgentExitedError(text, returncode=code, stderr_tail=process.stderr_tail())

    # --- calls ----------------------------------------------------------------------------

    async def initialize(self) -> AgentInfo:
        """The first call. Raises: AgentError, AgentExitedError, PeerError."""
        params = messages.initialize_params(self.offers.declared)
        result = await self._call(messages.INITIALIZE, params)
        self.info = messages.read_agent_info(_value(result))
        return self.info

    async def new_session(self, cwd: str, meta: Meta | None = None) -> Opened:
        """Open a fresh conversation. Raises: AgentError, AgentExitedError, PeerError."""
        params = messages.NewSessionParams(cwd=cwd, meta=meta or msgspec.UNSET)
        result = await self._call(messages.SESSION_NEW, params)
        opened = messages.read_opened(_value(result))
        if not opened.session_id:
            raise AgentError(jsonrpc.INTERNAL_ERROR, "the agent opened a session without an id")
        return opened

    async def reopen(
        self, session_id: str, cwd: str, *, resume: bool, meta: Meta | None = None
    ) -> Opened:
        """Continue a stored conversation. Raises: AgentError, AgentExitedError, PeerError."""
        method = messages.SESSION_RESUME if resume else messages.SESSION_LOAD
        params = messages.ReopenParams(session_id=session_id, cwd=cwd, meta=meta or msgspec.UNSET)
        return messages.read_opened(_value(await self._call(method, params)), session_id)

    async def set_mode(self, session_id: str, mode: str, config_id: str) -> None:
        """Put the session into a mode. Raises: AgentError, AgentExitedError, PeerError."""
        if config_id:
            await self._call(
                messages.SESSION_SET_CONFIG_OPTION,
                messages.SetConfigOptionParams(
                    session_id=session_id, config_id=config_id, value=mode
                ),
            )
        else:
            await self._call(
                messages.SESSION_SET_MODE,
                messages.SetModeParams(session_id=session_id, mode_id=mode),
            )

    async def prompt(
        self,
        session_id: str,
        blocks: tuple[PromptBlock, ...],
        *,
        meta: Meta | None = None,
        on_sent: Callable[[], None],
        on_settled: Callable[[], None],
    ) -> str:
        """One turn; the stop reason, ``""`` when the agent named none.

        Raises: AgentError, AgentExitedError, PeerError.
        """
        assert self._peer is not None
        result = await self._peer.request(
            messages.SESSION_PROMPT,
            messages.PromptParams(session_id=session_id, prompt=blocks, meta=meta or msgspec.UNSET),
            on_sent=on_sent,
            on_settled=on_settled,
        )
        value = _value(result)
        reason = value.get("stopReason") if isinstance(value, dict) else None
        return reason if isinstance(reason, str) else ""

    async def cancel(self, session_id: str) -> None:
        """Stop the running turn; open permission requests are answered ``cancelled``."""
        assert self._peer is not None
        self._peer.withdraw(messages.REQUEST_PERMISSION)
        await self._peer.notify(
            messages.SESSION_CANCEL, messages.CancelParams(session_id=session_id)
        )

    async def answered(self) -> None:
        """Wait until everything that the agent has asked so far has its answer."""
        if self._peer is not None:
            await self._peer.answered()

    async def _call(self, method: str, params: msgspec.Struct) -> msgspec.Raw:
        assert self._peer is not None
        return await self._peer.request(method, params)

    # --- what the agent asks and tells (peer.Handler) ---------------------------------------

    async def notified(self, method: str, params: msgspec.Raw) -> None:
        """Only ``session/update`` is heard; every other notification is ignored."""
        if method != messages.SESSION_UPDATE or self.listener is None:
            return
        notified = read_update(params)
        if notified is None:
            log.warning("agent %d: an update that cannot be read was dropped", self.pid)
            return
        await self.listener.updated(notified)

    async def asked(self, method: str, params: msgspec.Raw) -> msgspec.Struct:
        """Permission requests, and what is offered here; nothing else is a method of ours."""
        if serve := self.offers.served.get(method):
            return await serve(params)
        if method != messages.REQUEST_PERMISSION:
            raise RequestRefused(jsonrpc.METHOD_NOT_FOUND, "Method not found")
        try:
            asked = msgspec.json.decode(params, type=_Permission)
            options = read_options(msgspec.json.decode(asked.options))
        except jsonrpc.BAD_LINE as error:
            raise RequestRefused(jsonrpc.INVALID_PARAMS, "Invalid params") from error
        if self.listener is None:
            return messages.CANCELLED
        call = read_raw_tool_call(asked.tool_call)
        return messages.selected(await self.listener.permission(asked.session_id, call, options))

    def withdrawn(self, method: str) -> msgspec.Struct | None:
        """A permission request that was cancelled has an outcome of its own."""
        return messages.CANCELLED if method == messages.REQUEST_PERMISSION else None

    def aside(self, method: str) -> bool:
        """What is offered here may come as a notification too."""
        return method in self.offers.served

    def overfull(self, method: str) -> RequestRefused:
        """There are too many."""
        full = RequestRefused(jsonrpc.INTERNAL_ERROR, "Too many requests")
        return self.offers.overfull.get(method, full)


def _value(result: msgspec.Raw) -> object:
    try:
        return msgspec.json.decode(result)
    except jsonrpc.BAD_LINE:
        return msgspec.json.decode(jsonrpc.repair(result))
