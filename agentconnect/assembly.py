"""The desks, put together around the relay client: the turns', the deliveries', the daemon."""

import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec
import trio

from agentconnect.adapters.contract import Adapter
from agentconnect.channels.link import Spawn, spawner
from agentconnect.channels.manager import ChannelWorkers
from agentconnect.core.delivery.capability import overlap
from agentconnect.core.delivery.ports import DeliveryService, Destinations
from agentconnect.daemon.board import Board
from agentconnect.daemon.ports import Bridge, Bridging
from agentconnect.daemon.session import Pace
from agentconnect.daemon.setup import DaemonParts
from agentconnect.delivery.desk import DeliveryDesk
from agentconnect.delivery.folders import ExportFolders
from agentconnect.relay import Relay
from agentconnect.status.writer import StatusWriter
from agentconnect.store.deliveries import Deliveries
from agentconnect.store.journal import Journal
from agentconnect.store.zone import local_zone
from agentconnect.turns.desk import Desk
from agentconnect.wiring import Parts

if TYPE_CHECKING:
    from agentconnect.daemon.daemon import Daemon


@runtime_checkable
class Delivering(Protocol):
    """An adapter whose agent may deliver later."""

    def deliver_by(self, service: DeliveryService, destinations: Destinations) -> None:
        """Offer deferred delivery; before any agent is started."""
        ...

    async def listener(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """The agent's standing connection, until cancelled; ends at once where there is none."""
        ...


def deliveries(parts: Parts, relay: Relay, status: StatusWriter) -> DeliveryDesk | None:
    """What runs deferred deliveries, where the agent is of a kind that has them.

    Before any agent is started: what is offered is said in the first message to it.
    """
    if parts.delivery is None:
        return None
    folders = ExportFolders(parts.where.export)
    inside = overlap(os.path.realpath(folders.root), relay.egress_roots)
    later = DeliveryDesk(
        store=Deliveries(parts.where, time.time),
        posts=relay.keyed,
        rooms=relay.rooms,
        keys=relay.capabilities,
        folders=folders,
        settings=msgspec.structs.replace(parts.delivery, overlap=inside),
        scan=parts.scan,
        on_status=status.delivery,
    )
    if isinstance(parts.adapter, Delivering):
        parts.adapter.deliver_by(later, later.destinations)
    return later


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Something that stands beside the turns: under work, under intake, and how it ends."""

    run: Callable[..., Awaitable[None]]
    """Starts under work, by ``nursery.start``."""
    listen: Callable[[], Awaitable[None]]
    """Stands under intake, until cancelled."""
    stop: Callable[[], Awaitable[None]]
    """Ends ``run``, bounded, when intake has ended."""


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """What runs beside the turns."""

    later: DeliveryDesk | None
    standing: tuple[Standing, ...]


@contextmanager
def beside(
    parts: Parts,
    relay: Relay,
    status: StatusWriter,
    graces: tuple[float, float],
    board: Board | None = None,
) -> Iterator[Beside]:
    """The deliveries and the daemon, where there are any; ``graces`` in s: of turns, of work.

    Before any agent is started; leave it when they have all ended.
    """
    later = deliveries(parts, relay, status)
    found: list[Standing] = []
    if later is not None:
        listen = partial(_listen, parts.adapter)
        found.append(Standing(run=later.run, listen=listen, stop=partial(later.stop, graces[1])))
    if parts.daemon is None:  # then no web server is imported
        yield Beside(later=later, standing=tuple(found))
        return
    with spawner(parts.environment) as spawn:
        api = _daemon(parts.daemon, parts, status, spawn)
        if board is not None:
            board.show(api.scheduler.overview)
        found.append(Standing(run=api.run, listen=api.listen, stop=partial(api.stop, graces[0])))
        yield Beside(later=later, standing=tuple(found))


def _daemon(made: DaemonParts, parts: Parts, status: StatusWriter, spawn: Spawn) -> "Daemon":
    from agentconnect.daemon.daemon import Daemon, Telling

    def told() -> None:
        status.channels(workers.status())

    secrets = tuple(made.secrets)
    workers = ChannelWorkers(
        {name: file.channels for name, file in made.channels.items()},
        spawn,
        secrets=lambda: secrets,
        on_status=told,
    )
    bridges: dict[str, Bridge] = {}
    if isinstance(parts.adapter, Bridging):
        trusted = [each for each in made.workspaces if each.trusted]
        bridges = {each.id: parts.adapter.bridge(each.cwd) for each in trusted}
    zone = local_zone(parts.environment)
    if zone.problem:
        status.error(zone.problem)
    turns = parts.turns
    return Daemon(
        made,
        workers,
        bridges,
        parts.where,
        zone=zone.zone,
        pace=Pace(turn_timeout_s=turns.turn_timeout_s, cancel_grace_s=turns.cancel_grace_s),
        telling=Telling(listens=status.daemon, problem=status.error),
    )


async def _listen(adapter: Adapter) -> None:
    """Hold the agent's standing connection until cancelled, where there is one."""
    if isinstance(adapter, Delivering):
        await adapter.listener()


def desk(
    parts: Parts,
    relay: Relay,
    record: Journal,
    work: trio.Nursery,
    later: DeliveryDesk | None,
) -> Desk:
    """Where tasks come in; the relay is told whether any are in hand."""
    made = Desk(
        adapter=parts.adapter,
        rooms=relay.rooms,
        results=relay.results,
        record=record,
        settings=parts.turns,
        work=work,
        admit=parts.admit,
        scan=parts.scan,
        unattested=later.destinations.unattested if later else None,
    )
    relay.tell_status(made.doing)
    return made
