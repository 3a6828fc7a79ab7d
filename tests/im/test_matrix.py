"""The adapter ``matrix`` against a real Synapse; what it sends is read back by somebody else."""

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from agentconnect.channels.http import HttpDoor, trust
from agentconnect.channels.link import spawner
from agentconnect.channels.manager import ChannelWorkers
from agentconnect.channels.matrix import MatrixAdapter
from agentconnect.core.channels.ipc import Channel
from agentconnect.core.channels.matrix import Matrix
from agentconnect.core.channels.sending import DeliveryError, Outgoing
from agentconnect.core.daemon.host import WorkerRequest
from agentconnect.core.destination import Code, Target
from tests.im.conftest import House, Person
from tests.support.synapse_up import Synapse

pytestmark = [pytest.mark.im, pytest.mark.timeout(300)]


@asynccontextmanager
async def adapter(
    house: House, bot: Person, *, markdown: bool = False, token: str = ""
) -> AsyncIterator[MatrixAdapter]:
    """The bot's adapter, started."""
    settings = Matrix(homeserver=house.url, token=token or bot.token)
    made = MatrixAdapter(settings, HttpDoor(trust()), markdown=markdown)
    async with trio.open_nursery() as standing:
        await standing.start(made.run)
        yield made
        standing.cancel_scope.cancel()


def out(target: str, text: str, *, delivery: str = "d-1") -> Outgoing:
    return Outgoing(
        delivery_id=delivery,
        channel="ops",
        target=Target(type="user" if target.startswith("@") else "chat", id=target),
        text=text,
    )


async def test_a_chat_target_is_read_by_another_account(house: House) -> None:
    """By the room's id and by its alias; word for word, white space at the ends too."""
    bot, ann = house.person("bot"), house.person("ann")
    room = await ann.room(bot, room_alias_name=f"ops-{ann.name}")
    async with adapter(house, bot) as matrix:
        await matrix.send(out(room, " hello \n <b>&amp; 🙂\n"))
        await matrix.send(out(f"#ops-{ann.name}:localhost", "by its alias", delivery="d-2"))
    assert [
        {"msgtype": "m.text", "body": " hello \n <b>&amp; 🙂\n"},
        {"msgtype": "m.text", "body": "by its alias"},
    ] == await ann.texts(room)


async def test_a_user_target_is_a_direct_room_found_again(house: House) -> None:
    """The first message makes the room and invites; the second finds it, also by a new process."""
    bot, ann = house.person("bot"), house.person("ann")
    async with adapter(house, bot) as matrix:
        await matrix.send(out(ann.id, "first", delivery="d-1"))
    invited = (await ann.call("GET", "sync"))["rooms"]["invite"]
    (room,) = invited
    await ann.call("POST", f"rooms/{room}/join", {})
    async with adapter(house, bot) as matrix:
        await matrix.send(out(ann.id, "second", delivery="d-2"))
    assert ["first", "second"] == [one["body"] for one in await ann.texts(room)]
    direct = await bot.call("GET", f"user/{bot.id}/account_data/m.direct")
    assert {ann.id: [room]} == direct


async def test_direct_rooms_of_many_people_do_not_lose_each_other(house: House) -> None:
    """All of them stand in one document of the account, written at the same time."""
    bot = house.person("bot")
    people = [house.person("ann") for _ in range(4)]
    async with adapter(house, bot) as matrix, trio.open_nursery() as sending:
        for number, person in enumerate(people):
            sending.start_soon(matrix.send, out(person.id, "hi", delivery=f"d-{number}"))
    direct = await bot.call("GET", f"user/{bot.id}/account_data/m.direct")
    assert {person.id for person in people} == set(direct)


async def test_a_direct_room_that_was_left_is_made_anew(house: House) -> None:
    """A text must not go where nobody is."""
    bot, ann = house.person("bot"), house.person("ann")
    async with adapter(house, bot) as matrix:
        await matrix.send(out(ann.id, "first", delivery="d-1"))
        (old,) = (await ann.call("GET", "sync"))["rooms"]["invite"]
        await ann.call("POST", f"rooms/{old}/leave", {})
        await matrix.send(out(ann.id, "second", delivery="d-2"))
    again = await ann.call("GET", "sync?full_state=true")  # the server remembers the other answer
    (new,) = again["rooms"]["invite"]
    await ann.call("POST", f"rooms/{new}/join", {})
    assert ["second"] == [one["body"] for one in await ann.texts(new)]


async def test_markdown_is_shown_and_readable_as_it_was(house: House) -> None:
    """The body stays the text; the HTML has none of the writer's own."""
    bot, ann = house.person("bot"), house.person("ann")
    room = await ann.room(bot)
    async with adapter(house, bot, markdown=True) as matrix:
        await matrix.send(out(room, "**hot** <script>x</script>"))
    assert [
        {
            "msgtype": "m.text",
            "body": "**hot** <script>x</script>",
            "format": "org.matrix.custom.html",
            "formatted_body": "<p><strong>hot</strong> &lt;script&gt;x&lt;/script&gt;</p>",
        }
    ] == await ann.texts(room)


@pytest.mark.parametrize("line", ["plain words of a long report\n", '"\\\t\x01', "🙂👩‍👩‍👧"])
async def test_a_long_text_arrives_whole_in_order(house: House, line: str) -> None:
    """100,000 units, also where JSON needs six bytes for one, or nothing can be cut at."""
    bot, ann = house.person("bot"), house.person("ann")
    room = await ann.room(bot)
    text = (line * 100_000)[: 100_000 if line[0] < "\uffff" else 40_000]
    async with adapter(house, bot, markdown=line.startswith("plain")) as matrix:
        await matrix.send(out(room, text))
    found = [one["body"] for one in await ann.texts(room)]
    assert len(found) > 1
    assert text == "".join(found)


async def test_a_room_that_does_not_want_it_is_permanent(house: House) -> None:
    """Not a member, kicked, only invited, muted, unknown alias, encrypted."""
    bot, ann = house.person("bot"), house.person("ann")
    foreign = await ann.room()
    kicked = await ann.room(bot)
    await ann.call("POST", f"rooms/{kicked}/kick", {"user_id": bot.id})
    invited = await ann.room()
    await ann.call("POST", f"rooms/{invited}/invite", {"user_id": bot.id})
    muted = await ann.room(bot, power_level_content_override={"events_default": 50})
    secret = {"type": "m.room.encryption", "content": {"algorithm": "m.megolm.v1.aes-sha2"}}
    encrypted = await ann.room(bot, initial_state=[secret])
    async with adapter(house, bot) as matrix:
        for room in (foreign, kicked, invited, muted, encrypted, "#none:localhost"):
            with pytest.raises(DeliveryError) as refused:
                await matrix.send(out(room, "hidden words"))
            assert "permanent" == refused.value.disposition
            assert room not in str(refused.value)
            assert "hidden" not in str(refused.value)
    for room in (foreign, kicked, muted, encrypted):
        assert [] == await ann.texts(room)


async def test_a_token_that_was_logged_out_is_permanent(house: House) -> None:
    """Mid-life at a send, and at the next start."""
    bot, ann = house.person("bot"), house.person("ann")
    room = await ann.room(bot)
    async with adapter(house, bot) as matrix:
        await bot.call("POST", "logout", {})
        with pytest.raises(DeliveryError, match="M_UNKNOWN_TOKEN") as refused:
            await matrix.send(out(room, "late"))
        assert "permanent" == refused.value.disposition
    with pytest.RaisesGroup(
        pytest.RaisesExc(DeliveryError, match="M_UNKNOWN_TOKEN"), flatten_subgroups=True
    ):
        async with adapter(house, bot):
            pass


async def test_the_rate_limit_is_transient_and_not_waited_for(strict_house: House) -> None:
    """Some pass, the rest are told at once."""
    bot, ann = strict_house.person("bot"), strict_house.person("ann")
    room = await ann.room(bot)
    async with adapter(strict_house, bot) as matrix:

        async def many() -> None:
            for number in range(40):
                await matrix.send(out(room, f"n {number}", delivery=f"d-{number}"))

        with pytest.raises(DeliveryError, match="M_LIMIT_EXCEEDED") as refused:
            await many()
    assert "transient" == refused.value.disposition
    assert await ann.texts(room)


async def test_through_the_worker_process_to_the_end(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    """Delivered, sixteen at a time, rejected after a kick; nothing secret in the log."""
    caplog.set_level("DEBUG")
    bot, ann = house.person("bot"), house.person("ann")
    room = await ann.room(bot)
    channel = Channel(
        type="matrix",
        options={"homeserver": house.url, "msgtype": "m.text"},
        secrets={"token": bot.token},
    )

    def request(name: str) -> WorkerRequest:
        return WorkerRequest(
            delivery_id=name,
            channel_name="ops",
            target_type="chat",
            target_id=room,
            text=f"planted words {name}",
        )

    with spawner(os.environ) as spawn:
        workers = ChannelWorkers({"main": {"ops": channel}}, spawn)
        async with trio.open_nursery() as standing:
            await standing.start(workers.run)
            await workers.settled()
            began = time.monotonic()
            first = await workers.deliver("main", request("one"), source="notify")
            one_s = time.monotonic() - began
            began = time.monotonic()
            async with trio.open_nursery() as sending:
                for number in range(16):
                    sending.start_soon(
                        lambda name: workers.deliver("main", request(name), source="notify"),
                        f"n{number}",
                    )
            many_s = time.monotonic() - began
            await ann.call("POST", f"rooms/{room}/kick", {"user_id": bot.id})
            kicked = await workers.deliver("main", request("kicked"), source="notify")
            await workers.stop()
    print(f"measured: one {one_s * 1000:.0f} ms, sixteen side by side {many_s * 1000:.0f} ms")
    assert first.delivered
    assert Code.REJECTED == kicked.code
    found = {content["body"] for content in await ann.texts(room)}
    assert {"planted words one", *(f"planted words n{number}" for number in range(16))} == found
    for hidden in ("planted words", room, bot.token):
        assert hidden not in caplog.text


async def test_a_server_that_goes_down_is_a_failure_not_a_refusal(
    synapse: os.PathLike[str],
) -> None:
    """Down while a send of many pieces is under way: failed, and what came before stays."""
    with Synapse(python=str(synapse)) as server:
        house = House(server)
        bot, ann = house.person("bot"), house.person("ann")
        room = await ann.room(bot)
        async with adapter(house, bot) as matrix:
            failed: list[DeliveryError] = []

            async def send() -> None:
                try:
                    await matrix.send(out(room, "words and more words\n" * 200_000))
                except DeliveryError as error:
                    failed.append(error)

            async with trio.open_nursery() as sending:
                sending.start_soon(send)
                while not await ann.texts(room):
                    await trio.sleep(0.02)
                assert server.proc is not None
                server.proc.kill()
            assert "transient" == failed[0].disposition
            assert "chunks_sent=" in str(failed[0])
            with pytest.raises(DeliveryError) as refused:
                await matrix.send(out(room, "later"))
            assert "transient" == refused.value.disposition
