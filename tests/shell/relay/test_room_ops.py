"""Room ops: a failure belongs to its call or its room, and nothing appears twice."""

from pathlib import Path

import pytest
import trio
import trio.testing

from tests.shell.relay.minutes import Minutes
from tests.shell.relay.rig import running
from tests.support.fake_broker import Answer, open_broker, wire_task

ROOM = "!r:h"


async def test_a_placeholder_whose_response_is_lost_is_the_same_message(tmp_path: Path) -> None:
    """Keyed: the repeat is answered with the event that is already there."""
    async with open_broker() as broker:
        broker.keyed()
        broker.script("messages", Answer(apply=True, drop=True))
        async with running(broker, tmp_path) as rig:
            result = await rig.relay.rooms.message(ROOM, "⏳ On it...", key="t1/placeholder")
            assert result.ok
            assert list(broker.messages) == [result.event_id]
            keys = {request.headers["idempotency-key"] for request in broker.of("messages")}
            assert len(keys) == 1
            assert len(keys.pop()) == 64


async def test_a_key_gives_the_same_event_after_a_restart(tmp_path: Path) -> None:
    """The key is made of what is on disk: a new process finds the old placeholder."""
    events = []
    async with open_broker() as broker:
        broker.keyed()
        for _ in range(2):
            async with running(broker, tmp_path) as rig:
                result = await rig.relay.rooms.message(ROOM, "⏳ On it...", key="t1/placeholder")
                events.append(result.event_id)
        assert events[0] == events[1]
        assert len(broker.messages) == 1


async def test_without_keys_a_lost_response_is_not_repeated(tmp_path: Path) -> None:
    """It may have landed: once is asked, and the caller is told."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.script("room", Answer(apply=True, drop=True))
        result = await rig.relay.rooms.message(ROOM, "⏳ On it...", key="t1/placeholder")
        assert not result.ok
        assert result.maybe_sent
        assert len(broker.messages) == 1


UNECHOED = Answer(body={"ok": True, "event_id": "$x"})


@pytest.mark.parametrize("now", [Answer(404), Answer(503)], ids=["no keys", "no answer"])
async def test_a_keyed_post_without_its_echo_withdraws_keys(tmp_path: Path, now: Answer) -> None:
    """It landed, but keys are not honoured after all: the next posts go without, and once."""
    async with open_broker() as broker:
        broker.keyed()
        broker.script("messages", UNECHOED)
        async with running(broker, tmp_path) as rig:
            assert (await rig.relay.rooms.message(ROOM, "a", key="k1")).event_id == "$x"
            broker.always("capabilities", now)
            assert (await rig.relay.rooms.message(ROOM, "b", key="k2")).ok
            broker.script("room", Answer(apply=True, drop=True))
            assert (await rig.relay.rooms.message(ROOM, "c", key="k3")).maybe_sent
            assert len(broker.of("messages")) == 1
            assert broker.bodies(ROOM) == ["b", "c"]


async def test_a_relay_that_says_again_that_it_keeps_keys_is_believed(tmp_path: Path) -> None:
    """One echo that was lost costs no placeholder: the next lost response finds its message."""
    async with open_broker() as broker:
        broker.keyed()
        broker.script("messages", UNECHOED, Answer(apply=True, drop=True))
        async with running(broker, tmp_path) as rig:
            assert (await rig.relay.rooms.message(ROOM, "a", key="k1")).ok
            asked = len(broker.of("capabilities"))
            placed = await rig.relay.rooms.message(ROOM, "⏳ On it...", key="t2/placeholder")
            assert placed.ok
            assert list(broker.messages) == [placed.event_id]
            assert (await rig.relay.rooms.message(ROOM, "b", key="k3")).ok
            assert len(broker.of("capabilities")) == asked + 1, "asked once for each doubt"
            assert rig.relay.capabilities.withdrawn, "deliveries wait for a later probe"
            assert not await rig.relay.capabilities.keyed(), "and files are not posted twice"


@pytest.mark.parametrize(
    "answers",
    [
        [Answer(500)],
        [Answer(apply=True, drop=True)],
        [Answer(apply=True, body=b"<html>")],
        [Answer(502), Answer(503)],
    ],
    ids=["500", "lost", "garbage", "twice"],
)
async def test_an_edit_is_repeated_until_it_stands(tmp_path: Path, answers: list[Answer]) -> None:
    """An edit is idempotent: one failure costs neither the placeholder nor a second message."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        placed = await rig.relay.rooms.message(ROOM, "⏳ On it...")
        broker.script("room", *answers)
        assert (await rig.relay.rooms.edit(ROOM, placed.event_id, "the answer")).ok
        assert broker.bodies(ROOM) == ["the answer"]
        assert rig.relay.rooms.cooling(ROOM) == 0


@pytest.mark.parametrize("status", [400, 403, 404])
async def test_a_refusing_room_cools_alone(tmp_path: Path, status: int) -> None:
    """This room is not asked for five minutes; the others go on; auth is not doubted."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.script("room", Answer(status))
        refused = await rig.relay.rooms.message(ROOM, "x")
        assert (refused.ok, refused.status, refused.maybe_sent) == (False, status, False)
        assert 290 < rig.relay.rooms.cooling(ROOM) <= 300
        again = await rig.relay.rooms.message(ROOM, "x")
        assert again.cooling_s > 0
        assert again.status is None
        assert (await rig.relay.rooms.message("!other:h", "x")).ok
        assert len(broker.of("room")) == 2


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (Answer(429, headers={"Retry-After": "7"}), 7),
        (Answer(429, {"retry_after_ms": 4000}), 4),
        (Answer(429, {"retry_after_ms": True}), 30),
        (Answer(429), 30),
    ],
    ids=["header", "body", "nonsense", "nothing"],
)
async def test_a_busy_room_is_left_alone_as_long_as_asked(
    tmp_path: Path, answer: Answer, seconds: float
) -> None:
    """429 cools one room for what the relay asks."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.script("room", answer)
        result = await rig.relay.rooms.edit(ROOM, "$e", "x")
        assert result.cooling_s == seconds
        assert seconds - 1 < rig.relay.rooms.cooling(ROOM) <= seconds
        assert rig.relay.rooms.cooling("!other:h") == 0


@pytest.mark.parametrize("status", [409, 413])
async def test_a_conflict_or_a_size_belongs_to_its_call(tmp_path: Path, status: int) -> None:
    """No cooldown at all."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.script("room", Answer(status, {"state": "conflict"}))
        assert not (await rig.relay.rooms.message(ROOM, "x")).ok
        assert rig.relay.rooms.cooling(ROOM) == 0


async def test_a_success_that_says_no_is_a_failure(tmp_path: Path) -> None:
    """200 with `ok: false` must not hide the answer behind `[REPLIED]`."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.always("room", Answer(body={"ok": False}))
        result = await rig.relay.rooms.edit(ROOM, "$e", "x")
        assert (result.ok, result.maybe_sent) == (False, False)
        assert not (await rig.relay.rooms.message(ROOM, "x")).ok


async def test_a_message_without_an_event_id_may_have_landed(tmp_path: Path) -> None:
    """No cooldown, and no ladder for this turn."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.script("room", Answer(body={"ok": True}))
        result = await rig.relay.rooms.message(ROOM, "x")
        assert (result.ok, result.maybe_sent) == (False, True)
        assert rig.relay.rooms.cooling(ROOM) == 0


async def test_an_outage_rests_all_rooms_and_one_probe_ends_it(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """Three failed calls in a row are an outage: 15 s, then one call tries, then 30 s."""
    minutes = Minutes(mock_clock)
    async with open_broker() as broker, running(broker, tmp_path, polling=False) as rig:
        minutes.rig = rig
        rooms = rig.relay.rooms

        async def sent() -> bool:
            return (await minutes.through(lambda: rooms.message(ROOM, "x"), 15)).ok

        broker.always("room", Answer(503))
        assert [False] * 3 == [await sent() for _ in range(3)]
        assert 0 < rooms.cooling("!other:h") <= 15
        asked = len(broker.of("room"))
        assert (await rooms.message("!other:h", "x")).cooling_s > 0
        assert len(broker.of("room")) == asked
        await minutes.go(15)
        assert rooms.cooling(ROOM) == 0
        assert not await sent()
        assert 15 < rooms.cooling(ROOM) <= 30
        broker.always("room", None)
        await minutes.go(30)
        assert rooms.cooling(ROOM) == 0
        assert await sent()
        assert rooms.cooling("!other:h") == 0


async def test_a_refused_connection_sent_nothing(tmp_path: Path) -> None:
    """A relay that is down may be asked again even without keys; nothing may have landed."""
    async with open_broker() as broker:
        pass
    async with running(broker, tmp_path, polling=False) as rig:
        result = await rig.relay.rooms.message(ROOM, "x")
        assert (result.ok, result.maybe_sent) == (False, False)


@pytest.mark.parametrize(
    ("room", "event", "body"),
    [
        ("no room", "$e", "x"),
        (ROOM, "", "x"),
        (ROOM, "$e", "  "),
        (ROOM, "$e", "x" * 4001),
        (ROOM, "$e", "😀" * 2001),
    ],
    ids=["room", "event", "blank", "long", "long in UTF-16"],
)
async def test_what_cannot_succeed_is_not_sent(
    tmp_path: Path, room: str, event: str, body: str
) -> None:
    """Refused here, without a call and without a cooldown."""
    async with open_broker() as broker, running(broker, tmp_path, polling=False) as rig:
        assert not (await rig.relay.rooms.edit(room, event, body)).ok
        assert rig.relay.rooms.cooling(room) == 0
        assert broker.requests == []


async def test_mentions_are_full_ids_and_few(tmp_path: Path) -> None:
    """Others are dropped; half a character in the text becomes U+FFFD."""
    async with open_broker() as broker, running(broker, tmp_path, polling=False) as rig:
        mentions = ["@ann:h", "bob", "@c", *(f"@u{number}:h" for number in range(12))]
        assert (await rig.relay.rooms.message(ROOM, "hi \ud83d", mentions=mentions)).ok
        (request,) = broker.of("room")
        assert request.body["body"] == "hi \ufffd"
        assert request.body["mentions"] == ["@ann:h", *(f"@u{number}:h" for number in range(9))]


async def test_nobody_reacts_to_a_message_that_a_task_came_from(tmp_path: Path) -> None:
    """The relay marks it itself; others can be marked."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.serve(wire_task("t1", source_message_id="$asked"))
        await rig.tasks()
        assert not (await rig.relay.rooms.react(ROOM, "$asked", "👍")).ok
        assert not (await rig.relay.rooms.react(ROOM, "$other", " ")).ok
        assert broker.of("room") == []
        broker.script("room", Answer(body={"ok": True}))
        assert (await rig.relay.rooms.react(ROOM, "$other", "👍")).ok
        body = broker.of("room")[0].body
        assert body == {"op": "react", "room_id": ROOM, "event_id": "$other", "key": "👍"}


async def test_a_reaction_that_says_no_is_a_failure(tmp_path: Path) -> None:
    """200 with `ok: false` hides nothing (★15)."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.script("room", Answer(body={"ok": False}))
        assert not (await rig.relay.rooms.react(ROOM, "$e", "👍")).ok


async def test_messages_of_a_room_keep_their_order(tmp_path: Path) -> None:
    """A slow one is waited for by those behind it, and by no other room."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        held = trio.Event()
        broker.script("room", Answer(apply=True, hold=held, body={"event_id": "$slow"}))
        async with trio.open_nursery() as turns:
            for body in ("first", "second", "third"):
                turns.start_soon(rig.relay.rooms.message, ROOM, body)
                await trio.lowlevel.checkpoint()  # two that start in one go have no order
                await broker.until(lambda: broker.of("room"))
            assert (await rig.relay.rooms.message("!other:h", "at once")).ok
            assert broker.bodies(ROOM) == ["first"]
            held.set()
        assert broker.bodies(ROOM) == ["first", "second", "third"]
        assert rig.relay.rooms._lines == {}


async def test_the_caller_learns_what_the_relay_said(tmp_path: Path) -> None:
    """Status, the word of a conflict, the echo of a key, the seconds of a cooldown."""
    async with open_broker() as broker:
        broker.keyed()
        async with running(broker, tmp_path) as rig:
            rooms = rig.relay.rooms
            first = await rooms.message(ROOM, "a", key="k")
            again = await rooms.message(ROOM, "a", key="k")
            assert (first.echo, again.echo) == ("created", "replayed")
            broker.script("messages", Answer(409, {"state": "conflict"}))
            clash = await rooms.message(ROOM, "b", key="k")
            assert (clash.status, clash.state, clash.cooling_s) == (409, "conflict", 0)
            broker.script("room", Answer(429, {"retry_after_ms": 7000}))
            busy = await rooms.edit(ROOM, "$e", "x")
            assert (busy.status, busy.cooling_s) == (429, 7.0)
            assert 0 < (await rooms.edit(ROOM, "$e", "x")).cooling_s <= 7.0
            assert rooms.cooling("!other:h") == 0
