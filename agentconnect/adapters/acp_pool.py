"""Agent processes kept warm: idle ones by last use, and spares that have no session yet.

Owns which process lives how long (design decision 1): an idle one is closed after the keep-alive or
when there are too many, the least recently used first; a busy one is neither closed nor counted.
Knows no room and no conversation. Its nursery is where every agent process lives.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable

import msgspec
import trio

from agentconnect.acp import Agent, AgentInfo, Extensions, Spawner
from agentconnect.adapters.acp_launch import Source
from agentconnect.core.errors import AgentConnectError, PreflightError
from agentconnect.core.turns import wording_acp as wording
from agentconnect.store.children import ChildrenFile

log = logging.getLogger("agentconnect.adapters")

LATE_S = 1.0
"""Of the time to get ready: what ends in its last second ends because it is over."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How long and how many."""

    keepalive_s: float = 300.0
    max_idle: int = 8
    spare: int = 1
    start_s: float = 120.0


def _unheard(info: AgentInfo) -> None:
    """Nobody asks what agents say of themselves."""


class AgentPool:
    """Starts agents and decides when they end. Usable while :meth:`run` runs."""

    def __init__(
        self,
        source: Source,
        limits: Limits,
        children: ChildrenFile | None,
        *,
        offers: Callable[[], Extensions] = Extensions,
        heard: Callable[[AgentInfo], None] = _unheard,
        children_lock: trio.Lock | None = None,
    ) -> None:
        """``offers``: what Turns' connections offer. ``heard``: who an agent said that it is.

        ``children_lock`` is shared by the pools that share ``children``.
        """
        self._source = source
        self._offers = offers
        self._heard = heard
        self._limits = limits
        self._children = children
        self._children_lock = children_lock or trio.Lock()
        self._spawner = Spawner(source.umask)
        self._agents: trio.Nursery | None = None
        self._idle: dict[Agent, trio.CancelScope] = {}
        self._keepers: dict[Agent, trio.CancelScope] = {}  # of those that were ever idle
        self._spares: dict[Agent, trio.CancelScope] = {}
        self._filling = False

    @property
    def waiting(self) -> tuple[int, int]:
        """How many spares and how many idle processes are kept."""
        return len(self._spares), len(self._idle)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the processes until cancelled; then all of them end, side by side."""
        with self._spawner:
            try:
                async with trio.open_nursery() as agents:
                    self._agents = agents
                    task_status.started()
                    await trio.sleep_forever()
            finally:
                self._agents = None

    def later(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run a short piece of work beside the agents; dropped when they have all ended."""
        if self._agents is not None:
            self._agents.start_soon(work)

    # --- starting ---------------------------------------------------------------------------

    async def fresh(self) -> Agent:
        """An initialised agent without a session: a spare, else a new one.

        Raises: as :meth:`start`.
        """
        while self._spares:
            agent, keeper = self._spares.popitem()
            keeper.cancel()
            if agent.usable:
                self._fill()
                return agent
        agent = await self.start()
        self._fill()
        return agent

    async def start(self, offers: Extensions | None = None) -> Agent:
        """Spawn and initialise one agent, for Turns unless ``offers`` is another's.

        Raises: PreflightError (not there, wrong version), AgentError, AgentExitedError, PeerError.
        Cancellation: the process that was begun is ended.
        """
        began, ready, unwanted = trio.current_time(), False, False
        agent = await self._spawn(self._offers() if offers is None else offers)
        try:
            info = await agent.initialize()
            ready = info.protocol_version == 1
        except trio.Cancelled:  # before its time was up: by a stop, and that is no fault of its
            unwanted = trio.current_time() - began < self._limits.start_s - LATE_S
            raise
        finally:
            if not ready:
                agent.stop(quick=True)
                if agent.stderr_tail and not unwanted:  # why is said by whoever asked
                    log.info("agent %d did not get ready; stderr: %s", agent.pid, agent.stderr_tail)
        if not ready:
            raise PreflightError(wording.wrong_protocol(info.protocol_version))
        self._heard(info)
        return agent

    async def _spawn(self, offers: Extensions) -> Agent:
        assert self._agents is not None, "the pool is not running"
        agent = self._source.agent(self._spawner)
        agent.offers = offers
        try:
            await self._agents.start(self._live, agent)
        except OSError as error:
            raise PreflightError(self._source.not_started(error)) from error
        return agent

    async def _live(
        self, agent: Agent, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """The boundary of one process: its end is nobody else's."""
        try:
            await agent.live(self._remember, task_status=task_status)
        except Exception:
            if not agent.begun:
                raise  # it never started: whoever asked for it is told
            log.exception("agent %d ended badly", agent.pid)
        finally:
            self._spares.pop(agent, None)
            self._idle.pop(agent, None)
            if agent.pid:
                with trio.CancelScope(shield=True):
                    await self._forget(agent.pid)

    async def _remember(self, pid: int) -> None:
        if self._children is not None:
            async with self._children_lock:
                await trio.to_thread.run_sync(self._children.add, pid)

    async def _forget(self, pid: int) -> None:
        if self._children is not None:
            async with self._children_lock:
                await trio.to_thread.run_sync(self._children.remove, pid)

    # --- spares -----------------------------------------------------------------------------

    def keep_as_spare(self, agent: Agent) -> None:
        """Hold an initialised agent ready for the next conversation."""
        if not self._limits.keepalive_s or len(self._spares) >= self._limits.spare:
            agent.stop()
            return
        agent.waited = True
        self._spares[agent] = self._expire(agent, self._spares)

    def _fill(self) -> None:
        """There is activity: keep the spares we have, and make the missing ones."""
        for keeper in self._spares.values():
            keeper.deadline = trio.current_time() + self._limits.keepalive_s
        if self._agents is not None and not self._filling and self._limits.keepalive_s:
            self._filling = True
            self._agents.start_soon(self._make_spares)

    async def _make_spares(self) -> None:
        try:
            while len(self._spares) < self._limits.spare:
                with trio.move_on_after(self._limits.start_s) as scope:
                    self.keep_as_spare(await self.start())
                if scope.cancelled_caught:
                    log.warning("a spare agent did not start in %.0f s", self._limits.start_s)
                    return
        except AgentConnectError as error:
            log.warning("no spare agent: %s", error)
        finally:
            self._filling = False

    # --- idle ones --------------------------------------------------------------------------

    def park(self, agent: Agent) -> None:
        """Its turn is over: it may be closed when nobody comes back."""
        if not self._limits.keepalive_s or not self._limits.max_idle:
            agent.stop()
            return
        self.unpark(agent)
        agent.waited = True
        keeper = self._keepers.get(agent)
        if keeper is None:
            keeper = self._keepers[agent] = self._expire(agent, self._idle)
        keeper.deadline = trio.current_time() + self._limits.keepalive_s
        self._idle[agent] = keeper
        surplus = deque(self._idle)
        while len(self._idle) > self._limits.max_idle:
            oldest = surplus.popleft()
            self._idle.pop(oldest).cancel()
            oldest.stop()

    def unpark(self, agent: Agent) -> None:
        """It is in use again; its keeper is kept for the next time."""
        if keeper := self._idle.pop(agent, None):
            keeper.deadline = float("inf")

    def _expire(self, agent: Agent, among: dict[Agent, trio.CancelScope]) -> trio.CancelScope:
        assert self._agents is not None
        keeper = trio.CancelScope(deadline=trio.current_time() + self._limits.keepalive_s)
        self._agents.start_soon(self._wait_out, agent, among, keeper)
        return keeper

    async def _wait_out(
        self, agent: Agent, among: dict[Agent, trio.CancelScope], keeper: trio.CancelScope
    ) -> None:
        with keeper:
            await agent.gone()
        if self._keepers.get(agent) is keeper:
            del self._keepers[agent]
        if among.get(agent) is keeper:  # nobody took it: its time is over
            del among[agent]
            agent.stop()
