"""Who is there, and how those who wait are woken. In memory: a restart starts it anew.

An agent is alive while a poll of it is open or one came within the last window; a person is
online while an event stream of theirs is open.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import trio


class Bells:
    """One bell per agent with waiting pollers, and one for every open event stream."""

    def __init__(self) -> None:
        self._pollers: defaultdict[str, set[trio.Event]] = defaultdict(set)
        self._changed = trio.Event()
        self._ended = trio.Event()
        self.stopping = False

    def ring(self, agents: Iterable[str], changed: bool, ended: bool = False) -> None:
        """Wake the pollers of these agents, after a change every stream, and who awaits an end."""
        for agent in agents:
            for bell in self._pollers.pop(agent, ()):
                bell.set()
        if changed:
            self._changed.set()
            self._changed = trio.Event()
        if ended:
            self._ended.set()
            self._ended = trio.Event()

    def hang(self, agent_id: str, bell: trio.Event) -> None:
        """Have a poller's bell rung when a task waits. Hang it before looking, to miss nothing."""
        if self.stopping:
            bell.set()
        else:
            self._pollers[agent_id].add(bell)

    def take_down(self, agent_id: str, bell: trio.Event) -> None:
        """The poller no longer waits."""
        self._pollers[agent_id].discard(bell)

    def of_changes(self) -> trio.Event:
        """Set at the next change of any room. Take it before looking."""
        return self._changed if not self.stopping else _set()

    def of_ends(self) -> trio.Event:
        """Set when some task comes to its end. Take it before looking."""
        return self._ended if not self.stopping else _set()

    def stop(self) -> None:
        """Wake everybody for good."""
        self.stopping = True
        self.ring(list(self._pollers), changed=True, ended=True)


class Presence:
    """Open polls and streams, and when an agent was last heard of."""

    def __init__(self, online_s: float, visibility_s: float) -> None:
        self._online_s = online_s
        self._visibility_s = visibility_s
        self._open: defaultdict[str, int] = defaultdict(int)
        self._polled: dict[str, float] = {}
        self._heard: dict[str, float] = {}

    @contextmanager
    def polling(self, agent_id: str, now: float) -> Iterator[int]:
        """One poll of an agent; how many others of it are open."""
        others = self._open[agent_id]
        self._open[agent_id] += 1
        self._polled[agent_id] = self._heard[agent_id] = now
        try:
            yield others
        finally:
            self._open[agent_id] -= 1

    def polled(self, agent_id: str, now: float) -> None:
        """A poll ended just now."""
        self._polled[agent_id] = self._heard[agent_id] = now

    @contextmanager
    def watching(self, user_id: str) -> Iterator[None]:
        """One open event stream of a person."""
        self._open[user_id] += 1
        try:
            yield
        finally:
            self._open[user_id] -= 1

    def open_of(self, user_id: str) -> int:
        """How many polls or streams of a user are open."""
        return self._open.get(user_id, 0)

    def heard(self, user_id: str, now: float) -> None:
        """A heartbeat or another call came."""
        self._heard[user_id] = now

    def alive(self, agent_id: str, now: float) -> bool:
        """Whether an agent's leases live on (relay-wire.md §5)."""
        if self._open.get(agent_id, 0) > 0:
            return True
        # either way: a clock that was set back makes nobody alive until it has caught up
        return abs(now - self._polled.get(agent_id, float("-inf"))) < self._visibility_s

    def online(self, user_id: str, now: float) -> bool:
        """Whether the page shows somebody as there."""
        if self._open.get(user_id, 0) > 0:
            return True
        return abs(now - self._heard.get(user_id, float("-inf"))) < self._online_s

    def snapshot(self, now: float) -> frozenset[str]:
        """Everybody who is online."""
        known = {*self._open, *self._heard}
        return frozenset(user_id for user_id in known if self.online(user_id, now))

    def gone(self, user_id: str) -> None:
        """Forget a user who was removed."""
        self._polled.pop(user_id, None)
        self._heard.pop(user_id, None)


def _set() -> trio.Event:
    event = trio.Event()
    event.set()
    return event
