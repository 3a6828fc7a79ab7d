"""Tasks of the embedded relay over HTTP: polling, acks, leases, results."""

from pathlib import Path

import httpx
import pytest
import trio

from agentconnect.embedded.answers import PLACEHOLDER
from agentconnect.embedded.presence import Presence
from agentconnect.embedded.timing import Timing
from tests.support.relay import Clock, Relay, running_relay


async def test_message_becomes_a_task_and_its_answer_a_message(tmp_path: Path) -> None:
    """A message in a room with one agent is served, acked with 🫡, and answered in the room."""
    async with running_relay(tmp_path) as relay:
        source = await relay.say("hello")
        (task,) = await relay.poll()
        expected = {
            "task": "hello",
            "channel_id": relay.room,
            "user_id": relay.owner,
            "access_tier": "owner",
            "sensitive_data_filter": True,
            "priority": "normal",
            "sender_name": "Olivia",
            "source_message_id": source,
            "attempt": 1,
        }
        assert expected == {name: task[name] for name in expected}
        assert (await relay.ack(task["id"])).json() == {"ok": True}
        assert (await relay.ack(task["id"])).json() == {"ok": True}
        assert await relay.relay.reactions(source) == [("🫡", relay.agent)]
        assert (await relay.complete(task["id"], "Hi there.")).json() == {"ok": True}
        assert await relay.bodies() == ["hello", "Hi there."]
        assert await relay.poll() == []


async def test_waiting_poll_is_woken_by_a_message(tmp_path: Path) -> None:
    """A poll that waits gets the task long before its time is up."""
    async with running_relay(tmp_path) as relay, trio.open_nursery() as work:
        got: list[str] = []

        async def wait() -> None:
            got.extend(task["task"] for task in await relay.poll(30))

        with trio.fail_after(60):
            work.start_soon(wait)
            await _open_polls(relay, 1)
            await relay.say("now")
            while not got:
                await trio.sleep(0.01)
        assert got == ["now"]


async def test_everything_that_waits_comes_in_one_answer(tmp_path: Path) -> None:
    """A whole queue is one batch, in order; the next poll is empty."""
    async with running_relay(tmp_path) as relay:
        for number in range(20):
            await relay.say(f"m{number}")
        assert [t["task"] for t in await relay.poll()] == [f"m{n}" for n in range(20)]
        assert await relay.poll() == []


async def test_unacked_lease_is_served_again_and_dies_after_five(tmp_path: Path) -> None:
    """Nobody acks and nobody polls between: five serves, then the room reads that it is over."""
    clock = Clock()
    async with running_relay(tmp_path, timing=Timing(wall=clock)) as relay:
        source = await relay.say("lost")
        for attempt in range(1, 6):
            (task,) = await relay.poll()
            assert task["attempt"] == attempt
            clock.forward(200)
        assert await relay.poll() == []
        assert "5 attempts" in await relay.relay.answer_to(source)
        assert [m.kind for m in await relay.relay.messages(relay.room)] == ["text", "notice"]
        late = await relay.complete(task["id"], "too late")
        assert late.json() == {"ok": True, "undelivered": True}
        assert len(await relay.bodies()) == 2


async def test_acked_lease_lives_while_polls_come(tmp_path: Path) -> None:
    """An acked task stays with its worker for as long as that worker polls."""
    clock = Clock()
    async with running_relay(tmp_path, timing=Timing(wall=clock)) as relay:
        await relay.say("long work")
        (task,) = await relay.poll()
        await relay.ack(task["id"])
        for _ in range(30):
            clock.forward(50)
            assert await relay.poll() == []
        clock.forward(200)
        (again,) = await relay.poll()
        assert (again["id"], again["attempt"]) == (task["id"], 2)
        assert again["lease_id"] != task["lease_id"]


async def test_unacked_lease_lasts_three_windows_of_a_living_worker(tmp_path: Path) -> None:
    """Two extensions and no more for a lease that nobody acks."""
    clock = Clock()
    async with running_relay(tmp_path, timing=Timing(wall=clock)) as relay:
        await relay.say("unseen")
        assert len(await relay.poll()) == 1
        for _ in range(3):
            clock.forward(50)
            assert await relay.poll() == []
        clock.forward(50)
        (again,) = await relay.poll()
        assert again["attempt"] == 2


async def test_timer_gives_a_lapsed_task_to_a_waiting_poll(tmp_path: Path) -> None:
    """A lease that lapses while another poll waits reaches that poll by the relay's own timer."""
    clock = Clock()
    timing = Timing(wall=clock, sweep_s=0.02, extensions=0)
    async with running_relay(tmp_path, timing=timing) as relay, trio.open_nursery() as work:
        await relay.say("again")
        assert len(await relay.poll()) == 1
        got: list[int] = []

        async def wait() -> None:
            got.extend(task["attempt"] for task in await relay.poll(30))

        work.start_soon(wait)
        await _open_polls(relay, 1)
        clock.forward(61)
        with trio.fail_after(60):
            while not got:
                await trio.sleep(0.01)
        assert got == [2]


async def test_lease_of_a_poller_that_left_is_given_back(tmp_path: Path) -> None:
    """A poll whose client is gone holds no task: the next poll has it, at the same attempt."""
    async with running_relay(tmp_path) as relay:
        async with trio.open_nursery() as leaving:
            leaving.start_soon(relay.poll, 30)
            await _open_polls(relay, 1)
            leaving.cancel_scope.cancel()
        await _open_polls(relay, 0)
        await relay.say("for the next one")
        (task,) = await relay.poll()
        assert task["attempt"] == 1


@pytest.mark.parametrize(
    ("task_id", "lease_id", "words"),
    [
        ("t-unknown", "", "not leased"),
        (None, "feedfeedfeedfeed", "not leased: stale lease generation"),
    ],
)
async def test_ack_that_meets_no_lease_says_so(
    tmp_path: Path, task_id: str | None, lease_id: str, words: str
) -> None:
    """The 404 of an ack carries the words by which a client knows that the route exists."""
    async with running_relay(tmp_path) as relay:
        await relay.say("hello")
        (task,) = await relay.poll()
        name = task_id or task["id"]
        answer = await relay.call(
            "POST", f"/v1/tasks/{name}/ack", {"id": name, "lease_id": lease_id}
        )
        assert (answer.status_code, answer.json()) == (404, {"error": words})


async def test_result_is_idempotent(tmp_path: Path) -> None:
    """The same result again posts nothing and says that it is a duplicate."""
    async with running_relay(tmp_path) as relay:
        await relay.say("once")
        (task,) = await relay.poll()
        answers: list[object] = []

        async def post() -> None:
            answers.append((await relay.complete(task["id"], "one answer")).json())

        async with trio.open_nursery() as work:
            for _ in range(4):
                work.start_soon(post)
        assert answers.count({"ok": True}) == 1
        assert answers.count({"ok": True, "duplicate": True}) == 3
        assert await relay.bodies() == ["once", "one answer"]


async def test_result_needs_no_lease(tmp_path: Path) -> None:
    """A task whose lease lapsed is completed by its id all the same, and is not served again."""
    clock = Clock()
    async with running_relay(tmp_path, timing=Timing(wall=clock)) as relay:
        await relay.say("late but right")
        (task,) = await relay.poll()
        await relay.relay.expire_lease(task["id"])
        assert (await relay.complete(task["id"], "here")).json() == {"ok": True}
        assert await relay.poll() == []


@pytest.mark.parametrize(
    ("body", "posted"),
    [
        ("[no-send]", []),
        ("  [No-Send]  ", []),
        ("[REPLIED]\n\nthe answer", []),
        ("[deduped: t-1]", []),
        ("[channel: !elsewhere:local]\n[no-send]", []),
        ("[replied] is not the marker", ["[replied] is not the marker"]),
        ("[channel: !elsewhere:local]\nhere then", ["here then"]),
        ("text first [no-send]", ["text first [no-send]"]),
        ("[no-send] the agent broke", ["⚠️ the agent broke"]),
    ],
)
async def test_markers_at_the_start_of_a_result(
    tmp_path: Path, body: str, posted: list[str]
) -> None:
    """Silence, "already said", "duplicate" and a move to a foreign room do what they say."""
    async with running_relay(tmp_path) as relay:
        await relay.say("ask")
        (task,) = await relay.poll()
        assert (await relay.complete(task["id"], body)).json() == {"ok": True}
        assert await relay.bodies() == ["ask", *posted]


async def test_channel_marker_moves_the_answer(tmp_path: Path) -> None:
    """An answer for another room of the identity is posted there and only there."""
    async with running_relay(tmp_path) as relay:
        other = await relay.relay.create_room("Other", relay.owner, (relay.agent,))
        await relay.say("tell them")
        (task,) = await relay.poll()
        await relay.complete(task["id"], f"[channel: {other}]\nfor you")
        assert await relay.bodies() == ["tell them"]
        assert await relay.bodies(other) == ["for you"]


@pytest.mark.parametrize("known", [True, False], ids=["not joined", "no such room"])
async def test_an_answer_for_a_room_of_others_stays_where_it_was_asked(
    tmp_path: Path, known: bool
) -> None:
    """Without the marker; the other room does not hear of it."""
    async with running_relay(tmp_path) as relay:
        stranger, _token, _command = await relay.relay.add_agent("Stranger")
        other = await relay.relay.create_room("Other", relay.owner, (stranger,))
        await relay.say("tell them")
        (task,) = await relay.poll()
        room = other if known else "!nowhere:local"
        await relay.complete(task["id"], f"[channel: {room}]\nfor you")
        assert await relay.bodies() == ["tell them", "for you"]
        assert await relay.bodies(other) == []


async def test_a_worker_cannot_touch_the_task_of_another_identity(tmp_path: Path) -> None:
    """Its ack, answer and rejection meet nothing; the task and its lease stay the owner's."""
    async with running_relay(tmp_path) as relay:
        _stranger, token, _command = await relay.relay.add_agent("Stranger")
        secret = token.partition("|")[2]
        source = await relay.say("mine")
        (task,) = await relay.poll()
        lease = {"id": task["id"], "lease_id": task["lease_id"]}
        ack = await relay.call("POST", f"/v1/tasks/{task['id']}/ack", lease, secret=secret)
        assert (ack.status_code, ack.json()) == (404, {"error": "not leased"})
        for stolen in ({"body": "stolen"}, {"status": "rejected", "error_code": "X"}):
            body = {"id": task["id"], **stolen}
            answer = await relay.call("POST", "/v1/results", body, secret=secret)
            assert answer.json() == {"ok": True, "undelivered": True}
        assert await relay.poll(secret=secret) == []
        assert await relay.relay.reactions(source) == []
        assert (await relay.complete(task["id"], "done")).json() == {"ok": True}
        assert await relay.bodies() == ["mine", "done"]


async def test_long_answer_is_cut_into_messages(tmp_path: Path) -> None:
    """An answer over 12,000 characters becomes several messages, a fence whole in each."""
    async with running_relay(tmp_path) as relay:
        await relay.say("long")
        (task,) = await relay.poll()
        await relay.complete(task["id"], "```\n" + "line of text\n" * 2000 + "```")
        _, *pieces = await relay.bodies()
        assert len(pieces) >= 3
        assert all(len(piece) <= 12_000 for piece in pieces)
        assert all(piece.startswith("```") and piece.endswith("```") for piece in pieces)


@pytest.mark.parametrize("code", ["x" * 65, "a\nb", "\x1b[31m", "<b>", "two words", "é"])
async def test_a_rejection_s_code_that_is_no_word_stays_out_of_the_room(
    tmp_path: Path, code: str
) -> None:
    """The notice names a code of up to 64 plain characters, and nothing a worker makes up."""
    async with running_relay(tmp_path) as relay:
        await relay.say("bad one")
        (task,) = await relay.poll()
        rejected = {"id": task["id"], "status": "rejected", "error_code": code}
        assert (await relay.call("POST", "/v1/results", rejected)).json()["rejected"]
        (_, notice) = await relay.bodies()
        assert notice == "⚠️ The agent's worker could not take this request."


async def test_rejection_takes_the_placeholder_over(tmp_path: Path) -> None:
    """A rejected task's notice is edited into its placeholder; the task never comes back."""
    async with running_relay(tmp_path) as relay:
        await relay.say("bad one")
        (task,) = await relay.poll()
        placeholder = await relay.op("message", body=PLACEHOLDER)
        assert (await relay.relay.messages(relay.room))[-1].pending
        rejected = {"id": task["id"], "status": "rejected", "error_code": "INVALID_TASK_SCHEMA"}
        assert (await relay.call("POST", "/v1/results", rejected)).json() == {
            "ok": True,
            "rejected": True,
        }
        again = (await relay.call("POST", "/v1/results", rejected)).json()
        assert again == {"ok": True, "duplicate": True, "rejected": True}
        (_, notice) = await relay.relay.messages(relay.room)
        assert notice.event_id == placeholder.json()["event_id"]
        assert "INVALID_TASK_SCHEMA" in notice.body
        assert not notice.pending
        assert await relay.poll() == []


async def test_dead_task_takes_over_the_placeholder_that_showed_steps(tmp_path: Path) -> None:
    """A placeholder that live steps were edited into is still the task's when it dies."""
    clock = Clock()
    timing = Timing(wall=clock, attempts=1, extensions=0)
    async with running_relay(tmp_path, timing=timing) as relay:
        await relay.say("dies")
        await relay.poll()
        event = (await relay.op("message", body=PLACEHOLDER)).json()["event_id"]
        await relay.op("edit", event_id=event, body=f"{PLACEHOLDER}\n\nreading files …")
        clock.forward(500)
        assert await relay.poll() == []
        _, notice = await relay.relay.messages(relay.room)
        assert (notice.event_id, "1 attempts" in notice.body) == (event, True)


async def test_two_tasks_of_one_room_have_a_placeholder_each(tmp_path: Path) -> None:
    """The first placeholder stands for the first task, the second for the second."""
    async with running_relay(tmp_path) as relay:
        await relay.say("one")
        await relay.say("two")
        first, _second = await relay.poll()
        await relay.op("message", body=PLACEHOLDER)
        await relay.op("message", body=PLACEHOLDER)
        await relay.complete(first["id"], "[no-send] broke")
        assert await relay.bodies() == ["one", "two", "⚠️ broke", PLACEHOLDER]
        assert [m.pending for m in await relay.relay.messages(relay.room)][2:] == [False, True]


async def test_stop_answers_waiting_polls(tmp_path: Path) -> None:
    """A relay that stops answers every open poll with an empty list, at once."""
    got: list[object] = []
    headers = {}
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        with trio.fail_after(60):
            async with trio.open_nursery() as work, running_relay(tmp_path) as relay:
                headers["authorization"] = f"Bearer {relay.secret}"
                url = f"{relay.base}/v1/tasks?wait=30"

                async def wait() -> None:
                    got.append((await client.get(url, headers=headers)).json())

                work.start_soon(wait)
                work.start_soon(wait)
                await _open_polls(relay, 2)
    assert got == [{"tasks": []}, {"tasks": []}]


async def test_restart_keeps_rooms_tasks_and_leases(tmp_path: Path) -> None:
    """After a restart the room reads the same, the leased task completes, the queued one comes."""
    async with running_relay(tmp_path) as relay:
        await relay.say("leased")
        (task,) = await relay.poll()
        await relay.say("queued")
        room = relay.room
    async with running_relay(tmp_path) as relay:
        assert relay.room == room
        assert await relay.bodies() == ["leased", "queued"]
        assert [t["task"] for t in await relay.poll()] == ["queued"]
        assert (await relay.complete(task["id"], "done")).json() == {"ok": True}


async def test_time_the_relay_was_down_costs_no_lease(tmp_path: Path) -> None:
    """An hour in which the relay was down is not counted against a lease."""
    clock = Clock()
    timing = Timing(wall=clock)
    async with running_relay(tmp_path, timing=timing) as relay:
        await relay.say("mine")
        await relay.ack((await relay.poll())[0]["id"])
    clock.forward(3600)
    async with running_relay(tmp_path, timing=timing) as relay:
        assert await relay.poll() == []


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
async def test_a_clock_set_back_holds_no_task_of_a_dead_worker(
    tmp_path: Path, restarted: bool
) -> None:
    """An hour back: the lease lasts one window from then on, not an hour and one."""
    clock = Clock()
    timing = Timing(wall=clock, sweep_s=0.02, extensions=0)
    setup = None
    if restarted:
        async with running_relay(tmp_path, timing=timing) as relay:
            setup = relay.setup
            await relay.say("mine")
            assert len(await relay.poll()) == 1
        clock.forward(-3600)
    async with running_relay(tmp_path, timing=timing, setup=setup) as relay:
        if not restarted:
            await relay.say("mine")
            assert len(await relay.poll()) == 1
            clock.forward(-3600)
        (source, *_) = await relay.relay.messages(relay.room)

        async def ends() -> float:
            (row,) = await relay.relay.tasks_of(source.event_id)
            return row.until

        with trio.fail_after(60):
            while await ends() > clock.now + timing.visibility_s:
                await trio.sleep(0.01)
        clock.forward(61)
        with trio.fail_after(60):
            (again,) = await relay.poll(30)
        assert again["attempt"] == 2


def test_a_clock_set_back_makes_nobody_seem_there() -> None:
    """Who was heard of at a time that has not come yet is neither alive nor online."""
    presence = Presence(online_s=75, visibility_s=60)
    presence.polled("@a:local", 1_800_000_000.0)
    presence.heard("@b:local", 1_800_000_000.0)
    assert presence.alive("@a:local", 1_800_000_059.0)
    assert presence.online("@b:local", 1_800_000_059.0)
    assert not presence.alive("@a:local", 1_799_996_400.0)
    assert not presence.online("@b:local", 1_799_996_400.0)


async def test_done_ids_are_forgotten_only_past_both_limits(tmp_path: Path) -> None:
    """A finished task is remembered for a day and among the newest, whichever is longer."""
    clock = Clock()
    timing = Timing(wall=clock, done_min=2)
    async with running_relay(tmp_path, timing=timing) as relay:
        ids = []
        for word in ("a", "b", "c", "d"):
            await relay.say(word)
            (task,) = await relay.poll()
            await relay.complete(task["id"], "ok")
            ids.append(task["id"])
            clock.forward(10)
        clock.forward(2 * 86_400)
        await relay.relay.prune()
        kept = [(await relay.complete(i, "x")).json().get("duplicate", False) for i in ids]
        assert kept == [False, False, True, True]


async def _open_polls(relay: Relay, count: int) -> None:
    with trio.fail_after(60):
        while relay.relay.open_polls(relay.agent) != count:
            await trio.sleep(0.01)
