"""The tables of sections 7, 9 and 10 over a real agent, the real relay client and the relay."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.e2e.deliveries_faults import matrix
from tests.e2e.deliveries_faults.rig import Json, Late, late, link
from tests.e2e.faults.stand import PLACE, UPLOAD
from tests.support.worker import until

LATER = ((b"retry-after", b"60"),)
"""Longer than a run waits by itself, so that the agent is told at once."""


async def send(case: Late, to: Json, ident: str, **more: Any) -> Json:
    """A text under this id, or what ``more`` says."""
    given = {"text": f"text of {ident}", **more}
    return await case.deliver(f"{ident}-{len(case.notes('told.jsonl'))}", body(to, ident, given))


def body(to: Json, ident: str, more: Json) -> Json:
    """A request's params."""
    return {"id": ident, "binding": to["binding"], **more}


async def texts_of(case: Late) -> list[str]:
    """The late texts of the room."""
    return [message.body for message in await case.late()]


# --- section 10: what the relay answers


async def test_what_each_refusal_of_the_relay_comes_to(tmp_path: Path) -> None:
    """Final with its reason at the first answer; where the relay refused, nothing is posted."""
    async with late(tmp_path) as case:
        await case.listening()
        to = await case.told()
        for name, status, said, reason in (
            ("unknown", 409, b'{"state":"unknown"}', "unknown"),
            ("conflict", 409, b'{"state":"conflict"}', "conflict"),
            ("large", 413, b"{}", "rejected"),
            ("forbidden", 403, b"{}", "rejected"),
            ("room", 404, b"{}", "rejected"),
            ("bad", 400, b"{}", "rejected"),
            ("unfit", 422, b"{}", "rejected"),
        ):
            case.plan(PLACE, status=status, body=said)
            answer = await send(case, to, name)
            told = answer["code"], answer["outcome"], answer["reason"], answer["delivered"]
            assert (name, -32011, "final", reason, []) == (name, *told)
            assert answer["expires_at"]
            entry = await case.ended(name)
            assert ("final", reason) == (entry["outcome"], entry["reason"])
        # only the one that may have been sent is worth a word in the room
        assert ["the text may not have been sent."] == [
            text.partition("later: ")[2] for text in await texts_of(case)
        ]


async def test_what_may_pass_is_a_retry_and_never_rejected(tmp_path: Path) -> None:
    """The wait the relay asked for is told; a later run posts each once."""
    async with late(tmp_path) as case:
        await case.listening()
        to = await case.told()
        names = []
        for status in (408, 429, 500, 502, 503, 504):
            case.plan(PLACE, status=status, headers=LATER)
            answer = await send(case, to, f"s{status}")
            told = answer["code"], answer["outcome"], answer["retry_after_s"]
            assert (status, -32010, "retry", 60) == (status, *told)
            assert answer["expires_at"]
            names.append(f"s{status}")
        assert [] == await case.late()
        await case.again()  # a start does not wait for what an earlier run was asked to
        await case.came(len(names))
        assert {f"text of {name}" for name in names} == set(await texts_of(case))


async def test_what_says_nothing_is_asked_again(tmp_path: Path) -> None:
    """No answer, garbage, "still running": the same key again, and one post in the end."""
    async with late(tmp_path) as case:
        await case.listening()
        to = await case.told()
        for name, how in (
            ("html", {"status": 200, "body": b"<html>Welcome</html>"}),
            ("half", {"status": 200, "body": b'{"ok":true,"event_id":"$'}),
            ("running", {"status": 409, "body": b'{"state":"running"}'}),
            ("cut", {"cut": True}),
        ):
            case.plan(PLACE, **how)
            answer = await send(case, to, name)
            assert (name, "created") == (name, answer["delivered"][0]["status"])
        for name, path in (("lost", PLACE), ("reset", PLACE), ("file", UPLOAD)):
            case.plan(path, drop=True, reset=name == "reset")
            files = [{"uri": link(to["export_dir"], "a.txt", "content")}] if name == "file" else []
            answer = await send(case, to, name, files=files)
            assert (name, "replayed") == (name, answer["delivered"][0]["status"])
        found = await case.late()
        assert 8 == len(found) == len({m.event_id for m in found})


async def test_a_401_is_not_the_deliverys_fault(tmp_path: Path) -> None:
    """It is tried again under its key, and the worker stays connected."""
    async with late(tmp_path) as case:
        await case.listening()
        to = await case.told()
        case.plan(PLACE, status=401)
        posts = case.posts()
        answer = await send(case, to, "a1")
        assert ("delivered", posts + 2) == (answer["outcome"], case.posts())
        assert 1 == len(await case.late())
        await until(case.worker.connected, "a connected worker")


async def test_a_post_without_its_echo_is_posted_and_withdraws(tmp_path: Path) -> None:
    """The last part: Delivered (unechoed). Not the last: the rest waits, and a live listener
    answers new ids with Retry; it is started again without the declaration."""
    async with late(tmp_path) as case:
        await case.listening()
        to = await case.told()
        held = case.plan(PLACE, hold=trio.Event())
        case.send("held", body(to, "held", {"text": "held"}))
        await matrix.met(held, case)
        case.plan(UPLOAD, status=200, body=b'{"ok":true,"event_id":"$unechoed"}')
        uri = link(to["export_dir"], "a.txt", "content")
        waits = await send(case, to, "two", files=[{"uri": uri}])
        assert ("retry", "posted") == (
            waits["outcome"],
            (case.entry("two") or {})["parts"][0]["state"],
        )
        assert "unechoed" == (case.entry("two") or {})["parts"][0]["status"]
        refused = await send(case, to, "new")
        assert ("retry", None) == (refused["outcome"], case.entry("new"))
        listeners = len(case.notes("listeners.jsonl"))
        matrix.let_go(held)
        assert "delivered" == (await case.answer("held"))["outcome"]
        await until(lambda: case.block["listener"] in ("restarting", "up"), "a listener")
        await until(lambda: "withdrawn" == case.block["state"], "the word")
        assert listeners == len(case.notes("listeners.jsonl"))
        await case.ask("hello")
        assert None is case.notes("told.jsonl")[-1]["binding"]
        # a probe that passes: the rest goes out; a restart asks at once
        await case.again()
        await case.came(2)
        assert "delivered" == (await case.ended("two"))["outcome"]


async def test_a_last_part_without_its_echo_is_delivered(tmp_path: Path) -> None:
    """It did post; only the next one waits."""
    async with late(tmp_path) as case:
        await case.listening()
        to = await case.told()
        case.plan(PLACE, status=200, body=b'{"ok":true,"event_id":"$unechoed"}')
        answer = await send(case, to, "a1")
        part = {"part": 0, "event_id": "$unechoed", "status": "unechoed"}
        assert ("delivered", [part]) == (answer["outcome"], answer["delivered"])
        await until(lambda: "withdrawn" == case.block["state"], "the word")


# --- sections 7 and 9: answers, in their order


async def test_broken_requests_name_their_field(tmp_path: Path) -> None:
    """-32602, nothing recorded, nothing posted: before anything else is looked at."""
    async with late(tmp_path) as case:
        await case.listening()
        to = await case.told()
        posts = case.posts()
        for name, params, field in (
            ("no-id", {"binding": to["binding"], "text": "x"}, "id"),
            ("binding", {"id": "x", "binding": "no binding", "text": "x"}, "binding"),
            ("blank", {"id": "x", "binding": to["binding"], "text": "  "}, "text"),
            ("huge", {"id": "x", "binding": to["binding"], "text": "x" * 10_485_760}, "text"),
            ("files", body(to, "x", {"files": [{"uri": "file:///a"}] * 11}), "files"),
            ("http", body(to, "x", {"files": [{"uri": "http://h/a"}]}), "uri"),
        ):
            answer = await case.deliver(name, params)
            told = answer["code"], answer["outcome"], answer["reason"]
            assert (name, -32602, "final", "rejected") == (name, *told)
            assert field in answer["detail"]
        assert (posts, None) == (case.posts(), case.entry("x"))


async def test_a_known_id_is_looked_at_before_its_binding(tmp_path: Path) -> None:
    """Other content or binding: conflict, naming the recorded one. The same: its stored answer."""
    async with late(tmp_path) as case:
        relay = case.relay
        two = await relay.relay.create_room("Two", relay.owner, (relay.agent,))
        await case.listening()
        to, other = await case.told(), await case.told(room=two)
        first = await send(case, to, "a1", text="hello")
        posts = case.posts()
        changed = await case.deliver("text", body(to, "a1", {"text": "hello!"}))
        assert ("final", "conflict") == (changed["outcome"], changed["reason"])
        moved = await case.deliver("moved", body(other, "a1", {"text": "hello"}))
        assert ("conflict", to["binding"]) == (moved["reason"], moved["binding"])
        with closing(sqlite3.connect(case.store, timeout=30)) as store, store:
            store.execute("UPDATE bindings SET expires = 1 WHERE id = ?", (to["binding"],))
        assert first == await case.deliver("again", body(to, "a1", {"text": "hello"}))
        late_id = await case.deliver("new", body(to, "a2", {"text": "hello"}))
        assert ("final", "rejected") == (late_id["outcome"], late_id["reason"])
        assert posts == case.posts()


async def test_a_lost_response_whose_binding_expired_meanwhile(tmp_path: Path) -> None:
    """Killed after the post, the binding runs out, the same id again: its one post is found."""
    async with late(tmp_path) as case:
        await case.listening()
        to = await case.told()
        held = case.plan(PLACE, hold=trio.Event(), drop=True)
        params = body(to, "a1", {"text": "hello"})
        case.send("first", params)
        await matrix.killed_at(case, held)
        with closing(sqlite3.connect(case.store)) as store, store:
            store.execute("UPDATE bindings SET expires = 1")
        await case.listening()
        answer = await case.deliver("resend", params)
        assert ("delivered", "replayed") == (answer["outcome"], answer["delivered"][0]["status"])
        assert ["hello"] == await texts_of(case)
        assert "rejected" == (await case.deliver("new", {**params, "id": "a2"}))["reason"]


async def test_resends_of_a_running_delivery_are_one_run(tmp_path: Path) -> None:
    """All get its answer; there is one post."""
    async with late(tmp_path) as case:
        await case.listening()
        to = await case.told()
        held, posts = case.plan(PLACE, hold=trio.Event()), case.posts()
        for number in range(4):
            case.send(f"n{number}", body(to, "a1", {"text": "hello"}))
        await matrix.met(held, case)
        matrix.let_go(held)
        answers = [await case.answer(f"n{number}") for number in range(4)]
        assert all(answers[0] == answer for answer in answers)
        assert (posts + 1, "delivered") == (case.posts(), answers[0]["outcome"])


async def test_a_binding_of_nobody_or_of_another_worker(tmp_path: Path) -> None:
    """``not_mine`` for another worker's, ``rejected`` for one that this one never made."""
    async with late(tmp_path) as case:
        await case.listening()
        to = await case.told()
        mine = to["binding"].partition(".")[0]
        for name, binding, reason in (
            ("theirs", f"{'0' * 32}.{'1' * 32}", "not_mine"),
            ("missing", f"{mine}.{'1' * 32}", "rejected"),
        ):
            answer = await case.deliver(name, {"id": name, "binding": binding, "text": "x"})
            told = answer["outcome"], answer["reason"], answer["expires_at"]
            assert (name, "final", reason, None) == (name, *told)
            assert None is case.entry(name)


async def test_a_bad_file_is_found_before_the_first_post(tmp_path: Path) -> None:
    """The good one beside it is not posted, and the text is not."""
    async with late(tmp_path) as case:
        await case.listening()
        to = await case.told()
        posts = case.posts()
        good = {"uri": link(to["export_dir"], "good.txt", "good")}
        missing = {"uri": link(to["export_dir"], "missing.txt")}
        answer = await send(case, to, "a1", files=[good, missing])
        assert ("final", "rejected") == (answer["outcome"], answer["reason"])
        assert "part 1 (missing.txt): it is not there" == answer["detail"]
        assert (posts, "final") == (case.posts(), (await case.ended("a1"))["outcome"])


@pytest.mark.parametrize(
    ("path", "how", "reason"),
    [
        (PLACE, {"status": 503, "headers": LATER}, "rejected"),
        (UPLOAD, {"drop": True, "hold": True}, "unknown"),
    ],
    ids=["not tried", "may have been posted"],
)
async def test_a_continued_delivery_whose_file_is_gone(
    tmp_path: Path, path: str, how: Json, reason: str
) -> None:
    """Rejected where it was never posted; unknown where it may have been."""
    async with late(tmp_path) as case:
        await case.listening()
        to = await case.told()
        uri = link(to["export_dir"], "a.txt", "content")
        params = {"id": "a1", "binding": to["binding"], "files": [{"uri": uri}]}
        if "hold" in how:
            held = case.plan(UPLOAD, drop=True, hold=trio.Event())
            case.send("first", params)
            await matrix.killed_at(case, held)
        else:
            case.plan(UPLOAD, **how)
            assert "retry" == (await case.deliver("first", params))["outcome"]
            await case.kill()
        (Path(to["export_dir"]) / "a.txt").unlink()
        await case.listening()
        assert reason == (await case.ended("a1"))["reason"]
        assert reason == (await case.deliver("resend", params))["reason"]


@pytest.mark.parametrize(
    ("unsure", "reason", "word"),
    [
        (False, "expired", "could not be sent"),
        (True, "unknown", "may not have been sent"),
    ],
)
async def test_23_hours_after_first_seen(
    tmp_path: Path, unsure: bool, reason: str, word: str
) -> None:
    """``expired``, or ``unknown`` where a response was lost; one line in the room says so."""
    async with late(tmp_path) as case:
        await case.listening()
        to = await case.told()
        params = body(to, "a1", {"text": "hello"})
        if unsure:
            held = case.plan(PLACE, hold=trio.Event(), cut=True)
            case.send("first", params)
            await matrix.killed_at(case, held)
        else:
            case.plan(PLACE, status=503, headers=LATER)
            assert "retry" == (await case.deliver("first", params))["outcome"]
            await case.kill()
        with closing(sqlite3.connect(case.store)) as store, store:
            store.execute("UPDATE deliveries SET first_seen = first_seen - ?", (23 * 3600,))
        await case.listening()
        assert reason == (await case.ended("a1"))["reason"]
        answer = await case.deliver("resend", params)
        assert ("final", reason, []) == (answer["outcome"], answer["reason"], answer["delivered"])
        (notice,) = await texts_of(case)
        assert notice.endswith(f"the text {word}.")


async def test_first_seen_that_cannot_be_written_is_a_retry(tmp_path: Path) -> None:
    """Without ``expires_at``; nothing is posted before the record can be written."""
    async with late(tmp_path) as case:
        await case.listening()
        to = await case.told()
        posts = case.posts()
        with case.store_held():
            case.send("first", body(to, "a1", {"text": "hello"}))
            await until(lambda: "delivery=a1 retry" in case.worker.output(), "a Retry")
            assert posts == case.posts()
        assert None is case.entry("a1")


async def test_ids_that_joining_would_confuse(tmp_path: Path) -> None:
    """``"x1",0`` and ``"x",10``, other alphabets, two normal forms: each a delivery of its own."""
    async with late(tmp_path) as case:
        await case.listening()
        to = await case.told()
        ids = ["x1", "x", "x10", "ключ", "\u00e9", "e\u0301", "😀", "a/b", "notice"]
        for number, ident in enumerate(ids):
            answer = await case.deliver(f"n{number}", body(to, ident, {"text": f"number {number}"}))
            assert (ident, "created") == (ident, answer["delivered"][0]["status"])
        assert [f"number {number}" for number in range(len(ids))] == await texts_of(case)


async def test_the_longest_text_arrives_whole(tmp_path: Path) -> None:
    """100,000 code units."""
    async with late(tmp_path) as case:
        await case.listening()
        to = await case.told()
        answer = await send(case, to, "a1", text="x" * 100_000)
        assert "delivered" == answer["outcome"], answer
        assert ["x" * 100_000] == await texts_of(case)


async def test_a_turns_connection_takes_no_deliveries(tmp_path: Path) -> None:
    """-32601 for the very request that the listener gets Delivered for."""
    async with late(tmp_path) as case:
        await case.listening()
        to = await case.told()
        params = body(to, "a1", {"text": "hello"})
        case.send("turn-try", params)
        assert "turn try: answered" == await case.ask("turn try")
        assert -32601 == (await case.answer("turn-try"))["code"]
        assert [] == await case.late()
        assert "delivered" == (await case.deliver("try", params))["outcome"]


async def test_a_word_at_once(tmp_path: Path) -> None:
    """``_ag2/notify``, on a turn's connection and on the listener's."""
    async with late(tmp_path) as case:
        await case.listening()
        to = await case.told()
        word = {"destination": to["destination"], "text": "a word"}
        case.send("turn-word", word, "_ag2/notify")
        await case.ask("turn word")
        assert {"posted": True} == without_empty(await case.answer("turn-word"))
        case.send("word", {**word, "text": "another"}, "_ag2/notify")
        assert {"posted": True} == without_empty(await case.answer("word"))
        assert ["a word", "another"] == await texts_of(case)


def without_empty(answer: Json) -> Json:
    """An answer's members that say something."""
    return {name: value for name, value in answer.items() if value not in (None, "")}
