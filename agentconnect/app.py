"""The map: every long-lived nursery of the worker and the order in which it stops.

Owns the tree of design.md §3; the parts are made in ``wiring``. Stop: intake first, then each turn
by its own deadline, then the agents, then the results, under budgets that fit in 45 s together.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio

from agentconnect import assembly, checks, wiring
from agentconnect.config.settings import LoadedSettings
from agentconnect.core.errors import AgentConnectError, first_cause
from agentconnect.daemon.board import Board
from agentconnect.relay import Relay, open_relay
from agentconnect.status.notify import Notifier
from agentconnect.status.writer import StatusWriter
from agentconnect.stopping import Stop, watch_signals
from agentconnect.store.journal import Journal
from agentconnect.turns.desk import Desk

log = logging.getLogger("agentconnect")
TURN_GRACE_S, WORK_BUDGET_S, RESULTS_BUDGET_S = 10.0, 20.0, 10.0  # deliveries: all of work's
Say = Callable[[str], None]
Ready = Callable[[], Awaitable[None]] | None


async def run_worker(
    loaded: LoadedSettings, stop: Stop, *, say: Say, ready: Ready = None, board: Board | None = None
) -> int:
    """Run the worker until it is asked to stop; the exit code (128 + n after a second signal).

    ``board`` shows its scheduled tasks.
    Raises: AgentConnectError with the sentence to say: settings, preflight, lock, relay.
    """
    secrets = wiring.start_logging(loaded)
    layout = wiring.layout(loaded.settings)
    with wiring.claim(loaded, layout):
        status = wiring.status_writer(loaded.settings, layout)
        notifier = wiring.notifier(loaded.environment)
        worker = _Worker(loaded, stop, status, notifier, say, ready, secrets, board)
        try:
            async with trio.open_nursery() as root:
                await root.start(status.run)
                await root.start(watch_signals, stop, root.cancel_scope)
                await worker.serve(root)
                root.cancel_scope.cancel(reason="all is done")
            status.state("stopped", stop.detail)
        except Exception as error:  # noqa: BLE001 - said in the status file, then raised
            status.state("error", checks.sentence(error))
            raise first_cause(error) from None
        except BaseException:
            status.state("error", "ended from outside")  # what it said before is true no more
            raise
        finally:
            status.write_now()
            notifier.close()
    return 128 + stop.second_signal if stop.second_signal else 0


@dataclass(frozen=True)
class _Worker:
    """One run: the nurseries below the root, outermost first."""

    loaded: LoadedSettings
    stop: Stop
    status: StatusWriter
    notifier: Notifier
    say: Say
    ready: Ready
    secrets: set[str]
    board: Board | None

    async def serve(self, root: trio.Nursery) -> None:
        """Start-up in the order of worker.md §4, then results > agents > work > intake."""
        layout = wiring.layout(self.loaded.settings)
        parts = await wiring.parts(self.loaded, layout, self.status, self.say, self.secrets)
        async with wiring.journal(layout, self.status, self.stop) as journal:
            if journal is not None:
                await self._connect(root, parts, journal)
        if self.stop.error is not None:
            raise self.stop.error

    async def _connect(self, root: trio.Nursery, parts: wiring.Parts, journal: Journal) -> None:
        """The relay client, and the results that outlive everything else."""
        async with open_relay(parts.relay, journal, on_status=self.status.relay) as relay:
            root.start_soon(self.notifier.run, lambda: relay.alive)
            self.status.relay(relay.snapshot())
            checks.warn_of_roots(relay.dropped_roots, relay.egress_roots, self.loaded)
            async with trio.open_nursery() as results:
                results.start_soon(relay.post_results)
                await self._agents(parts, relay, journal)
                relay.close_results()
                results.cancel_scope.deadline = trio.current_time() + RESULTS_BUDGET_S

    async def _agents(self, parts: wiring.Parts, relay: Relay, journal: Journal) -> None:
        """The agent processes: they outlive every turn, and end before the results do."""
        graces = (TURN_GRACE_S, WORK_BUDGET_S)
        with assembly.beside(parts, relay, self.status, graces, self.board) as beside:
            async with trio.open_nursery() as agents:
                await agents.start(parts.adapter.run)
                async with self.stop.cuts():
                    await self._preflight(parts)
                if not self.stop.asked:
                    await self._work(parts, relay, journal, beside)
                agents.cancel_scope.cancel(reason="the last turn has ended")

    async def _preflight(self, parts: wiring.Parts) -> None:
        description = await parts.adapter.preflight()
        self.status.facts(agent=description)
        if description:
            self.say(f"agent-connect: {description}")

    async def _work(
        self, parts: wiring.Parts, relay: Relay, journal: Journal, beside: assembly.Beside
    ) -> None:
        """Deliveries, the daemon; the turns, a session nursery each; what brings them tasks."""
        async with trio.open_nursery() as work:
            for each in beside.standing:
                await work.start(each.run)
            desk = assembly.desk(parts, relay, journal, work, beside.later)
            self.status.load = desk.load
            async with trio.open_nursery() as intake:
                intake.start_soon(self._take_tasks, relay, desk)
                for each in beside.standing:
                    intake.start_soon(each.listen)
                self.status.state("serving", parts.detail)
                self.notifier.ready(parts.detail)
                self.say(f"agent-connect: {parts.detail}")
                if self.ready is not None:
                    await self.ready()
                await self.stop.wait()
                self.notifier.stopping()
                intake.cancel_scope.cancel(reason="stopping")
            work.cancel_scope.deadline = trio.current_time() + WORK_BUDGET_S
            async with trio.open_nursery() as ending:
                ending.start_soon(desk.stop, TURN_GRACE_S)
                for each in beside.standing:
                    ending.start_soon(each.stop)

    async def _take_tasks(self, relay: Relay, desk: Desk) -> None:
        """The poller; where it ends for good, so does the worker, in order."""
        try:
            await relay.take_tasks(desk.submit)
        except AgentConnectError as error:
            log.error("%s", error)  # noqa: TRY400 - a sentence, not a fault of ours
            self.status.state("error", str(error))  # while it ends in order, it does not serve
            self.stop.ask("the relay client ended", error)
