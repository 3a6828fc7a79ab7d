"""A delivery outlives its connection, a stop and a start; an id is never run twice (§3, §10)."""

import threading
from pathlib import Path
from typing import Any

import pytest
import trio

from agentconnect.core.delivery.ports import Listening
from agentconnect.core.status import DeliveryBlock
from tests.shell.delivery.rig import LATER, OWNER, Answer, Rig, damage, posted, put, running
from tests.support.fake_broker import open_broker


async def test_a_connection_that_closes_ends_no_delivery(tmp_path: Path) -> None:
    """The caller is gone mid-delivery; it completes, and the resend gets the stored answer."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        broker.script("media", Answer(apply=True, delay_s=0.3, headers=ECHO, body=EVENT))
        files = [put(meta, "a.txt")]
        async with trio.open_nursery() as connection:
            connection.start_soon(rig.send, "x", meta.binding, "t")
            connection.start_soon(_send_files, rig, "y", meta.binding, files)
            await broker.seen("media")
            connection.cancel_scope.cancel()
        await rig.until(lambda: (rig.entry("y") or {}).get("outcome") == "delivered")
        assert "delivered" == (await rig.send("y", meta.binding, "t", files=files))["outcome"]
        assert 1 == len(broker.of("media"))


async def test_resends_of_a_running_delivery_share_its_answer(tmp_path: Path) -> None:
    """Never a second run; other content is a conflict, once the first is recorded."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        broker.script("messages", Answer(apply=True, delay_s=0.5, headers=ECHO, body=EVENT))
        told: list[Any] = []

        async def send() -> None:
            told.append(await rig.send("x", meta.binding, "t"))

        async with trio.open_nursery() as callers:
            for _ in range(5):
                callers.start_soon(send)
            await broker.seen("messages")
            assert "conflict" == (await rig.send("x", meta.binding, "u"))["reason"]
        assert 5 == len(told)
        assert all(answer == told[0] for answer in told)
        assert "delivered" == told[0]["outcome"]
        assert 1 == len(broker.of("messages"))


async def test_a_slow_delivery_blocks_no_other(tmp_path: Path) -> None:
    """Each has a task of its own."""
    async with open_broker() as broker, running(broker, tmp_path, stop_s=0.1) as rig:
        meta = await rig.bind()
        broker.script("messages", Answer(delay_s=30))
        async with trio.open_nursery() as callers:
            callers.start_soon(rig.send, "slow", meta.binding, "t")
            await broker.seen("messages")
            assert "delivered" == (await rig.send("quick", meta.binding, "u"))["outcome"]
            callers.cancel_scope.cancel()


async def test_a_resend_wakes_a_delivery_that_waits_by_itself(tmp_path: Path) -> None:
    """The store was unreadable for the run: the next look is at once."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        held = trio.Event()
        broker.script("messages", Answer(apply=True, hold=held, headers=ECHO, body=EVENT))
        told: list[Any] = []

        async def send() -> None:
            told.append(await rig.send("x", meta.binding, "t"))

        async with trio.open_nursery() as callers:
            callers.start_soon(send)
            await broker.seen("messages")
            await rig.store.close()
            whole = damage(rig.layout.deliveries)
            held.set()
        assert (-32010, None) == (told[0]["code"], told[0]["expires_at"])
        rig.layout.deliveries.write_bytes(whole)
        assert "delivered" == (await rig.send("x", meta.binding, "t"))["outcome"]
        assert 1 == len(broker.messages)


async def test_a_stop_lets_running_parts_finish(tmp_path: Path) -> None:
    """Recorded before the end; a new id gets Retry meanwhile and leaves no trace."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        held = trio.Event()
        broker.script("messages", Answer(apply=True, hold=held, headers=ECHO, body=EVENT))
        told: list[Any] = []

        async def send() -> None:
            told.append(await rig.send("x", meta.binding, "t"))

        async with trio.open_nursery() as callers:
            callers.start_soon(send)
            await broker.seen("messages")
            callers.start_soon(rig.desk.stop, 20.0)
            await rig.until(lambda: not rig.desk.enabled)
            assert "retry" == (await rig.send("new", meta.binding, "t"))["outcome"]
            held.set()
        assert "delivered" == told[0]["outcome"]
        assert "delivered" == rig.entry("x")["outcome"]
        assert rig.entry("new") is None
        assert "retry" == (await rig.send("new", meta.binding, "t"))["outcome"]


async def test_what_a_stop_cuts_off_goes_on_at_the_next_start(tmp_path: Path) -> None:
    """The post landed and its answer was cut off: the same key, one message."""
    async with open_broker() as broker:
        async with running(broker, tmp_path, stop_s=0.1) as rig:
            meta = await rig.bind()
            broker.script("messages", Answer(apply=True, delay_s=30))
            async with trio.open_nursery() as callers:
                callers.start_soon(rig.send, "x", meta.binding, "t")
                await broker.until(lambda: broker.messages)
                callers.cancel_scope.cancel()
        assert "trying" == rig.entry("x")["parts"][0]["state"]
        async with running(broker, tmp_path) as rig:
            await rig.until(lambda: rig.entry("x")["outcome"] == "delivered")
            assert "replayed" == rig.entry("x")["parts"][0]["status"]
        assert ["t"] == posted(rig)


async def test_a_stop_does_not_wait_for_what_waits(tmp_path: Path) -> None:
    """A delivery between two runs ends its wait at once; the start continues it by itself."""
    async with open_broker() as broker:
        with trio.fail_after(60):
            async with running(broker, tmp_path, stop_s=20.0) as rig:
                meta = await rig.bind()
                broker.script("messages", Answer(429, headers={"Retry-After": "3600"}))
                broker.script("media", Answer(503, headers={"Retry-After": "10"}))
                assert "retry" == (await rig.send("x", meta.binding, "t"))["outcome"]
                async with trio.open_nursery() as callers:  # this one waits within its run
                    files = [put(meta, "a.txt")]
                    callers.start_soon(_send_files, rig, "y", meta.binding, files)
                    await broker.seen("media")
                    callers.cancel_scope.cancel()
        async with running(broker, tmp_path) as rig:
            await rig.until(lambda: rig.entry("x")["outcome"] == "delivered")
            await rig.until(lambda: rig.entry("y")["outcome"] == "delivered")


@pytest.mark.parametrize("agent", [True, False])
async def test_a_start_continues_by_itself(tmp_path: Path, *, agent: bool) -> None:
    """Nothing waits for the agent to come back, or even to say that it delivers."""
    async with open_broker() as broker:
        async with running(broker, tmp_path) as rig:
            meta = await rig.bind()
            broker.script("media", Answer(429, headers=LATER))
            files = [put(meta, "a.txt")]
            assert "retry" == (await rig.send("x", meta.binding, "t", files=files))["outcome"]
        async with running(broker, tmp_path, declared=agent) as rig:
            await rig.until(lambda: rig.entry("x")["outcome"] == "delivered")
            assert agent == rig.desk.enabled


async def test_a_start_that_cannot_read_the_store_goes_on_when_it_can(tmp_path: Path) -> None:
    """A later look finds what is unfinished."""
    async with open_broker() as broker:
        async with running(broker, tmp_path) as rig:
            meta = await rig.bind()
            broker.script("messages", Answer(429, headers=LATER))
            assert "retry" == (await rig.send("x", meta.binding, "t"))["outcome"]
        whole = damage(rig.layout.deliveries)
        async with running(broker, tmp_path) as rig:
            assert not rig.desk.enabled
            rig.layout.deliveries.write_bytes(whole)
            assert "delivered" == (await rig.send("x", meta.binding, "t"))["outcome"]


async def test_an_owed_notice_is_posted_by_the_next_start(tmp_path: Path) -> None:
    """Once, under its key."""
    async with open_broker() as broker:
        async with running(broker, tmp_path) as rig:
            meta = await rig.bind()
            broker.script(
                "messages",
                Answer(409, {"state": "unknown"}),
                Answer(apply=True, status=503, headers=LATER),
            )
            assert "unknown" == (await rig.send("x", meta.binding, "t"))["reason"]
            await broker.seen("messages", 2)
        assert "owed" == rig.entry("x")["notice"]
        async with running(broker, tmp_path) as rig:
            await rig.until(lambda: rig.entry("x")["notice"] == "posted")
        assert 1 == len(posted(rig))


async def test_a_run_that_breaks_is_answered_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A mistake of ours costs one delivery a while, and no other anything."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        sound = rig.desk._performer._posts

        class Broken:
            async def text(self, *_: object) -> None:
                raise RuntimeError("a mistake")

        rig.desk._performer._posts = Broken()  # type: ignore[assignment]
        assert "retry" == (await rig.send("x", meta.binding, "t"))["outcome"]
        rig.desk._performer._posts = sound
        assert "delivered" == (await rig.send("y", meta.binding, "t"))["outcome"]
        assert "delivered" == (await rig.send("x", meta.binding, "t"))["outcome"]
        assert "broke off" in caplog.text


async def test_what_runs_beside_is_begun_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever is told how things are may break: deliveries and the worker go on."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        told: list[DeliveryBlock] = []

        def break_once(block: DeliveryBlock) -> None:
            told.append(block)
            if len(told) == 1:
                raise RuntimeError("a mistake")

        rig.desk._on_status = break_once
        meta = await rig.bind()
        assert "delivered" == (await rig.send("x", meta.binding, "t"))["outcome"]
        await rig.until(lambda: told)
        assert "delivered" == (await rig.send("y", meta.binding, "t"))["outcome"]
        await rig.until(lambda: len(told) > 1)
        assert "broke off" in caplog.text


async def test_ten_thousand_entries(tmp_path: Path) -> None:
    """A full record slows nothing down and is looked through by nobody."""
    async with open_broker() as broker:
        async with running(broker, tmp_path) as rig:
            meta = await rig.bind()
            assert "delivered" == (await rig.send("x", meta.binding, "t"))["outcome"]
            await rig.store._do(_fill)
        async with running(broker, tmp_path) as rig:
            with trio.fail_after(60):
                for number in range(20):
                    told = await rig.send(f"n{number}", meta.binding, "t")
                    assert "retry" == told["outcome"]  # it is full, and nothing may go
            assert "delivered" == (await rig.send("x", meta.binding, "t"))["outcome"]
            await rig.until(lambda: rig.blocks and rig.blocks[-1].bindings == 1)


async def test_a_desk_cancelled_from_outside_takes_nothing(tmp_path: Path) -> None:
    """Nobody asked it to stop: what runs and what comes is Retry, and the store stays closed."""
    async with open_broker() as broker:
        async with running(broker, tmp_path, stop_s=0.1) as rig:
            meta = await rig.bind()
            notices = await rig.desk.destinations.destination(OWNER)
            broker.script("messages", Answer(delay_s=30))
            told: list[Any] = []

            async def send() -> None:
                told.append(await rig.send("x", meta.binding, "t"))

            async with trio.open_nursery() as callers:
                callers.start_soon(send)
                await broker.seen("messages")
                rig.life.cancel()
            told.append(await rig.send("x", meta.binding, "t"))
            told.append(await rig.send("y", meta.binding, "t"))
            assert ["retry"] * 3 == [answer["outcome"] for answer in told]
            assert all("stopping" in answer["reason"] for answer in told)
            assert "stopping" in (await rig.notify(str(notices), "n"))["reason"]
            assert not rig.desk.enabled
            assert await rig.desk.destinations.destination(OWNER) is None
            assert await rig.desk.destinations.delivery(OWNER) is None
            await rig.until(
                lambda: not rig.layout.deliveries.with_name("deliveries.db-wal").exists()
            )
            assert ("disabled", "down") == (rig.blocks[-1].state, rig.blocks[-1].listener)
            assert "stopping" in rig.blocks[-1].reason
        async with running(broker, tmp_path) as rig:
            await rig.until(lambda: rig.entry("x")["outcome"] == "delivered")
            assert rig.entry("y") is None


async def test_a_delivery_counts_as_in_progress_from_its_first_try(tmp_path: Path) -> None:
    """The block does not wait for the run's first answer, which may be minutes away."""
    gate = threading.Event()

    def scan(_: str) -> tuple[str, ...]:
        gate.wait(60)
        return ()

    async with (
        open_broker() as broker,
        running(
            broker, tmp_path, stop_s=0.1, scan=scan, collaborators=frozenset({"@bob:h"})
        ) as rig,
        trio.open_nursery() as callers,
    ):
        meta = await rig.bind()
        broker.script("messages", Answer(delay_s=30))
        callers.start_soon(rig.send, "x", meta.binding, "t")
        await rig.until(lambda: rig.blocks and rig.blocks[-1].in_flight == 1)
        assert 0 == rig.blocks[-1].in_progress
        gate.set()
        await rig.until(lambda: (rig.blocks[-1].in_flight, rig.blocks[-1].in_progress) == (1, 1))
        callers.cancel_scope.cancel()


async def test_the_block_of_the_status_file(tmp_path: Path) -> None:
    """State, reason, listener and counts follow what happens."""
    async with open_broker() as broker, running(broker, tmp_path, declared=False) as rig:
        await rig.until(lambda: rig.blocks)
        block = rig.blocks[-1]
        assert ("disabled", "down") == (block.state, block.listener)
        assert "does not say that it delivers" in block.reason
        rig.desk.declared(True)
        rig.desk.listening(Listening.UP)
        await rig.until(lambda: rig.blocks[-1].listener == "up")
        assert ("enabled", "") == (rig.blocks[-1].state, rig.blocks[-1].reason)
        meta = await rig.bind()
        broker.script("messages", Answer(429, headers=LATER))
        await rig.send("x", meta.binding, "t")
        await rig.until(lambda: rig.blocks[-1].in_progress == 1)
        assert (0, 1, None) == (
            rig.blocks[-1].in_flight,
            rig.blocks[-1].bindings,
            rig.blocks[-1].last_delivered_at,
        )
        await rig.send("y", meta.binding, "t")
        await rig.until(lambda: rig.blocks[-1].last_delivered_at is not None)


ECHO = {"Idempotency-Status": "created"}
EVENT = {"ok": True, "event_id": "$here"}


async def _send_files(rig: Rig, name: str, binding: str, files: list[dict[str, str]]) -> None:
    await rig.send(name, binding, "t", files=files)


def _fill(connection: Any) -> None:
    columns = [row[1] for row in connection.execute("PRAGMA table_info(deliveries)")]
    copied = ", ".join("'c' || n" if name == "id" else name for name in columns[1:])
    connection.execute(
        "WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted"
        " WHERE n < 9999)"
        f" INSERT INTO deliveries ({', '.join(columns[1:])})"
        f" SELECT {copied} FROM deliveries, counted WHERE id = 'x'"
    )
