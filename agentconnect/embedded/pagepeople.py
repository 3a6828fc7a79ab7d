"""The page's endpoints for rooms, their members, and agent identities (relay-wire.md §20.1).

Who may what: a room's moderator changes the room; an agent is brought into a room by its owner or
by whom they trust; an agent is removed by its owner.
"""

import shlex

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from agentconnect.embedded import addressing, people, rooms, tasks
from agentconnect.embedded.bodies import Refusal, answer, raw_json, read_as
from agentconnect.embedded.house import House
from agentconnect.embedded.pageapi import Door, need
from agentconnect.embedded.records import Kind, Room, User
from agentconnect.embedded.routes import Route
from agentconnect.embedded.store import Tx
from agentconnect.embedded.timing import JSON_BYTES

_NAME_CHARS = 80
_TIERS = (addressing.OWNER, addressing.COLLABORATOR, addressing.GUEST)
_NOBODY = "There is nobody with this id."


class NewRoom(msgspec.Struct, frozen=True, kw_only=True):
    """A room with the agents to bring in."""

    name: str
    agents: list[str] = []


class NewMember(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody new by name, or somebody known by id."""

    name: str = ""
    user_id: str = ""
    tier: str = addressing.GUEST


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a moderator may change."""

    name: str | None = None
    sensitive_data_filter: bool | None = None


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """A new agent's name."""

    name: str


class Whom(msgspec.Struct, frozen=True, kw_only=True):
    """Whom to write to."""

    user_id: str


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """A new identity; ``token`` is told this once."""

    user_id: str
    token: str
    command: str


def clean_name(name: str) -> str:
    """A display name on one line.

    Raises:
        Refusal: 400 for a blank one.
    """
    clean = " ".join("".join(c if c.isprintable() else " " for c in name).split())[:_NAME_CHARS]
    if not clean:
        raise Refusal(400, "A name is needed.")
    return clean


def command_for(token: str) -> str:
    """The one line that starts a worker for an identity."""
    agent = "AGENT_CONNECT_ADAPTER=acp AGENT_CONNECT_ACP_AGENT=claude"
    return f"AGENT_CONNECT_TOKEN={shlex.quote(token)} {agent} agent-connect"


async def create(house: House, me: User, request: Request) -> Response:
    """``POST /page/rooms``."""
    said = await read_as(request, NewRoom, JSON_BYTES)

    def unit(tx: Tx) -> str:
        room = rooms.create(tx, clean_name(said.name), me.user_id)
        for agent_id in said.agents:
            _bring(tx, room, me, agent_id)
        return room.room_id

    return answer({"room_id": await house.store.write(unit)})


def _bring(tx: Tx, room: Room, me: User, agent_id: str) -> None:
    agent = people.user(tx, agent_id)
    if agent is None or agent.kind is not Kind.AGENT:
        raise Refusal(404, _NOBODY)
    trusted = tx.text(
        "SELECT level FROM trust WHERE owner_id = ? AND user_id = ?", agent.owner_id, me.user_id
    )
    if agent.owner_id != me.user_id and trusted != addressing.OWNER and not me.admin:
        raise Refusal(403, "Only the agent's owner can bring it into a room.")
    rooms.join(tx, room.room_id, agent_id)


def _moderated(tx: Tx, room_id: str, me: User) -> Room:
    room = need(tx, room_id, me)
    if room.kind == "dm":
        raise Refusal(400, "A direct message stays between two.")
    if not tx.number(
        "SELECT moderator FROM members WHERE room_id = ? AND user_id = ?", room_id, me.user_id
    ):
        raise Refusal(403, "Only a moderator of the room can do this.")
    return room


async def add_member(house: House, me: User, request: Request) -> Response:
    """``POST /page/rooms/{room}/members``: a new person's link is told once."""
    said = await read_as(request, NewMember, JSON_BYTES)
    room_id = request.path_params["room"]
    if said.tier not in _TIERS:
        raise Refusal(400, "The tier is owner, collaborator or guest.")

    def unit(tx: Tx) -> tuple[str, str]:
        room, link = _moderated(tx, room_id, me), ""
        if said.user_id:
            found = people.user(tx, said.user_id)
            if found is None or found.kind is Kind.CONCIERGE:
                raise Refusal(404, _NOBODY)
            if found.kind is Kind.AGENT:
                _bring(tx, room, me, found.user_id)
                return found.user_id, ""
        else:
            found = people.add(tx, clean_name(said.name), Kind.PERSON)
            link = people.give_secret(tx, found.user_id, "link", keep=0)
        if found.user_id == me.user_id:
            raise Refusal(400, "Your own tier is not yours to set.")
        rooms.join(tx, room_id, found.user_id, tier=said.tier)
        _dial(tx, me, found.user_id, said.tier)
        return found.user_id, link

    user_id, link = await house.change_secrets(unit)
    return answer({"user_id": user_id, "link": house.page_url(link) if link else ""})


def _dial(tx: Tx, me: User, user_id: str, tier: str) -> None:
    """Being an owner is trust between people: it reaches all agents of whoever gives it."""
    had = tx.text("SELECT level FROM trust WHERE owner_id = ? AND user_id = ?", me.user_id, user_id)
    if tier == addressing.OWNER or had == addressing.OWNER:
        people.set_trust(tx, me.user_id, [user_id], "owner" if tier == addressing.OWNER else "")


async def remove_member(house: House, me: User, request: Request) -> Response:
    """``DELETE /page/rooms/{room}/members/{user_id}``: a moderator, or oneself."""
    room_id, user_id = request.path_params["room"], request.path_params["user_id"]

    def unit(tx: Tx) -> None:
        if user_id == me.user_id:
            need(tx, room_id, me)
        else:
            _moderated(tx, room_id, me)
        if not rooms.leave(tx, room_id, user_id):
            raise Refusal(404, _NOBODY)

    await house.store.write(unit)
    return answer({"ok": True})


async def settings(house: House, me: User, request: Request) -> Response:
    """``POST /page/rooms/{room}/settings``."""
    said = await read_as(request, Settings, JSON_BYTES)
    room_id = request.path_params["room"]

    def unit(tx: Tx) -> None:
        _moderated(tx, room_id, me)
        if said.name is not None:
            tx.run("UPDATE rooms SET name = ? WHERE room_id = ?", clean_name(said.name), room_id)
        if said.sensitive_data_filter is not None:
            tx.run(
                "UPDATE rooms SET sensitive = ? WHERE room_id = ?",
                int(said.sensitive_data_filter),
                room_id,
            )
        rooms.log(tx, room_id, "room")

    await house.store.write(unit)
    return answer({"ok": True})


async def direct(house: House, me: User, request: Request) -> Response:
    """``POST /page/dm``: with the concierge, an agent or a person one knows."""
    said = await read_as(request, Whom, JSON_BYTES)

    def unit(tx: Tx) -> str:
        other = people.user(tx, said.user_id)
        if other is None or other.user_id == me.user_id or not _knows(tx, me, other):
            raise Refusal(404, _NOBODY)
        return rooms.direct(tx, me.user_id, other.user_id).room_id

    return answer({"room_id": await house.store.write(unit)})


def _knows(tx: Tx, me: User, other: User) -> bool:
    if me.admin or other.kind is Kind.CONCIERGE or other.owner_id == me.user_id:
        return True
    return (
        tx.number(
            "SELECT COUNT(*) FROM members a JOIN members b ON a.room_id = b.room_id "
            "WHERE a.user_id = ? AND b.user_id = ?",
            me.user_id,
            other.user_id,
        )
        > 0
    )


def new_agent(tx: Tx, name: str, owner_id: str) -> tuple[User, str]:
    """Register an agent identity; its secret is told this once."""
    made = people.add(tx, clean_name(name), Kind.AGENT, owner_id=owner_id)
    return made, people.give_secret(tx, made.user_id, "bearer", keep=0)


async def add_agent(house: House, me: User, request: Request) -> Response:
    """``POST /page/agents``."""
    said = await read_as(request, Named, JSON_BYTES)
    made, secret = await house.change_secrets(lambda tx: new_agent(tx, said.name, me.user_id))
    token = f"{house.base}|{secret}"
    return answer(Added(user_id=made.user_id, token=token, command=command_for(token)))


async def new_link(house: House, me: User, request: Request) -> Response:
    """``POST /page/people/{user_id}/link``: for somebody who lost theirs; the old one ends.

    For the relay's owner alone, since whoever has a link is that person. Their browsers are signed
    out too: the old link may be in other hands.
    """
    user_id = request.path_params["user_id"]

    def unit(tx: Tx) -> str:
        if not me.admin:
            raise Refusal(403, "Only the owner of this relay can make a new link for somebody.")
        person = people.user(tx, user_id)
        if person is None or person.kind is not Kind.PERSON:
            raise Refusal(404, _NOBODY)
        if person.user_id == me.user_id:
            raise Refusal(400, "Your own link is printed where the relay was started.")
        people.drop_secrets(tx, user_id, "session")
        return people.give_secret(tx, user_id, "link", keep=0)

    link = await house.change_secrets(unit)
    house.bells.ring((), changed=True)
    return answer({"user_id": user_id, "link": house.page_url(link)})


async def remove_agent(house: House, me: User, request: Request) -> Response:
    """``DELETE /page/agents/{user_id}``: its bearer ends at once."""
    user_id = request.path_params["user_id"]

    def unit(tx: Tx) -> None:
        agent = people.user(tx, user_id)
        if agent is None or agent.kind is not Kind.AGENT:
            raise Refusal(404, _NOBODY)
        if agent.owner_id != me.user_id and not me.admin:
            raise Refusal(404, _NOBODY)
        tasks.abandon(tx, user_id)
        for room in rooms.of_member(tx, user_id):
            rooms.leave(tx, room.room_id, user_id)
        people.remove(tx, user_id)

    await house.change_secrets(unit)
    house.presence.gone(user_id)
    house.bells.ring([user_id], changed=True)
    return answer({"ok": True})


async def extras(house: House, me: User, _request: Request) -> Response:
    """``GET /page/extras``: what the worker beside us tells its owner, and nobody else."""
    told: object = {} if house.extras is None or not me.admin else await house.extras()
    return raw_json(msgspec.json.encode(told))


def routes(door: Door) -> list[Route]:
    """The page's routes for rooms, members and agents."""
    room = "/page/rooms/{room}"
    return [
        Route("POST", "/page/rooms", door.member(create)),
        Route("POST", f"{room}/members", door.member(add_member)),
        Route("DELETE", f"{room}/members/{{user_id}}", door.member(remove_member)),
        Route("POST", f"{room}/settings", door.member(settings)),
        Route("POST", "/page/people/{user_id}/link", door.member(new_link)),
        Route("POST", "/page/dm", door.member(direct)),
        Route("POST", "/page/agents", door.member(add_agent)),
        Route("DELETE", "/page/agents/{user_id}", door.member(remove_agent)),
        Route("GET", "/page/extras", door.member(extras)),
    ]
