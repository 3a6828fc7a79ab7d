"""Whether this relay takes keyed posts, and the key of one (relay-wire.md §3.9).

One probe for everything that posts: room ops, files of answers, deferred deliveries; its reader is
``core/delivery/capability``. Anything but an answer understood whole means posts without keys. The
key is the same for the same post in every run, so a repeat can never become a second message.
"""

import logging
from collections.abc import Callable
from typing import Final

import trio

from agentconnect.core.delivery.capability import Probe, judge
from agentconnect.core.delivery.keys import part_key
from agentconnect.core.errors import RelayError
from agentconnect.relay.http import Call, Http

log = logging.getLogger("agentconnect.relay")

RECHECK_S = 60.0
KNOWN_SOON_S = 2.0
PROBE_WITHIN_S = 10.0
FRESH_S = 1.0
CLEAR = frozenset({200, 404, 405})
NEVER: Final = float("-inf")


class Capabilities:
    """What the probe found last. ``probe`` is None before the first answer."""

    def __init__(
        self,
        http: Http,
        worker_id: str,
        *,
        recheck_s: float = RECHECK_S,
        mono_now: Callable[[], float] = trio.current_time,
    ) -> None:
        self.probe: Probe | None = None
        self.withdrawn = False
        self._kept = False
        self._http = http
        self._worker_id = worker_id
        self._recheck_s = recheck_s
        self._mono_now = mono_now
        self._asked_at = self._began_at = self._withdrawn_at = NEVER
        self._asking = trio.Lock()
        self._known = trio.Event()
        self._changed = trio.Event()

    @property
    def trusted(self) -> bool:
        """The last probe passed, and no post has shown otherwise since."""
        return self.probe is not None and self.probe.passed and not self.withdrawn

    async def keyed(self) -> bool:
        """Whether posts may carry a key; waits a moment for the first probe.

        By the last clear answer: a relay that cannot be asked for a while keeps its keys.
        """
        if not self._known.is_set():
            with trio.move_on_after(KNOWN_SOON_S):
                await self._known.wait()
        return self._kept and not self.withdrawn

    async def keyed_message(self) -> bool:
        """As :meth:`keyed`, for the messages of a turn: after a withdrawal a probe is made at once.

        A relay that says again that it keeps keys is believed for these: where it does not, a
        repeat costs the second message that a lost response without a key costs too.
        """
        if not self.withdrawn:
            return await self.keyed()
        if self._began_at <= self._withdrawn_at:
            await self.ask()
        return self._began_at > self._withdrawn_at and self.probe is not None and self.probe.passed

    def withdraw(self) -> None:
        """A keyed post came back without its echo: keys are not honoured after all."""
        if not self.withdrawn:
            log.warning("the relay took a keyed post without saying so: its keys are doubted")
        self.withdrawn = True
        self._withdrawn_at = self._mono_now()
        self._tell()

    def key(self, post: str, part: int | str = 0) -> str:
        """The key of one post: of a task's file, of a placeholder."""
        return part_key(self._worker_id, post, part)

    async def changed(self) -> None:
        """Return once anything in here has changed."""
        await self._changed.wait()

    async def ask(self) -> Probe:
        """Probe now, unless that has just been done. Bounded, never raises.

        A withdrawal is lifted by the first probe that passes a while after it: the one before was
        just as sure.
        """
        came_at = self._mono_now()
        async with self._asking:
            doubted = self._began_at <= self._withdrawn_at
            if self.probe is not None and self._asked_at > came_at - FRESH_S and not doubted:
                return self.probe
            began_at = self._mono_now()
            status, probe = await self._ask()
            self._asked_at, self._began_at = self._mono_now(), began_at
        if probe != self.probe:
            log.info("keys for posts: %s", probe.why or "kept by the relay")
        self.probe = probe
        if status in CLEAR:
            self._kept = probe.passed
        if probe.passed and began_at >= self._withdrawn_at + self._recheck_s:
            self.withdrawn = False
        self._known.set()
        self._tell()
        return probe

    async def run(self) -> None:
        """Probe, and again each minute while keys are not to be trusted; until cancelled."""
        while True:
            if not self.trusted and self._due_s() <= 0:
                await self.ask()
            with trio.move_on_after(float("inf") if self.trusted else self._due_s()):
                await self._changed.wait()

    def _due_s(self) -> float:
        """Seconds until the next probe is due."""
        last = max(self._asked_at, self._withdrawn_at)
        return max(0.0, last + self._recheck_s - self._mono_now())

    async def _ask(self) -> tuple[int | None, Probe]:
        call = Call(path="/v1/capabilities", within_s=PROBE_WITHIN_S)
        try:
            answer = await self._http.send(call)
        except RelayError as error:
            return error.status, judge(error.status, b"")
        return answer.status, judge(answer.status, answer.body)

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
