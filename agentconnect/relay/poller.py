"""The poll loop: guard, poll, intake, and how long to wait (relay-wire.md §3.1, §6, §16).

It waits for nothing but the relay: acks, answers, downloads and consumers run beside it, since the
leases live only while it polls. One turn of the loop is one failure boundary; whatever goes wrong
costs a delay and is said in the status before the wait.
"""

import logging
import random
from collections.abc import Awaitable, Callable

import trio

from agentconnect.core.errors import AuthRejectedError, RelayError, StoreUnreadableError
from agentconnect.core.relay.cadence import (
    LoopState,
    LoopVerdict,
    PollKind,
    after_poll,
    anti_spin_s,
    jittered,
    poll_kind,
)
from agentconnect.core.relay.envelope import Batch, decode_batch
from agentconnect.relay.auth import Bearer
from agentconnect.relay.guard import GuardKeeper
from agentconnect.relay.http import Http
from agentconnect.relay.intake import Intake
from agentconnect.relay.outbox import Outbox
from agentconnect.relay.state import RelayState, StateBoard

log = logging.getLogger("agentconnect.relay")

POLL_WAIT_S = 25
POLL_MARGIN_S = 10.0
LARGE_BYTES = 1024 * 1024
STORE_RETRY_S = 15.0
SLICE_S = 15.0
"""Waits are cut up with a look at the guard between: a long backoff is not a dead holder."""


AUTH_SOON_S = (2.0, 8.0)
"""Before the half minutes of an auth wait: one rejection may be an edge's hiccup."""


class Poller:
    """The only one that polls."""

    def __init__(
        self,
        http: Http,
        bearer: Bearer,
        guard: GuardKeeper,
        board: StateBoard,
        outbox: Outbox,
        *,
        poll_wait_s: int = POLL_WAIT_S,
        mono_now: Callable[[], float] = trio.current_time,
        unit: Callable[[], float] = random.random,
    ) -> None:
        self._http = http
        self._bearer = bearer
        self._guard = guard
        self._board = board
        self._outbox = outbox
        self._poll_wait_s = poll_wait_s
        self._mono_now = mono_now
        self._unit = unit
        self.progress_at = mono_now()
        """When the loop last came round: a supervisor's proof of life."""
        self._loop = LoopState()
        self._confirmed = False
        self._asked_with = 0

    async def claim(self) -> None:
        """Return once this client holds the guard (or cannot tell)."""
        while not await self._guard.check():
            self.progress_at = self._mono_now()
            self._board.set(RelayState.STANDBY, recheck_s=self._guard.recheck_s)
            await trio.sleep(self._guard.recheck_s)
        self._confirmed = False
        self._board.set(RelayState.RECONNECTING)

    async def run(self, intake: Intake) -> str:
        """Take up what the journal holds, then poll until that is over; the sentence says why."""
        await self._take_up(intake)
        while True:
            self.progress_at = self._mono_now()
            if not await self._guard.check():
                if not self._guard.displaced:  # a new secret, and somebody else polls with it
                    await self.claim()
                    continue
                sentence = "another client took over the polling of this token"
                self._board.set(RelayState.DISPLACED, error=sentence)
                return sentence
            began = self._mono_now()
            try:
                fresh = await self._turn(intake)
            except AuthRejectedError as error:
                sentence = await self._rejected(error)
                if sentence:
                    return sentence
            except StoreUnreadableError as error:
                await self._hold(RelayState.RECONNECTING, str(error), STORE_RETRY_S)
            except RelayError as error:
                await self._failed(error)
            except Exception as error:
                log.exception("a poll failed in a way nobody planned for")
                await self._failed(RelayError(f"unexpected {type(error).__name__}"))
            else:
                await self._succeeded(began, fresh=fresh)

    async def _take_up(self, intake: Intake) -> None:
        """Not a task is leased while those of the last run cannot be read."""
        while True:
            self.progress_at = self._mono_now()
            try:
                return await intake.take_up()
            except StoreUnreadableError as error:
                await self._hold(RelayState.RECONNECTING, str(error), STORE_RETRY_S)

    async def _turn(self, intake: Intake) -> bool:
        """One poll and its batch; whether it brought anything new.

        The first one after a start or a failure does not wait, so that the state is known at once.
        """
        wait_s = self._poll_wait_s if self._confirmed else 0
        self._asked_with = self._bearer.rotations
        answer = await self._http.poll(wait_s, self._poll_wait_s + POLL_MARGIN_S)
        batch = await _decoded(answer.body)
        if batch.anomaly:
            self._board.poll_anomalies += 1
            raise RelayError("the poll's answer held no list of tasks", status=answer.status)
        return await intake.take(batch)

    def _judge(self, kind: PollKind, error: RelayError | None = None) -> LoopVerdict:
        self._loop, verdict = after_poll(
            self._loop,
            kind,
            mono_now=self._mono_now(),
            has_file=self._bearer.token_file is not None,
            retry_after_s=error.retry_after_s if error else None,
        )
        return verdict

    async def _succeeded(self, began: float, *, fresh: bool) -> None:
        self._judge(PollKind.OK)
        self._outbox.resume()
        self._board.healthy()
        asked_to_wait, self._confirmed = self._confirmed, True
        rest_s = anti_spin_s(self._mono_now() - began, empty=asked_to_wait and not fresh)
        if rest_s:
            await self._wait(rest_s)
        else:
            await trio.lowlevel.checkpoint()

    async def _failed(self, error: RelayError) -> None:
        verdict = self._judge(poll_kind(error.status, listed=False), error)
        sentence = str(error)
        if error.status == 404:
            sentence += ": the gateway address in the token is probably wrong"
        wait_s = max(jittered(verdict.delay_s, self._unit()), error.retry_after_s or 0.0)
        await self._hold(RelayState(verdict.state), sentence, wait_s)

    async def _rejected(self, error: AuthRejectedError) -> str:
        """Hold, look for a new secret, ask again; the sentence of the end, or ``""``."""
        if await self._bearer.reload() or self._bearer.rotations != self._asked_with:
            self._judge(PollKind.ROTATED)
            self._board.set(RelayState.RECONNECTING)
            return ""
        verdict = self._judge(PollKind.REJECTED)
        sentence = (
            f"the relay rejects this token (HTTP {error.status}): the agent was removed or its "
            "token replaced; put the new one where this one stands"
        )
        if verdict.stopped:
            log.error("%s: giving up", sentence)
            self._board.set(RelayState.FATAL, error=sentence)
            return sentence
        tries = self._loop.rejections
        wait_s = AUTH_SOON_S[tries - 1] if tries <= len(AUTH_SOON_S) else verdict.delay_s
        await self._hold(RelayState(verdict.state), sentence, wait_s)
        return ""

    async def _hold(self, state: RelayState, sentence: str, wait_s: float) -> None:
        self._confirmed = False
        log.warning("poll: %s; again in %.1f s", sentence, wait_s)
        self._board.set(state, error=sentence, backoff_s=wait_s)
        await self._wait(wait_s, rejected=state is RelayState.AUTH_WAIT)

    async def _wait(self, seconds: float, *, rejected: bool = False) -> None:
        """Wait, showing signs of life.

        A new secret cuts it short, and so does a 401 on another call, unless a poll was rejected.
        """
        cut = self._bearer.wait_rotated if rejected else self._bearer.wait_news
        until = self._mono_now() + seconds
        async with trio.open_nursery() as waiting:
            waiting.start_soon(self._cut_by, cut, waiting.cancel_scope)
            while (rest_s := until - self._mono_now()) > 0:
                await trio.sleep(min(rest_s, SLICE_S))
                self.progress_at = self._mono_now()
                if not await self._guard.check():
                    break
            waiting.cancel_scope.cancel()

    async def _cut_by(self, news: Callable[[], Awaitable[None]], waiting: trio.CancelScope) -> None:
        await news()
        waiting.cancel()


async def _decoded(body: bytes) -> Batch:
    """A batch; a large one is read beside everything else, for it may take long."""
    if len(body) <= LARGE_BYTES:
        return decode_batch(body)
    return await trio.to_thread.run_sync(decode_batch, body, abandon_on_cancel=True)
