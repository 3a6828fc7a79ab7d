"""The desk of deliveries: takes requests, runs each delivery in a task of its own, answers.

Satisfies ``core.delivery.ports``. An accepted delivery is the desk's: it runs to completion,
whatever becomes of the connection it came by. At a stop nothing new is taken, what runs gets a
little time, and what is left goes on at the next start (deferred-delivery.md §3, §9, §10).
"""

import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

import msgspec
import trio

from agentconnect.core.delivery import intake
from agentconnect.core.delivery.answers import Answer, Delivered, Retry, wire
from agentconnect.core.delivery.courier import STOPPING, UNTRUSTED
from agentconnect.core.delivery.deciding import NOT_NOW_S, UNREADABLE_S
from agentconnect.core.delivery.effects import Begin, Effect, Idle, Tell, Wait, Withdraw
from agentconnect.core.delivery.ledger import DeliveryId, Entry
from agentconnect.core.delivery.ports import DeliveredResult, DeliveryRefused, Listening
from agentconnect.core.delivery.request import (
    DeliverRequest,
    Invalid,
    read_deliver,
    read_notify,
)
from agentconnect.core.delivery.runs import Active, Answered, Joined, Runs, Started, clash
from agentconnect.core.errors import StoreUnreadableError
from agentconnect.core.status import DeliveryBlock
from agentconnect.core.turns.guard import Scan
from agentconnect.delivery.destinations import SessionDestinations
from agentconnect.delivery.folders import ExportFolders
from agentconnect.delivery.guarding import UnaskedGuard
from agentconnect.delivery.notices import Notices
from agentconnect.delivery.performing import Performer
from agentconnect.delivery.ports import Keys, Messages, Posts
from agentconnect.delivery.standing import DeliverySettings, Standing
from agentconnect.delivery.upkeep import Upkeep
from agentconnect.store.deliveries import Counts, Deliveries

log = logging.getLogger("agentconnect.delivery")

ON_LOOP_BYTES = 64 * 1024
"""A longer request is read in a thread."""
REPORT_PACE_S = 1.0
STOPPING_WAIT_S = 1.0
CLOSE_WITHIN_S = 5.0

Run = Generator[Effect, Any, None]
T = TypeVar("T")


class _Caller:
    """A request that waits for its delivery's answer."""

    def __init__(self) -> None:
        self.answer: Answer | None = None
        self._told = trio.Event()

    def tell(self, answer: Answer) -> None:
        self.answer = answer
        self._told.set()

    async def wait(self) -> Answer:
        await self._told.wait()
        assert self.answer is not None
        return self.answer


class DeliveryDesk:
    """All deliveries of this worker. Nothing is served before :meth:`run` and after its end."""

    def __init__(
        self,
        *,
        store: Deliveries,
        posts: Posts,
        rooms: Messages,
        keys: Keys,
        folders: ExportFolders,
        settings: DeliverySettings,
        scan: Scan,
        on_status: Callable[[DeliveryBlock], None] = lambda block: None,
        wall_now: Callable[[], float] = time.time,
        unit: Callable[[], float] = random.random,
    ) -> None:
        self._store = store
        self._keys = keys
        self._on_status = on_status
        guard = UnaskedGuard(scan)
        self._standing = Standing(settings, keys, store, wall_now=wall_now, unit=unit)
        self._standing.on_change = self._touch
        self.destinations = SessionDestinations(self._standing, store, folders)
        self._performer = Performer(store, posts, guard, self.destinations)
        self._notices = Notices(self._standing, store, rooms, guard)
        self._upkeep = Upkeep(self._standing, store, folders, self.destinations, keys, self._resume)
        self._runs: Runs[_Caller] = Runs()
        self._asleep: dict[DeliveryId, trio.Event] = {}
        self._counts = Counts()
        self._drained = trio.Event()
        self._dirty = trio.Event()
        self._nursery: trio.Nursery | None = None

    def __repr__(self) -> str:
        return f"<DeliveryDesk running={len(self._runs)}>"

    # --- living

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold every delivery until :meth:`stop` or cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._upkeep.run)
                nursery.start_soon(self._keep_up, self._watch_keys)
                nursery.start_soon(self._keep_up, self._report)
                task_status.started()
                try:
                    await trio.sleep_forever()  # cancelled: by stop, or from outside
                finally:  # while the nursery still takes tasks
                    self._nursery = None
                    self._standing.stopping = True
        finally:
            self._say_how()
            with trio.move_on_after(CLOSE_WITHIN_S, shield=True):  # may end: a disk that hangs
                await self._store.close()

    async def stop(self, grace_s: float) -> None:
        """Take nothing new; end when all is recorded, or after ``grace_s``."""
        self._standing.stopping = True
        self._standing.notify()
        for asleep in self._asleep.values():
            asleep.set()
        with trio.move_on_after(grace_s):  # may end: what is left goes on at the next start
            while len(self._runs):
                await self._drained.wait()
        if len(self._runs):
            log.info("%d deliveries go on at the next start", len(self._runs))
        nursery, self._nursery = self._nursery, None
        if nursery is not None:
            nursery.cancel_scope.cancel(reason="stopping")

    # --- what a connection may ask for (DeliveryService)

    @property
    def enabled(self) -> bool:
        """Whether a listener that starts now declares that it takes deliveries."""
        return self._standing.enabled

    async def changed(self, known: bool) -> bool:
        """Wait until ``enabled`` is not ``known``; what it is then."""
        return await self._standing.changed(known)

    async def probe(self) -> None:
        """Ask the relay anew, once what an earlier run left is under way."""
        await self._upkeep.started.wait()
        await self._keys.ask()
        self._standing.look()

    def declared(self, delivers: bool, *, elsewhere: bool = False) -> None:
        """What the agent's ``initialize`` said last; whether it runs on another machine."""
        self._standing.declared = delivers
        self._standing.elsewhere = elsewhere
        self._standing.look()

    def listening(self, state: Listening) -> None:
        """How the listener is now."""
        self._standing.listener = state
        self._touch()

    async def deliver(self, params: msgspec.Raw) -> msgspec.Struct:
        """Serve ``_ag2/deliver``. Raises: DeliveryRefused.

        Cancellation: the caller is forgotten; the delivery goes on.
        """
        request = await _read(read_deliver, params)
        if isinstance(request, Invalid):
            raise _refused(request)
        answer = await self._answer(request)
        if isinstance(answer, Delivered):
            return msgspec.convert(wire(answer).body, DeliveredResult)
        raise _refused(answer)

    async def notify(self, params: msgspec.Raw) -> msgspec.Struct:
        """Serve ``_ag2/notify``. Raises: DeliveryRefused where it cannot be read."""
        request = await _read(read_notify, params)
        if isinstance(request, Invalid):
            raise _refused(request)
        return await self._notices.post(request)

    # --- runs

    async def _answer(self, request: DeliverRequest) -> Answer:
        if self._nursery is None:
            return Retry(retry_after_s=NOT_NOW_S, reason=STOPPING)
        caller = _Caller()
        match self._runs.arrive(request, caller):
            case Answered(answer=answer):
                return answer
            case Started(active=active):
                self._begin(active, intake.deliver(request, self._standing))
            case Joined(active=active, nudge=nudge):
                if nudge:
                    self._wake(active)
            case _:
                lone = Active[_Caller](request.id, request.fingerprint)
                lone.callers.append(caller)
                await self._drive(lone, clash(request, self._standing))
        return await caller.wait()

    def _resume(self, entry: Entry) -> None:
        active = self._runs.resume(entry)
        if active is not None:
            self._begin(active, intake.resume(entry, self._standing))

    def _begin(self, active: Active[_Caller], run: Run) -> None:
        if self._nursery is None:  # it has just ended
            run.close()
            for caller in self._runs.over(active):
                caller.tell(Retry(retry_after_s=NOT_NOW_S, reason=STOPPING))
            return
        self._nursery.start_soon(self._run, active, run)
        self._touch()

    async def _run(self, active: Active[_Caller], run: Run) -> None:
        """The failure boundary of one delivery."""
        why = STOPPING
        try:
            await self._drive(active, run)
        except Exception:
            log.exception("delivery=%s broke off; it is tried again", active.id[:64])
            why = "the worker could not go on with it just now"
            self._upkeep.wanted()
        finally:
            for caller in self._runs.over(active):
                caller.tell(Retry(retry_after_s=UNREADABLE_S, reason=why))
            self._asleep.pop(active.id, None)
            self._drained.set()
            self._drained = trio.Event()
            self._touch()

    async def _drive(self, active: Active[_Caller], run: Run) -> None:
        """One effect after the other, until the run is over."""
        result: object = None
        while True:
            try:
                effect = run.send(result)
            except StopIteration:
                return
            result = None
            match effect:
                case Tell(answer=answer):
                    self._tell(active, answer)
                case Withdraw():
                    self._keys.withdraw()
                case Wait(seconds=seconds):
                    await self._sleep(active, seconds)
                case Idle(seconds=seconds):
                    active.idle = effect
                    await self._sleep(active, seconds)
                    active.idle = None
                case _:
                    result = await self._performer.perform(effect)
                    self._standing.look()
                    if isinstance(effect, Begin):
                        self._touch()  # its end may be minutes away

    def _tell(self, active: Active[_Caller], answer: Answer) -> None:
        if answer != active.last:
            said = wire(answer)
            facts = {"event": "delivery", "delivery": active.id[:64], **_outcome(said.body)}
            log.info(
                "delivery=%s %s", active.id[:64], said.body.get("outcome"), extra={"facts": facts}
            )
        for caller in self._runs.told(active, answer):
            caller.tell(answer)
        self._touch()

    async def _sleep(self, active: Active[_Caller], seconds: float) -> None:
        """Wait so long, or until somebody has a reason to look again."""
        if self._standing.stopping:
            seconds = min(seconds, STOPPING_WAIT_S)
        asleep = self._asleep[active.id] = trio.Event()
        with trio.move_on_after(seconds):  # may end: that is what was asked for
            await asleep.wait()
        self._asleep.pop(active.id, None)

    def _wake(self, active: Active[_Caller]) -> None:
        if active.id in self._asleep:
            self._asleep[active.id].set()

    # --- beside the runs

    async def _keep_up(self, standing: Callable[[], Awaitable[None]]) -> None:
        """The failure boundary of what runs beside: a mistake in it costs no delivery."""
        while True:
            try:
                await standing()
            except Exception:
                log.exception("what runs beside the deliveries broke off; it is begun again")
            await trio.sleep(REPORT_PACE_S)

    async def _watch_keys(self) -> None:
        """Ask each minute while keys are not trusted; when they are, go on with what waits."""
        async with trio.open_nursery() as asking:
            asking.start_soon(self._keys.run)
            trusted = self._keys.trusted
            while True:
                await self._keys.changed()
                self._standing.look()
                was, trusted = trusted, self._keys.trusted
                if trusted and not was:
                    for active in self._runs.idle():
                        if isinstance(active.last, Retry) and active.last.reason == UNTRUSTED:
                            self._wake(active)

    def _touch(self) -> None:
        self._dirty.set()

    def _say_how(self) -> None:
        self._on_status(self._standing.block(self._counts, self._runs.awake))

    async def _report(self) -> None:
        """Say how things are, soon after they have changed."""
        while True:
            await self._dirty.wait()
            self._dirty = trio.Event()
            with contextlib.suppress(StoreUnreadableError):  # the block says why
                self._counts = await self._store.counts()
            self._standing.look()
            self._say_how()
            await trio.sleep(REPORT_PACE_S)


async def _read(read: Callable[[bytes], T], params: msgspec.Raw) -> T:
    raw = bytes(params)
    if len(raw) > ON_LOOP_BYTES:
        return await trio.to_thread.run_sync(read, raw)
    return read(raw)


def _refused(answer: Answer | Invalid) -> DeliveryRefused:
    said = wire(answer)
    return DeliveryRefused(said.code, said.message, said.body)


def _outcome(body: dict[str, object]) -> dict[str, object]:
    return {name: body[name] for name in ("outcome", "reason") if name in body}
