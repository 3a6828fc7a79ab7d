"""The relay as the program that started it sees it: set it up, ask in a room, read a room."""

import time
from pathlib import Path

import msgspec
import trio

from agentconnect.embedded import answers, keys, people, rooms, tasks
from agentconnect.embedded.house import House
from agentconnect.embedded.leases import State
from agentconnect.embedded.listening import Listener
from agentconnect.embedded.pagepeople import command_for, new_agent
from agentconnect.embedded.records import Kind, Message, TaskRow, User
from agentconnect.embedded.store import DATABASE, Store, Tx

_OWNER_LINKS = 15  # earlier ones that stay valid


class LocalSetup(msgspec.Struct, frozen=True, kw_only=True):
    """A first room with its owner and an agent. ``agent_token`` and ``link_token`` are secrets."""

    owner_id: str
    room_id: str
    agent_id: str
    agent_token: str
    link_token: str
    page_url: str

    def __repr__(self) -> str:
        return f"LocalSetup(owner_id={self.owner_id!r}, agent_id={self.agent_id!r})"


class EmbeddedRelay:
    """A running relay."""

    def __init__(self, house: House, listener: Listener | None = None) -> None:
        self._house = house
        self._listener = listener

    @property
    def base(self) -> str:
        """The gateway URL a worker's token carries."""
        return self._house.base

    @property
    def origin(self) -> str:
        """The room page's URL, without a link's secret."""
        return self._house.origin

    @property
    def domain(self) -> str:
        """The part of every id after its colon."""
        return self._house.domain

    def page_url(self, link_token: str) -> str:
        """A person's own link to the room page."""
        return self._house.page_url(link_token)

    async def ensure_owner(self, name: str) -> tuple[str, str]:
        """The person this relay belongs to, and a fresh link secret for them."""

        def unit(tx: Tx) -> tuple[str, str]:
            owner = people.owner(tx) or people.add(tx, name, Kind.PERSON, admin=True)
            return owner.user_id, people.give_secret(tx, owner.user_id, "link", keep=_OWNER_LINKS)

        return await self._house.change_secrets(unit)

    async def ensure_local(self, agent_name: str, owner_name: str) -> LocalSetup:
        """The owner, an agent of theirs and a room with both; made once, found afterwards.

        The agent's secret and the owner's link are new at each call, since only hashes are kept;
        the links of some earlier calls stay valid, so that a kept one works.
        """

        def unit(tx: Tx) -> tuple[str, str, str, str, str]:
            owner = people.owner(tx) or people.add(tx, owner_name, Kind.PERSON, admin=True)
            link = people.give_secret(tx, owner.user_id, "link", keep=_OWNER_LINKS)
            mine = [a for a in people.agents_of(tx, owner.user_id) if a.name == agent_name]
            if mine:
                agent, secret = (
                    mine[0],
                    people.give_secret(tx, mine[0].user_id, "bearer", keep=0),
                )
            else:
                agent, secret = new_agent(tx, agent_name, owner.user_id)
            return owner.user_id, agent.user_id, secret, link, _room_of(tx, owner.user_id, agent)

        owner_id, agent_id, secret, link, room_id = await self._house.change_secrets(unit)
        return LocalSetup(
            owner_id=owner_id,
            room_id=room_id,
            agent_id=agent_id,
            agent_token=f"{self.base}|{secret}",
            link_token=link,
            page_url=self.page_url(link),
        )

    async def add_agent(self, name: str) -> tuple[str, str, str]:
        """A new identity of the owner: its id, its token and the one-line worker command."""

        user_id, secret = await self._house.change_secrets(lambda tx: _owners_agent(tx, name))
        token = f"{self.base}|{secret}"
        return user_id, token, command_for(token)

    async def add_person(self, room_id: str, name: str, tier: str = "guest") -> tuple[str, str]:
        """A new person in a room; their id and their link's secret."""

        def unit(tx: Tx) -> tuple[str, str]:
            made = people.add(tx, name, Kind.PERSON)
            rooms.join(tx, room_id, made.user_id, tier=tier)
            return made.user_id, people.give_secret(tx, made.user_id, "link", keep=0)

        return await self._house.change_secrets(unit)

    async def create_room(self, name: str, creator: str, agents: tuple[str, ...] = ()) -> str:
        """A room of one person with these agents."""

        def unit(tx: Tx) -> str:
            room = rooms.create(tx, name, creator)
            for agent in agents:
                rooms.join(tx, room.room_id, agent)
            return room.room_id

        return await self._house.store.write(unit)

    async def post(self, room_id: str, sender: str, body: str, *, reply_to: str = "") -> str:
        """Post as a member; the event's id, ``""`` where there is no such room for them."""
        posted = await self._house.post_as(sender, room_id, body, reply_to=reply_to)
        return posted.event_id if posted else ""

    async def post_file(
        self,
        room_id: str,
        sender: str,
        name: str,
        data: bytes,
        *,
        mime: str = "",
        caption: str = "",
    ) -> str:
        """Post a file as a member; the event's id."""
        posted = await self._house.put_file(sender, room_id, name, mime, data, caption)
        return posted.event_id if posted else ""

    async def ask(self, room_id: str, sender: str, body: str, timeout_s: float) -> str | None:
        """Post as a member and wait for the task's end; None if it did not come in time."""
        event_id = await self.post(room_id, sender, body)
        with trio.move_on_after(timeout_s):
            return await self.answer_to(event_id)
        return None

    async def failed(self, event_id: str) -> bool:
        """Whether a message's task ended with a notice of failure instead of an answer."""
        found = await self.tasks_of(event_id)
        return any(row.state == State.DEAD or answers.is_failure(row.answer) for row in found)

    async def answer_to(self, event_id: str) -> str:
        """Wait until every task of a message has ended; what the room reads as its answer."""
        house = self._house
        while True:
            bell = house.bells.of_ends()
            found = await house.store.read(lambda tx: tasks.of_source(tx, event_id))
            if found and all(row.state in (State.DONE, State.DEAD) for row in found):
                return "\n\n".join(row.answer for row in found if row.answer)
            await bell.wait()

    async def messages(self, room_id: str) -> list[Message]:
        """Every message of a room, oldest first."""
        return await self._house.store.browse(lambda tx: rooms.page(tx, room_id, 2**62, 1_000_000))

    async def reactions(self, event_id: str) -> list[tuple[str, str]]:
        """The reactions on a message, as (key, sender)."""
        return await self._house.store.read(lambda tx: rooms.reactions(tx, event_id))

    async def heartbeat_of(self, agent_id: str) -> str:
        """What an agent's worker last said of itself, as JSON."""
        sql = "SELECT heartbeat FROM users WHERE user_id = ?"
        return await self._house.store.read(lambda tx: tx.text(sql, agent_id))

    async def tasks_of(self, event_id: str) -> list[TaskRow]:
        """The tasks a message became."""
        return await self._house.store.read(lambda tx: tasks.of_source(tx, event_id))

    async def expire_lease(self, task_id: str) -> None:
        """For tests: end a lease's window now, as if its worker had gone."""

        def unit(tx: Tx) -> None:
            tasks.expire(tx, task_id, self._house.timing)

        await self._house.store.write(unit)

    def open_polls(self, agent_id: str) -> int:
        """How many polls of an agent are held open."""
        return self._house.presence.open_of(agent_id)

    def disk_waits(self) -> int:
        """How many times something waited for the disk; several may have shared one."""
        return self._house.store.syncs

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return 0 if self._listener is None else self._listener.open

    async def prune(self) -> None:
        """Forget what is past its window, as the timer does now and then."""
        await self._house.prune()

    async def hold_key(self, agent_id: str, key: str, route: str, room_id: str, raw: bytes) -> None:
        """For tests: a claim on a key as another process holds it while its post runs."""
        wanted = keys.digest(keys.route_of(route), room_id, raw)
        lease_s = self._house.timing.key_lease_s
        await self._house.store.write(
            lambda tx: keys.keep(tx, agent_id, key, wanted, state="running", lease_s=lease_s)
        )

    async def changed(self) -> None:
        """Wait for the next change of any room. Take what you look at after calling it."""
        await self._house.bells.of_changes().wait()


def _owners_agent(tx: Tx, name: str) -> tuple[str, str]:
    owner = people.owner(tx) or people.add(tx, "Owner", Kind.PERSON, admin=True)
    made, secret = new_agent(tx, name, owner.user_id)
    return made.user_id, secret


async def add_agent_beside(state_dir: Path, base: str, name: str) -> tuple[str, str, str]:
    """As ``EmbeddedRelay.add_agent``, beside a relay that another process runs on the folder.

    That relay takes the identity over when its worker first calls. ``base`` is the relay's own.

    Raises:
        StoreUnreadableError: there is no database that can be read.
    """
    store = Store(state_dir / DATABASE, time.time, lambda tx: None, must_exist=True)
    try:
        domain = await store.read(lambda tx: tx.text("SELECT value FROM facts WHERE name='domain'"))
        store.domain = domain
        user_id, secret = await store.write(lambda tx: _owners_agent(tx, name))
    finally:
        await store.aclose()
    token = f"{base}|{secret}"
    return user_id, token, command_for(token)


def _room_of(tx: Tx, owner_id: str, agent: User) -> str:
    for room in rooms.of_member(tx, owner_id):
        if room.kind == "room" and agent.user_id in rooms.agents_in(tx, room.room_id):
            return room.room_id
    room = rooms.create(tx, f"{agent.name}'s room", owner_id)
    rooms.join(tx, room.room_id, agent.user_id)
    return room.room_id
