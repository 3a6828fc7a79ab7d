"""The relay's half of the wire, rule by rule, where no other test holds it already."""

import json
import logging
from pathlib import Path

import httpx
import pytest
import trio

from agentconnect.embedded.answers import PLACEHOLDER
from agentconnect.embedded.timing import Timing
from tests.support.relay import Clock, Relay, running_relay


async def _open_polls(relay: Relay, count: int) -> None:
    with trio.fail_after(60):
        while relay.relay.open_polls(relay.agent) != count:
            await trio.sleep(0.01)


async def test_five_hundred_tasks_come_in_one_answer(tmp_path: Path) -> None:
    """A long absence: the whole queue at once, in order, each with its lease and attempt."""
    async with running_relay(tmp_path) as relay:
        async with trio.open_nursery() as work:
            for number in range(0, 500, 50):

                async def say(first: int = number) -> None:
                    for offset in range(50):
                        await relay.say(f"m{first + offset}")

                work.start_soon(say)
        tasks = await relay.poll()
        assert len(tasks) == 500
        assert len({task["lease_id"] for task in tasks}) == 500
        said = [m.body for m in await relay.relay.messages(relay.room)]
        assert [task["task"] for task in tasks] == said
        assert await relay.poll() == []


async def test_an_answer_stays_below_what_a_client_reads(tmp_path: Path) -> None:
    """What one answer cannot hold comes with the next poll: no answer above 32 MiB."""
    async with running_relay(tmp_path) as relay:
        for _ in range(180):
            await relay.say("\U0001f600" * 31_000)
        first = await relay.call("GET", "/v1/tasks")
        second = await relay.call("GET", "/v1/tasks")
        assert len(first.content) < 32 * 1024 * 1024
        assert len(first.json()["tasks"]) + len(second.json()["tasks"]) == 180


async def test_served_and_acked_tasks_are_served_again_after_a_kill(tmp_path: Path) -> None:
    """What a worker held when relay and worker both died comes again, at its next attempt."""
    clock = Clock()
    timing = Timing(wall=clock)
    async with running_relay(tmp_path, timing=timing) as relay:
        await relay.say("held")
        (task,) = await relay.poll()
        await relay.ack(task["id"])
        setup = relay.setup
    async with running_relay(tmp_path, timing=timing, setup=setup) as relay:
        assert await relay.poll() == []
        clock.forward(200)
        (again,) = await relay.poll()
        assert (again["id"], again["attempt"]) == (task["id"], 2)
        assert again["lease_id"] != task["lease_id"]


async def test_two_polls_of_one_identity_share_one_queue(tmp_path: Path) -> None:
    """Two pollers split what comes; no task is leased to both."""
    async with running_relay(tmp_path) as relay, trio.open_nursery() as work:
        got: list[str] = []

        async def follow() -> None:
            while len(got) < 6:
                got.extend(task["task"] for task in await relay.poll(5))

        work.start_soon(follow)
        work.start_soon(follow)
        await _open_polls(relay, 2)
        for number in range(6):
            await relay.say(f"m{number}")
        with trio.fail_after(60):
            while len(got) < 6:
                await trio.sleep(0.01)
        work.cancel_scope.cancel()
    assert sorted(got) == [f"m{number}" for number in range(6)]


async def test_a_second_poller_is_said_once_and_its_end_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Overlapping polls on one bearer are one line, however many; so is that they are over."""
    timing = Timing(visibility_s=0.2)
    with caplog.at_level(logging.WARNING, "agentconnect.embedded"):
        async with running_relay(tmp_path, timing=timing) as relay:
            async with trio.open_nursery() as work:
                for count in range(1, 5):
                    work.start_soon(relay.poll, 30)
                    await _open_polls(relay, count)
                work.cancel_scope.cancel()
            await _open_polls(relay, 0)
            assert len(caplog.records) == 1
            with trio.fail_after(60):
                while len(caplog.records) == 1:
                    await relay.poll()
            for _ in range(3):
                await relay.poll()
    said = [record.getMessage() for record in caplog.records]
    assert [line.split(":")[0] for line in said] == [
        "several polls are open on one bearer",
        "one poll at a time again on the bearer",
    ]
    assert all(relay.secret not in line for line in said)


async def test_a_late_ack_is_taken_and_greets(tmp_path: Path) -> None:
    """An answer that overtook its own ack: the ack is 200 all the same, and still the first."""
    async with running_relay(tmp_path) as relay:
        source = await relay.say("quick")
        (task,) = await relay.poll()
        await relay.complete(task["id"], "done")
        assert (await relay.ack(task["id"])).status_code == 200
        assert await relay.relay.reactions(source) == [("🫡", relay.agent)]


async def test_an_answer_without_a_task_is_taken_and_named(tmp_path: Path) -> None:
    """Unknown, foreign and dead ids: 200 with `undelivered`, and nothing in any room."""
    async with running_relay(tmp_path) as relay:
        _, token, _ = await relay.relay.add_agent("Other")
        await relay.say("mine")
        (task,) = await relay.poll()
        foreign = await relay.call(
            "POST",
            "/v1/results",
            {"id": task["id"], "body": "stolen"},
            secret=token.partition("|")[2],
        )
        unknown = await relay.complete("../../etc", "x")
        for answer in (foreign, unknown):
            assert (answer.status_code, answer.json()) == (200, {"ok": True, "undelivered": True})
        assert await relay.bodies() == ["mine"]
        assert (await relay.complete(task["id"], "kept")).json() == {"ok": True}


async def test_a_room_that_its_agent_left_keeps_nothing_open(tmp_path: Path) -> None:
    """The result is taken and the id done, though nothing can be posted there any more."""
    async with running_relay(tmp_path) as relay, relay.visitor() as browser:
        await relay.say("then leave")
        (task,) = await relay.poll()
        assert (
            await browser.delete(f"/page/rooms/{relay.room}/members/{relay.agent}")
        ).status_code == 200
        assert (await relay.complete(task["id"], "too late")).json() == {"ok": True}
        assert (await relay.complete(task["id"], "x")).json() == {"ok": True, "duplicate": True}
        assert await relay.bodies() == ["then leave"]
        assert await relay.poll() == []


async def test_a_removed_identity_s_open_poll_ends(tmp_path: Path) -> None:
    """Its poll is answered at once, the next call is 401, its open tasks end aloud."""
    async with running_relay(tmp_path) as relay, relay.visitor() as browser:
        await relay.say("never finished")
        await relay.poll()
        ended: list[httpx.Response] = []

        async def wait() -> None:
            ended.append(await relay.call("GET", "/v1/tasks?wait=30"))

        with trio.fail_after(60):
            async with trio.open_nursery() as work:
                work.start_soon(wait)
                await _open_polls(relay, 1)
                await browser.delete(f"/page/agents/{relay.agent}")
        assert ended[0].json() == {"tasks": []}
        assert (await relay.call("GET", "/v1/tasks")).status_code == 401
        assert "removed" in (await relay.bodies())[-1]


@pytest.mark.parametrize(
    ("op", "chars", "status"),
    [
        ("message", 32_000, 200),
        ("message", 32_001, 413),
        ("edit", 4_000, 200),
        ("edit", 4_001, 413),
    ],
)
async def test_how_long_a_message_may_be(tmp_path: Path, op: str, chars: int, status: int) -> None:
    """32,000 characters for a message, 4,000 for an edit, whatever they weigh in bytes."""
    async with running_relay(tmp_path) as relay:
        event = (await relay.op("message", body=PLACEHOLDER)).json()["event_id"]
        members = {"event_id": event} if op == "edit" else {}
        answer = await relay.op(op, body="é" * chars, **members)
        assert answer.status_code == status
        assert len(await relay.bodies()) == (2 if (op, status) == ("message", 200) else 1)


async def test_requests_above_their_limit_are_413_before_they_are_read(tmp_path: Path) -> None:
    """An ack of 1 MiB and a result of 4 MiB are too large, by what their heads say."""
    async with running_relay(tmp_path) as relay:
        await relay.say("x")
        (task,) = await relay.poll()
        for path, size in ((f"/v1/tasks/{task['id']}/ack", 2**20), ("/v1/results", 2**22)):
            answer = await relay.call("POST", path, content=b" " * (size + 1))
            assert answer.status_code == 413
            assert set(answer.json()) == {"error"}
        body = "a" * 3_000_000
        assert (await relay.complete(task["id"], body)).status_code == 200


async def test_not_now_says_when(tmp_path: Path) -> None:
    """Every 503 of the relay's own carries `Retry-After`."""
    async with running_relay(tmp_path) as relay, trio.open_nursery() as work:

        async def follow() -> None:
            headers = {"authorization": f"Bearer {relay.secret}"}
            url = relay.base + "/v1/events/stream"
            async with relay.client.stream("GET", url, headers=headers) as stream:
                async for _ in stream.aiter_raw():
                    opened.append(1)

        opened: list[int] = []
        for _ in range(4):
            work.start_soon(follow)
        with trio.fail_after(60):
            while len(opened) < 4:
                await trio.sleep(0.01)
        full = await relay.call("GET", "/v1/events/stream")
        assert full.status_code == 503
        assert 0 < int(full.headers["retry-after"]) <= 60
        work.cancel_scope.cancel()


async def test_heartbeats_keep_what_they_do_not_name(tmp_path: Path) -> None:
    """Absent keeps the last value, null takes it back, unknown members are nothing."""
    async with running_relay(tmp_path) as relay:
        first = {"client": "x", "inflight": 2, "status": "running", "step": "reading", "new": [1]}
        for beat in (first, {"inflight": 1, "step": None}, {}):
            assert (await relay.call("POST", "/v1/heartbeat", beat)).json() == {"ok": True}
        kept = json.loads(await relay.relay.heartbeat_of(relay.agent))
        assert kept == {"client": "x", "inflight": 1, "status": "running", "step": None}


async def test_an_answer_is_durable_before_it_is_told(tmp_path: Path) -> None:
    """Messages and results wait for the disk; leases, acks and edits do not, and share one wait."""
    async with running_relay(tmp_path) as relay:
        store = relay.relay.disk_waits
        before = store()
        await relay.say("ask")
        assert store() == before + 1
        (task,) = await relay.poll()
        await relay.ack(task["id"])
        event = (await relay.op("message", body=PLACEHOLDER)).json()["event_id"]
        await relay.op("edit", event_id=event, body="step")
        assert store() == before + 1
        await relay.complete(task["id"], "[REPLIED]\n\nstep")
        assert store() == before + 2
        async with trio.open_nursery() as work:
            for _ in range(40):
                work.start_soon(relay.say, "at once")
        assert store() < before + 42
