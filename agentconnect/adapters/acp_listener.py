"""The standing listener: the one connection on which the agent delivers (deferred-delivery.md §3).

A process of its own, or a connection of its own to an agent that is dialled. It opens no session
and owns no delivery: its end changes nothing for those under way. There is none before the agent
has said that it delivers and deliveries are offered.
"""

import logging

import trio

from agentconnect.acp import Agent
from agentconnect.adapters.acp_later import Later
from agentconnect.adapters.acp_pool import AgentPool
from agentconnect.core.acp.jsonrpc import detail_of
from agentconnect.core.acp.restarts import FIRST_S, Restarts
from agentconnect.core.delivery.ports import DeliveryService, Listening
from agentconnect.core.errors import AgentConnectError, AgentError

log = logging.getLogger("agentconnect.adapters")


class AcpListener:
    """:meth:`run` is its standing task. The pool holds its process and must outlive it."""

    def __init__(
        self,
        pool: AgentPool,
        later: Later,
        service: DeliveryService,
        *,
        start_limit_s: float,
        first_pause_s: float = FIRST_S,
    ) -> None:
        self._pool = pool
        self._later = later
        self._service = service
        self._start_limit_s = start_limit_s
        self._restarts = Restarts(first_pause_s)
        self._begun = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep it up until cancelled; then its end has begun, and the pool sees it through."""
        self._service.listening(Listening.DOWN)
        task_status.started()
        try:
            while True:
                declare = await self._due()
                up_s = await self._once(declare=declare)
                self._service.listening(Listening.RESTARTING)
                pause_s = self._restarts.pause(up_s)
                log.info("the agent's listener starts again in %.0f s", pause_s)
                await trio.sleep(pause_s)
        finally:
            self._service.listening(Listening.DOWN)

    async def _due(self) -> bool:
        """Wait until there is something to listen for; whether deliveries are declared then.

        One that has run stays without the declaration while they are withdrawn.
        """
        while True:
            if not self._service.enabled and not (self._begun and self._later.delivers):
                self._begun = False
                self._service.listening(Listening.DOWN)
                await self._service.changed(known=False)
            await self._service.probe()
            if self._service.enabled or (self._begun and self._later.delivers):
                self._begun = True
                return self._service.enabled

    async def _once(self, *, declare: bool) -> float:
        """One life of it, from its start to its end; how long it was up, in seconds."""
        try:
            agent = await self._started(declare=declare)
        except AgentConnectError as error:
            cause = detail_of(error) if isinstance(error, AgentError) else str(error)
            log.warning("the agent's listener did not start: %s", cause)
            return 0.0
        except Exception:  # the boundary of the listener: the turns go on
            log.exception("the agent's listener could not be started")
            return 0.0
        began = trio.current_time()
        try:
            log.info("the agent's listener is up (%d)", agent.pid)
            self._service.listening(Listening.UP)
            await self._stays(agent, declare=declare)
        finally:
            agent.stop()
        up_s = trio.current_time() - began
        await agent.gone()  # one at a time
        return up_s

    async def _started(self, *, declare: bool) -> Agent:
        """Raises: as ``AgentPool.start``, and AgentConnectError where it takes too long."""
        try:
            with trio.fail_after(self._start_limit_s):
                return await self._pool.start(self._later.standing(declare=declare))
        except trio.TooSlowError:
            late = f"no answer to initialize in {self._start_limit_s:.0f} s"
            raise AgentConnectError(late) from None

    async def _stays(self, agent: Agent, *, declare: bool) -> None:
        """Return when it has ended, or when it declares what is no longer so and all is answered.

        What comes meanwhile the service refuses by itself.
        """
        async with trio.open_nursery() as either:

            async def ended() -> None:
                await agent.gone()
                either.cancel_scope.cancel()

            async def outdated() -> None:
                await self._service.changed(known=declare)
                await agent.answered()
                either.cancel_scope.cancel()

            either.start_soon(ended)
            either.start_soon(outdated)
