"""The relay client: the parts put together, and the two tasks the app runs (design.md §3).

``take_tasks`` is the intake: cancelled first when stopping. ``post_results`` is the outbox: it
outlives every turn. Everything they share is made here and nowhere else.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import trio

from agentconnect.core.errors import RelayStoppedError
from agentconnect.core.relay.credential import Credential, redact_url
from agentconnect.core.relay.journal import IN_FLIGHT
from agentconnect.core.task import TaskId
from agentconnect.relay.acks import Acks
from agentconnect.relay.auth import Bearer
from agentconnect.relay.capabilities import RECHECK_S, Capabilities
from agentconnect.relay.claim import BearerClaim
from agentconnect.relay.debts import pay_debts
from agentconnect.relay.egress import LIMIT_BYTES, Egress
from agentconnect.relay.events import EventChannel, Health, Sink
from agentconnect.relay.exports import Exports
from agentconnect.relay.guard import GuardKeeper
from agentconnect.relay.heartbeat import Heartbeat
from agentconnect.relay.http import USER_AGENT, Http
from agentconnect.relay.intake import HandOver, Intake
from agentconnect.relay.keyed import KeyedPosts
from agentconnect.relay.media import Media
from agentconnect.relay.outbox import Outbox
from agentconnect.relay.pictures import Pictures
from agentconnect.relay.poller import POLL_WAIT_S, Poller
from agentconnect.relay.results import Results
from agentconnect.relay.roomops import RoomOps
from agentconnect.relay.state import Facts, RelayState, RelayStatus, StateBoard
from agentconnect.relay.strandings import Strandings
from agentconnect.store.journal import Journal

PROGRESS_WITHIN_S = 90.0
"""The longest a sound loop takes to come round is a poll of 35 s and a slice of a wait."""


class RelayConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What the client has to be told; paths come from the state folder's layout.

    ``token_file`` is the file the token came from, if it came from one; ``on_rotated`` is told each
    new secret, so that nothing that is written down ever holds it. In ``claims_dir`` all state
    folders of this user agree on who polls with a token. ``private_folders`` and
    ``private_files`` are never sent, whatever ``egress_roots`` says; of ``delivery_root`` only
    deliveries send, each from one folder. ``events``: where the event channel goes; None: off.
    """

    credential: Credential
    token_file: Path | None = None
    on_rotated: Callable[[str], None] = lambda secret: None
    instance: str = "default"
    status_path: Path
    guard_path: Path
    claims_dir: Path | None = None
    media_dir: Path
    media_origins: tuple[str, ...] = ()
    pictures_dir: Path | None = None
    egress_roots: tuple[str, ...] = ()
    egress_limit: int = LIMIT_BYTES
    delivery_root: str = ""
    keys_recheck_s: float = RECHECK_S
    private_folders: tuple[str, ...] = ()
    private_files: tuple[str, ...] = ()
    package_version: str = "0"
    events: Sink | None = None
    user_agent: str = USER_AGENT
    poll_wait_s: int = POLL_WAIT_S


class Relay:
    """One identity's connection to its relay. Made by :func:`open_relay`."""

    def __init__(
        self,
        config: RelayConfig,
        journal: Journal,
        *,
        on_status: Callable[[RelayStatus], None],
        wall_now: Callable[[], float] = time.time,
    ) -> None:
        self._journal = journal
        self._bearer = Bearer(config.credential, config.token_file, on_rotated=config.on_rotated)
        self._http = Http(
            config.credential.gateway,
            self._bearer.secret,
            user_agent=config.user_agent,
            on_unauthorized=self._bearer.suspect,
        )
        self._guard = GuardKeeper(
            config.guard_path,
            BearerClaim(config.claims_dir, lambda: self._bearer.credential),
            wall_now=wall_now,
        )
        self._board = StateBoard(
            config.status_path,
            instance=config.instance,
            gateway=redact_url(config.credential.gateway),
            facts=self._facts,
            on_status=on_status,
            wall_now=wall_now,
        )
        touch = self._board.touch
        self._acks = Acks(self._http, wanted=self._in_flight, changed=touch)
        self._outbox = Outbox(self._http, journal, changed=touch)
        self._media = Media(self._http, config.media_dir, config.media_origins)
        self._pictures = Pictures(config.pictures_dir)
        self.capabilities = Capabilities(
            self._http, journal.worker_id, recheck_s=config.keys_recheck_s
        )
        self._heartbeat = Heartbeat(
            self._http,
            version=config.package_version,
            inflight=lambda: journal.counts().inflight,
            allowed=lambda: self._guard.polling,
        )
        self._strandings = Strandings(journal, self._outbox, allowed=lambda: self._guard.polling)
        self._taking = False
        self._events: EventChannel | None = None
        if config.events is not None:
            self._events = EventChannel(
                self._http,
                config.events,
                has_token_file=config.token_file is not None,
                wall_now=wall_now,
            )
        self._poller = Poller(
            self._http,
            self._bearer,
            self._guard,
            self._board,
            self._outbox,
            poll_wait_s=config.poll_wait_s,
        )
        self._egress = Egress(
            config.egress_roots,
            private_folders=config.private_folders,
            private_files=config.private_files,
            limit=config.egress_limit,
        )
        self.dropped_roots, self.egress_roots = self._egress.dropped, self._egress.roots
        self.rooms = RoomOps(self._http, self.capabilities)
        self.keyed = KeyedPosts(
            self._http, self.rooms, Exports(config.delivery_root, limit=config.egress_limit)
        )
        self.results = Results(
            journal,
            self._outbox,
            self.rooms,
            self.capabilities,
            self._egress,
            self._pictures,
            release=self._media.release,
        )

    def snapshot(self) -> RelayStatus:
        """Where the client stands now."""
        return self._board.snapshot()

    @property
    def alive(self) -> bool:
        """Whether the poll loop came round of late; while there is none, there is no doubt."""
        return (
            not self._taking or trio.current_time() - self._poller.progress_at < PROGRESS_WITHIN_S
        )

    @property
    def events(self) -> Health | None:
        """How the event channel is; None unless it was asked for."""
        return self._events.health if self._events else None

    def tell_status(self, status: Callable[[], str]) -> None:
        """What heartbeats say of this node from now on; a blank leaves the relay's last word."""
        self._heartbeat.status = status

    async def take_tasks(self, hand_over: HandOver) -> None:
        """Poll and hand over until cancelled.

        Raises: RelayStoppedError where polling has ended for good (fatal, displaced).
        """
        stopped = ""
        failure: Exception | None = None
        self._taking = True
        try:
            async with trio.open_nursery() as intake:
                intake.start_soon(self._board.run)
                intake.start_soon(self._bearer.watch)
                try:
                    stopped = await self._poll(intake, hand_over)
                except Exception as error:  # noqa: BLE001 - raised again, outside the group
                    failure = error
                intake.cancel_scope.cancel()
        finally:
            self._taking = False
            await self._guard.release()
            if not stopped:
                self._board.set(RelayState.STOPPED)
            with trio.move_on_after(1.0, shield=True):
                await self._board.write()
        if failure is not None:
            raise failure
        if stopped:
            raise RelayStoppedError(stopped)

    async def post_results(self) -> None:
        """Post what the journal owes; ends once :meth:`close_results` was called and all is out."""
        await self._outbox.run()
        await self._board.write()

    def close_results(self) -> None:
        """No more answers will be recorded."""
        self._outbox.close()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _poll(self, beside: trio.Nursery, hand_over: HandOver) -> str:
        await self._poller.claim()
        await self._media.sweep()
        owed = {entry.id for entry in self._journal.accepted()}
        await self._pictures.sweep(owed.__contains__)
        beside.start_soon(self.capabilities.run)
        beside.start_soon(self._acks.run)
        beside.start_soon(self._strandings.run)
        beside.start_soon(self._heartbeat.run)
        beside.start_soon(pay_debts, self._journal, self.rooms)
        if self._events is not None:
            beside.start_soon(self._events.run)
        intake = Intake(
            self._http,
            self._journal,
            self._acks,
            self._outbox,
            self._media,
            hand_over,
            beside,
            on_source=self.rooms.served,
        )
        return await self._poller.run(intake)

    def _in_flight(self, task_id: TaskId) -> bool:
        entry = self._journal.entry(task_id)
        return entry is not None and entry.state in IN_FLIGHT

    def _facts(self) -> Facts:
        counts = self._journal.counts()
        return Facts(
            inflight=counts.inflight,
            pending=counts.pending,
            parked=counts.parked,
            undelivered=counts.undelivered,
            acks_paused_s=self._acks.paused_s(),
            singleton=self._guard.state,
        )


@asynccontextmanager
async def open_relay(
    config: RelayConfig,
    journal: Journal,
    *,
    on_status: Callable[[RelayStatus], None] = lambda status: None,
) -> AsyncIterator[Relay]:
    """A client that is built but not started: nothing goes out before one of its tasks runs."""
    relay = Relay(config, journal, on_status=on_status)
    try:
        yield relay
    finally:
        await relay.aclose()
