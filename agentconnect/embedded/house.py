"""The relay as one object: the database, the files, the bells, and who may come in.

The HTTP modules (:mod:`wire`, :mod:`pageapi`, :mod:`sse`) translate requests into calls of this;
nothing here knows HTTP.
"""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import trio
from starlette.requests import Request

from agentconnect.embedded import auth, ids, keys, late, media, people, rooms, talk, tasks
from agentconnect.embedded.bodies import Refusal
from agentconnect.embedded.faults import Faults
from agentconnect.embedded.hold import Hold
from agentconnect.embedded.presence import Bells, Presence
from agentconnect.embedded.records import Kind, Media, Message
from agentconnect.embedded.steps import Steps
from agentconnect.embedded.store import DATABASE, Store, Tx
from agentconnect.embedded.timing import Timing

_log = logging.getLogger("agentconnect.embedded")
T = TypeVar("T")
_REREAD_S = 1.0
_ANSWER_TASKS = 2_000
_ANSWER_CHARS = 4_000_000  # of text, some four bytes each: a client reads 32 MiB at most


class House:
    """Everything the relay holds while it runs."""

    def __init__(
        self,
        state_dir: Path,
        timing: Timing,
        faults: Faults | None,
        extras: Callable[[], Awaitable[object]] | None = None,
        is_late: Callable[[str], bool] | None = None,
    ) -> None:
        self.timing = timing
        self.extras = extras
        self._is_late = is_late
        self.ended = trio.Event()
        self.steps = Steps()
        self._crowded: dict[str, float] = {}  # when polls of one bearer last overlapped
        self._leases = True  # whether any task may be leased: an idle relay reads nothing
        self.faults = faults
        self.bells = Bells()
        self.presence = Presence(timing.online_s, timing.visibility_s)
        self.directory = auth.Directory()
        self._directory_read = -_REREAD_S
        self.base = self.origin = ""
        self.secure = False
        self.cookie = "agentconnect"
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._hold = Hold(state_dir / "relay.lock")
        try:
            self.shelf = media.Shelf(state_dir / "media")
            self.store = Store(state_dir / DATABASE, self.now, self._committed)
        except BaseException:
            self._hold.release()
            raise

    def _committed(self, tx: Tx) -> None:
        self.bells.ring(tx.woken, tx.changed, tx.ended)

    @property
    def domain(self) -> str:
        """The part of every id after its colon."""
        return self.store.domain

    def page_url(self, link_token: str) -> str:
        """A person's own link; the secret stays in the fragment, which no server is sent."""
        return f"{self.origin}/#k={link_token}"

    def crowded(self, agent_id: str, polls: int) -> None:
        """Say once that a bearer is polled by several, and once that it no longer is."""
        now = trio.current_time()
        if polls > 1:
            if agent_id not in self._crowded:
                _log.warning("several polls are open on one bearer: agent=%s", agent_id)
            self._crowded[agent_id] = now
        elif now - self._crowded.get(agent_id, now) > self.timing.visibility_s:
            # two pollers that are served at once do not overlap for a moment: that is no change
            del self._crowded[agent_id]
            _log.warning("one poll at a time again on the bearer: agent=%s", agent_id)

    def now(self) -> float:
        """The relay's clock, with a test's skew."""
        return self.timing.wall() + (self.faults.skew_s if self.faults is not None else 0.0)

    async def open(self) -> None:
        """Make what a first start makes, and take up what an earlier run left."""
        facts, known = await self.store.write(self._open)
        self.store.domain = facts["domain"]
        self.cookie = f"agentconnect_{facts['instance']}"
        await trio.to_thread.run_sync(self.shelf.sweep, known)
        await self.store.write(_ensure_concierge)
        await self.prune()
        await self.reload_directory()

    def _open(self, tx: Tx) -> tuple[dict[str, str], frozenset[str]]:
        for name, value in (("domain", "local"), ("instance", ids.lease_id()[:8])):
            if not tx.number("SELECT COUNT(*) FROM facts WHERE name = ?", name):
                tx.run("INSERT INTO facts (name, value) VALUES (?, ?)", name, value)
        tasks.refresh(tx, self.timing)
        late.prepare(tx)
        facts = {
            name: tx.text("SELECT value FROM facts WHERE name = ?", name)
            for name in ("domain", "instance")
        }
        return facts, frozenset(tx.texts("SELECT media_id FROM media"))

    async def aclose(self) -> None:
        """Close the database and let the folder go; nobody uses it any more."""
        try:
            await self.store.aclose()
        finally:
            self._hold.release()

    async def told_late(self, key: str) -> bool:
        """Whether the worker beside us posts under this key what comes after a turn."""
        if self._is_late is None or not key:
            return False
        try:
            return await trio.to_thread.run_sync(self._is_late, key)
        except Exception as error:  # noqa: BLE001 - a mark is not worth a post
            _log.error("what is late cannot be told: %s", type(error).__name__)
            return False

    async def reload_directory(self) -> None:
        """Take over every change of secrets."""
        self._directory_read = trio.current_time()
        self.directory.load(await self.store.read(auth.secrets_of))

    async def admit(self, request: Request) -> str:
        """The agent identity a worker's request is from.

        An unknown bearer may have been made by another process (``relay --add-agent``), so the
        database is asked too, at most once a second.

        Raises:
            Refusal: 401.
        """
        try:
            return auth.worker(request, self.directory)
        except Refusal:
            if trio.current_time() - self._directory_read < _REREAD_S:
                raise
        await self.reload_directory()
        return auth.worker(request, self.directory)

    async def sweep(self) -> None:
        """Let lapsed leases go on, go back or die; called by a timer."""
        if not self._leases:
            return
        now = self.now()
        due = await self.store.read(
            lambda tx: tx.texts(
                "SELECT DISTINCT agent_id FROM tasks WHERE state = 'leased' "
                "AND (until <= ? OR until > ?)",
                now,
                now + self.timing.visibility_s,
            )
        )
        if due:
            await self.store.write(lambda tx: self._sweep(tx, due))
        else:
            self._leases = await self.store.read(
                lambda tx: tx.number("SELECT COUNT(*) FROM tasks WHERE state = 'leased'") > 0
            )

    def _sweep(self, tx: Tx, agents: list[str]) -> None:
        tasks.rewind(tx, self.timing)
        for agent in agents:
            tasks.sweep(tx, agent, self.presence.alive(agent, tx.now), self.timing)

    async def prune(self) -> None:
        """Forget what is past its window, a little at a time; called by a timer, seldom."""
        while await self.store.write(self._prune, durable=False):
            await trio.lowlevel.checkpoint()

    def _prune(self, tx: Tx) -> int:
        newest = tx.number("SELECT value FROM counters WHERE name = 'seq'")
        return (
            tasks.prune(tx, self.timing)
            + keys.prune(tx, self.timing)
            + rooms.prune_log(tx, tx.now - self.timing.events_s, newest - self.timing.events_max)
        )

    async def take(self, agent_id: str, *, alive: bool) -> list[tasks.Served]:
        """Lease what waits for an agent; ``alive``: it was there before this call.

        What one answer cannot hold waits for the next poll.
        """
        served: list[tasks.Served] = []
        chars = 0
        while len(served) < _ANSWER_TASKS and chars < _ANSWER_CHARS:
            more = await self.store.write(lambda tx: self._take(tx, agent_id, alive), durable=False)
            served += more
            chars += sum(len(item.task) for item in more)
            if len(more) < tasks.SLICE:
                break
            await trio.lowlevel.checkpoint()
        self._leases = self._leases or bool(served)
        return served

    def _take(self, tx: Tx, agent_id: str, alive: bool) -> list[tasks.Served]:
        tasks.sweep(tx, agent_id, alive, self.timing)
        tx.woken.discard(agent_id)
        return tasks.serve(tx, agent_id, self.timing, self._marker)

    def _marker(self, found: Media) -> str:
        return media.marker(found, self.base, self.domain)

    async def post_as(
        self,
        sender: str,
        room_id: str,
        body: str,
        *,
        reply_to: str = "",
        also: tuple[str, ...] = (),
    ) -> Message | None:
        """Post a message of a member; None where there is no such room for them."""

        def unit(tx: Tx) -> Message | None:
            room = rooms.get(tx, room_id, sender)
            if room is None:
                return None
            return talk.say(tx, room, sender, body, reply_to=reply_to, also=also)

        return await self.store.write(unit)

    async def put_file(
        self, sender: str, room_id: str, name: str, mime: str, data: bytes, caption: str
    ) -> Message | None:
        """Keep a file and post it; None where there is no such room for them."""
        if await self.store.read(lambda tx: rooms.get(tx, room_id, sender)) is None:
            return None
        mime = media.mime_of(name, mime)
        media_id = await self.shelf.keep(data)
        return await self.store.write(
            lambda tx: place_file(tx, sender, room_id, media_id, name, mime, len(data), caption)
        )

    async def change_secrets(self, unit: Callable[[Tx], T]) -> T:
        """Run a unit that gives or ends secrets, and let it count at once."""
        value = await self.store.write(unit)
        await self.reload_directory()
        return value


def place_file(
    tx: Tx, sender: str, room_id: str, media_id: str, name: str, mime: str, size: int, caption: str
) -> Message | None:
    """Post a file that is on the shelf."""
    room = rooms.get(tx, room_id, sender)
    if room is None:
        return None
    made = media.record(tx, media_id, room_id, name, mime, size)
    return talk.say(tx, room, sender, caption, media=made)


def _ensure_concierge(tx: Tx) -> None:
    if not people.everybody(tx, Kind.CONCIERGE):
        people.add(tx, "Concierge", Kind.CONCIERGE)
