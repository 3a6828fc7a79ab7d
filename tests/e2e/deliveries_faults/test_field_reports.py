"""Field reports D1, D2, D4, D5 and D17, each by its symptom, with real processes."""

import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from tests.e2e.deliveries_faults import matrix
from tests.e2e.deliveries_faults.rig import late, link
from tests.e2e.faults.stand import PLACE
from tests.support.worker import alive, until

ROOM_TWO = "the other room"


# --- D1: after a restart messages that had been delivered are sent again


@pytest.mark.parametrize(
    "killed",
    [
        matrix.before_first_seen,
        matrix.before_it_leaves,
        matrix.before_the_response,
        matrix.before_the_record,
        matrix.after_it_was_told,
    ],
)
async def test_a_restart_does_not_send_again_what_was_delivered(
    tmp_path: Path, killed: Callable[..., Awaitable[None]]
) -> None:
    """Wherever it is killed: the text is in the room once, and the agent's resend is Delivered."""
    async with late(tmp_path) as case:
        await case.listening()
        to = await case.told()
        await killed(case, to, "text")
        there = len(await case.late())
        await case.listening()
        await case.came(1)
        answer = await case.deliver("resend", case.sent(matrix.ID) or {})
        status = answer["delivered"][0]["status"]
        before_it_was_known = (matrix.before_the_response, matrix.before_the_record)
        assert ("replayed" if killed in before_it_was_known else "created") == status
        assert (there, "delivered") == (int(killed in AFTER_THE_POST), answer["outcome"])
        assert 1 == len(await case.late())


AFTER_THE_POST = (matrix.before_the_response, matrix.before_the_record, matrix.after_it_was_told)


async def test_a_kill_before_the_record_loses_what_nobody_sends_again(tmp_path: Path) -> None:
    """Nothing was accepted: without a resend there is nothing in the room, and never two."""
    async with late(tmp_path) as case:
        await case.listening()
        to = await case.told()
        with case.store_held():
            case.send("once", {"id": "a1", "binding": to["binding"], "text": "hello"})
            await until(lambda: not case.has_answer("once"), "silence")
            await case.kill()
        (tmp_path / "requests" / "once.json").unlink()
        await case.listening()
        assert "said: hello" == await case.ask("hello")
        assert [] == await case.late()


# --- D2: entries that can never succeed are retried on every start


async def test_what_can_never_succeed_is_not_tried_again_at_every_start(tmp_path: Path) -> None:
    """403: one Final; a restart makes no call for it, and a resend is answered from the record."""
    async with late(tmp_path) as case:
        await case.listening()
        params = {"id": "a1", "binding": (await case.told())["binding"], "text": "hello"}
        case.plan(PLACE, status=403, times=100)
        final = await case.deliver("first", params)
        assert ("final", "rejected") == (final["outcome"], final["reason"])
        await case.ended("a1")
        posts = case.posts()
        await case.again()
        assert final == await case.deliver("resend", params)
        assert posts == case.posts()
        assert [] == await case.late()


# --- D4: the outcome of a background job reaches nobody


@pytest.mark.parametrize("gone", [False, True], ids=["the turn's process stays", "it is gone"])
async def test_what_a_background_job_finds_later_reaches_the_room(
    tmp_path: Path, gone: bool
) -> None:
    """File, then text, once each, after the turn; ``delivered`` lists every part."""
    async with late(tmp_path) as case:
        await case.listening()
        to = await case.told()
        turns = case.notes("told.jsonl")[-1]["pid"]
        assert turns != case.listener
        if gone:
            os.kill(turns, signal.SIGKILL)
            await until(lambda: not alive(turns), "its end")
        case.put(to, "a1", "It is done.", report_txt="all of it")
        await case.came(2)
        await until(lambda: bool(case.heard("a1")), "the answer")
        file, text = await case.late()
        assert ("file", "all of it", "It is done.") == (
            file.kind,
            await case.content(file),
            text.body,
        )
        (answer,) = case.heard("a1")
        assert [(0, file.event_id), (1, text.event_id)] == [
            (part["part"], part["event_id"]) for part in answer["delivered"]
        ]
        assert [{"id": "a1", "state": "delivered"}] == [
            {k: end[k] for k in ("id", "state")} for end in case.notes("ends.jsonl")
        ]


# --- D5: a finished command is posted in another conversation


async def test_a_late_result_does_not_land_in_another_room(tmp_path: Path) -> None:
    """A turn runs in the second room meanwhile: what is for the first comes to the first only."""
    async with late(tmp_path) as case:
        relay = case.relay
        two = await relay.relay.create_room(ROOM_TWO, relay.owner, (relay.agent,))
        await case.listening()
        first, second = await case.told(), await case.told(room=two)
        assert first["binding"] != second["binding"]
        asked = await relay.say("wait go", room=two)
        await until(lambda: "wait go" == case.notes("told.jsonl")[-1]["request"], "a turn")
        uri = link(first["export_dir"], "a.txt", "for the first room")
        params = {"id": "a1", "binding": first["binding"], "text": "hello"}
        answer = await case.deliver("a1", {**params, "files": [{"uri": uri}]})
        assert "delivered" == answer["outcome"]
        case.let("go")
        await case.closed(asked)
        assert ["file", "text"] == [m.kind for m in await case.late()]
        assert [] == await case.late(two)


async def test_a_file_of_another_conversation_is_not_delivered(tmp_path: Path) -> None:
    """Named in the answer, and nothing of the delivery is posted, in neither room."""
    async with late(tmp_path) as case:
        relay = case.relay
        two = await relay.relay.create_room(ROOM_TWO, relay.owner, (relay.agent,))
        await case.listening()
        first, second = await case.told(), await case.told(room=two)
        uri = link(second["export_dir"], "private.txt", "of the second room")
        params = {"id": "a1", "binding": first["binding"], "text": "hello"}
        posts = case.posts()
        answer = await case.deliver("a1", {**params, "files": [{"uri": uri}]})
        assert ("final", "rejected", []) == (
            answer["outcome"],
            answer["reason"],
            answer["delivered"],
        )
        assert "part 0 (private.txt): it is not in the export folder" in answer["detail"]
        assert posts == case.posts()
        assert [] == [*await case.late(), *await case.late(two)]


# --- D17: the state file became empty


async def test_a_broken_delivery_store_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    """Not offered, the reason at start and in the status file, nothing posted, file untouched."""
    async with late(tmp_path) as case:
        await case.listening()
        params = {"id": "a1", "binding": (await case.told())["binding"], "text": "hello"}
        await case.kill()
        for beside in case.store.parent.glob("deliveries.db-*"):
            beside.unlink()
        case.store.write_text("{")
        listeners, posts = len(case.notes("listeners.jsonl")), case.posts()
        await case.start()
        await until(lambda: "deliveries.db" in case.block.get("reason", ""), "the reason")
        assert ("disabled", "down") == (case.block["state"], case.block["listener"])
        assert "deliveries.db" in case.worker.output()
        assert "said: hello" == await case.ask("hello")
        assert None is case.notes("told.jsonl")[-1]["binding"]
        case.send("a1", params)  # nobody to send it to: no listener is there
        assert listeners == len(case.notes("listeners.jsonl"))
        assert "{" == case.store.read_text()
        assert [] == await case.late()
        assert posts + 1 == case.posts()  # the turn's placeholder


async def test_a_store_that_breaks_while_running_answers_retry(tmp_path: Path) -> None:
    """A listener that is still up: Retry without ``expires_at``, and no post."""
    async with late(tmp_path) as case:
        await case.listening()
        to = {"binding": (await case.told())["binding"]}
        # the listener stays for as long as it owes an answer
        held = case.plan(PLACE, hold=trio.Event())
        case.send("a0", {**to, "id": "a0", "text": "under way"})
        await matrix.met(held, case)
        posts = case.posts()
        case.store.write_text("{")
        for name in ("a1", "a2"):
            answer = await case.deliver(name, {**to, "id": name, "text": "hello"})
            assert ("retry", None) == (answer["outcome"], answer["expires_at"])
        await until(lambda: "deliveries.db" in case.block.get("reason", ""), "the reason")
        assert ("disabled", posts) == (case.block["state"], case.posts())
        matrix.let_go(held)


async def test_an_older_record_without_its_worker_id_mints_nothing(tmp_path: Path) -> None:
    """``deliveries.json`` alone: not offered, the sentence names it, no new store is made."""
    async with late(tmp_path) as case:
        workspace = case.store.parent
        workspace.mkdir()
        older = workspace / "deliveries.json"
        older.write_text(json.dumps({"version": 1, "worker_id": "0" * 32, "deliveries": {}}))
        kept = older.read_bytes()
        await case.start()
        await until(lambda: "worker-id" in case.block.get("reason", ""), "the reason")
        assert ("disabled", "down") == (case.block["state"], case.block["listener"])
        assert "said: hello" == await case.ask("hello")
        assert None is case.notes("told.jsonl")[-1]["binding"]
        assert not case.store.exists()
        assert kept == older.read_bytes()


async def test_an_older_record_that_disagrees_on_its_worker_mints_nothing(tmp_path: Path) -> None:
    """Two files, two worker ids: not offered, the sentence names both ids, the files stay."""
    async with late(tmp_path) as case:
        workspace = case.store.parent
        workspace.mkdir()
        ours, theirs = "a" * 32, "b" * 32
        (workspace / "worker-id").write_text(f"{ours}\n")
        older = {"version": 1, "worker_id": theirs, "deliveries": {}}
        (workspace / "deliveries.json").write_text(json.dumps(older))
        await case.start()
        await until(lambda: theirs in case.block.get("reason", ""), "the reason")
        assert ours in case.block["reason"]
        assert ("disabled", "down") == (case.block["state"], case.block["listener"])
        assert not case.store.exists()
        assert older == json.loads((workspace / "deliveries.json").read_text())
