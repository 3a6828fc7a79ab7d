"""What a sender does next, without any I/O of its own but the outbox: ask, do, say how it went.

:meth:`Sender.next` says to send, to tell an end, to wait or to stop. Whoever drives it calls
one of the others once for each ``Claim``. Several senders may work on one outbox, in one process or
many.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import uniform

from agentconnect.deliver import answers
from agentconnect.deliver.answers import Delivered, Final, NotTaken, Retry
from agentconnect.deliver.errors import OutboxError
from agentconnect.deliver.holders import holder_name
from agentconnect.deliver.outbox import NOT_MINE, Claim, Outbox

log = logging.getLogger("agentconnect.deliver")

LOOK_FIRST_S = 0.1
LOOK_LAST_S = 1.0
"""How often an idle sender looks whether the file changed: from often to seldom."""

LOOK_AT_HOLDERS_S = 5.0
LOOK_ANYWAY_S = 30.0
"""A killed holder changes nothing in the file, and a machine that slept counts no seconds."""

RETRY_FIRST_S = 30.0
RETRY_LAST_S = 900.0
PAUSE_FIRST_S = 1.0
PAUSE_LAST_S = 60.0
TELL_AGAIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Wait:
    """Ask again after this long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Stop:
    """This connection takes no deliveries: they stay, for another one."""


class Sender:
    """One sender on one connection."""

    def __init__(self, outbox: Outbox, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._outbox = outbox
        self._monotonic = monotonic
        self._name = holder_name()
        self._not_for: frozenset[str] = frozenset()
        self._stopped = False
        self._owed: list[Callable[[], None]] = []
        self._failures = 0  # of the connection or the disk, in a row
        self._resume_at = 0.0
        self._look_s = LOOK_FIRST_S
        self._seen: object = None
        self._ask_at = 0.0

    def next(self) -> Claim | Wait | Stop:
        """The next thing to do. A ``Claim`` with an ended entry is to be told."""
        if self._stopped:
            return Stop()
        left = self._resume_at - self._monotonic()
        if left > 0:
            return Wait(left)
        try:
            self._pay()
            return self._claim()
        except OutboxError as error:
            log.warning("deliveries wait: %s", error)
            return Wait(self._pause())

    def succeeded(self, claim: Claim, result: object) -> None:
        """The client answered with a result."""
        self._answered(claim, answers.read_result(result, claim.parts))

    def refused(self, claim: Claim, code: object, data: object) -> None:
        """The client answered with a JSON-RPC error."""
        self._answered(claim, answers.read_error(code, data))

    def lost(self, claim: Claim) -> None:
        """No answer came: the connection broke, or the sending failed. Another may try at once."""
        self._pause()
        again = Retry("the connection was lost")
        self._owe(lambda: self._outbox.retry(claim, again, PAUSE_FIRST_S))

    def dropped(self, claim: Claim) -> None:
        """The sender is being cancelled: give the entry back."""
        self._owe(lambda: self._outbox.release(claim))

    def told(self, claim: Claim) -> None:
        """The end was told."""
        self._owe(lambda: self._outbox.tell(claim))

    def untold(self, claim: Claim) -> None:
        """Telling failed: it is told again later."""
        self._owe(lambda: self._outbox.release(claim, TELL_AGAIN_S))

    def _answered(self, claim: Claim, answer: answers.Answer) -> None:
        self._failures = 0
        if isinstance(answer, NotTaken):
            self._stopped = True
            self._owe(lambda: self._outbox.release(claim))
        elif isinstance(answer, Final) and answer.reason == NOT_MINE:
            # not an end: another connection's client may be the one that minted the binding
            self._not_for |= {claim.entry.binding.partition(".")[0]}
            again = Retry(NOT_MINE)
            self._owe(lambda: self._outbox.retry(claim, again, 0.0))
        elif isinstance(answer, Retry):
            pause = _retry_pause(claim, answer)
            self._owe(lambda: self._outbox.retry(claim, answer, pause))
        else:
            end: Delivered | Final = answer
            self._owe(lambda: self._outbox.end(claim, end))

    def _owe(self, step: Callable[[], None]) -> None:
        """Do it, or keep it for when the disk takes it; a killed process just sends again."""
        self._owed.append(step)
        try:
            self._pay()
        except OutboxError as error:
            log.warning("what became of a delivery is not recorded yet: %s", error)
            self._pause()

    def _pay(self) -> None:
        while self._owed:
            self._owed[0]()
            del self._owed[0]
            self._ask_at = 0.0

    def _claim(self) -> Claim | Wait:
        now, seen = self._monotonic(), self._outbox.changes()
        if seen == self._seen and now < self._ask_at:
            self._look_s = min(LOOK_LAST_S, self._look_s * 2)
            return Wait(min(self._look_s, self._ask_at - now))
        claim = self._outbox.claim(self._name, self._not_for)
        self._look_s = LOOK_FIRST_S
        # what was read before the claim: a change made meanwhile must not pass for seen
        self._seen, self._ask_at = seen, 0.0
        if claim is not None:
            return claim
        self._ask_at = now + self._quiet_s()
        return Wait(min(self._look_s, self._ask_at - now))

    def _quiet_s(self) -> float:
        """How long nothing can be due unless the file changes."""
        longest = LOOK_AT_HOLDERS_S if self._outbox.held() else LOOK_ANYWAY_S
        due = self._outbox.next_due(self._not_for)
        return longest if due is None else max(0.02, min(longest, due - self._outbox.now()))

    def _pause(self) -> float:
        pause = min(PAUSE_LAST_S, PAUSE_FIRST_S * 2.0 ** min(self._failures, 10))
        self._failures += 1
        self._resume_at = self._monotonic() + pause
        return pause


def _retry_pause(claim: Claim, answer: Retry) -> float:
    if answer.after_s is not None:
        return answer.after_s
    doubled = RETRY_FIRST_S * 2.0 ** min(claim.entry.attempts - 1, 10)
    return min(RETRY_LAST_S, doubled) * uniform(0.8, 1.0)  # noqa: S311 - spreads, hides nothing
