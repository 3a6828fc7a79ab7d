"""What the room sees and the agent is told for each answer of the relay (§7, §10)."""

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from tests.shell.delivery.rig import LATER, Answer, posted, put, running
from tests.support.fake_broker import open_broker


def _key(worker_id: str, name: str, part: int | str) -> str:
    return hashlib.sha256(rfc8785.dumps([worker_id, name, part])).hexdigest()


async def test_files_then_the_text_each_under_its_key(tmp_path: Path) -> None:
    """Every part is named in the answer; the keys are of worker, id and part."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        files = [
            put(meta, "a b.txt", b"alpha") | {"name": "Report", "mimeType": "text/plain"},
            put(meta, "c.bin", b"\0\1"),
        ]
        told = await rig.send("build-4711", meta.binding, "Done.", files=files)
        assert "delivered" == told["outcome"]
        assert [(0, "created"), (1, "created"), (2, "created")] == [
            (part["part"], part["status"]) for part in told["delivered"]
        ]
        assert told["expires_at"].endswith("Z")
        assert ["Report.txt", "c.bin"] == [file["filename"] for file in broker.files]
        assert b"alpha" == base64.b64decode(broker.files[0]["content_b64"])
        assert ["Done."] == broker.bodies("!r:h")
        posts = broker.of("media") + broker.of("messages")
        assert [_key(rig.store.worker_id, "build-4711", n) for n in range(3)] == [
            post.headers["idempotency-key"] for post in posts
        ]
        assert rig.entry("build-4711")["text"] is None


async def test_a_resend_gets_the_stored_answer(tmp_path: Path) -> None:
    """Nothing is posted again, also after a restart and after the files are gone."""
    async with open_broker() as broker:
        async with running(broker, tmp_path) as rig:
            meta = await rig.bind()
            files = [put(meta, "a.txt")]
            first = await rig.send("x", meta.binding, "t", files=files)
            assert first == await rig.send("x", meta.binding, "t", files=files)
        (Path(meta.export_dir) / "a.txt").unlink()
        async with running(broker, tmp_path) as rig:
            assert first == await rig.send("x", meta.binding, "t", files=files)
        assert ["t", "a.txt"] == posted(rig)


@pytest.mark.parametrize("route", ["messages", "media"])
@pytest.mark.parametrize(
    "lost",
    [
        Answer(apply=True, drop=True),
        Answer(502, apply=True),
        Answer(504, apply=True),
        Answer(500, apply=True),
        Answer(408, apply=True),
        Answer(body=b"<html>hello</html>", apply=True),
        Answer(body=b'{"ok": tru', apply=True),
        Answer(body={"ok": True}, apply=True),
        Answer(body={"ok": False, "event_id": "$x"}, apply=True),
        Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}", apply=True),
    ],
)
async def test_a_lost_response_is_asked_for_again(tmp_path: Path, route: str, lost: Answer) -> None:
    """The relay says what became of the first attempt; the room has it once."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        broker.script(route, lost)
        more: dict[str, Any] = {"files": [put(meta, "a.txt")]} if route == "media" else {}
        told = await rig.send("x", meta.binding, None if more else "t", **more)
        assert ["replayed"] == [part["status"] for part in told["delivered"]]
        assert 1 == len(posted(rig))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(400), "rejected"),
        (Answer(403), "rejected"),
        (Answer(404), "rejected"),
        (Answer(413), "rejected"),
        (Answer(422), "rejected"),
        (Answer(409, {"state": "unknown"}), "unknown"),
        (Answer(409, {"state": "conflict"}), "conflict"),
    ],
)
async def test_a_refusal_is_final(tmp_path: Path, answer: Answer, reason: str) -> None:
    """No second attempt, no cooldown of the room, and the answer stays the same."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        broker.script("messages", answer)
        told = await rig.send("x", meta.binding, "t")
        assert (-32011, "final", reason) == (told["code"], told["outcome"], told["reason"])
        assert told["expires_at"].endswith("Z")
        again = await rig.send("x", meta.binding, "t")
        assert told == again
        assert 0.0 == rig.relay.rooms.cooling("!r:h")
        if reason == "unknown":
            await rig.until(lambda: rig.entry("x")["notice"] == "posted")
            assert [
                "Part of a result that was to arrive here later: the text may not have been sent."
            ] == posted(rig)
        else:
            assert [] == posted(rig)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(429, headers=LATER),
        Answer(500, headers=LATER),
        Answer(503, headers=LATER),
        Answer(409, {"state": "running"}, headers=LATER),
    ],
)
async def test_what_may_pass_is_retried_by_the_worker(tmp_path: Path, answer: Answer) -> None:
    """The agent is told Retry with the relay's time; a resend is answered meanwhile."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        broker.script("messages", answer)
        told = await rig.send("x", meta.binding, "t")
        assert (-32010, "retry", 60) == (told["code"], told["outcome"], told["retry_after_s"])
        assert told["expires_at"].endswith("Z")
        assert told == await rig.send("x", meta.binding, "t")
        assert 1 == len(broker.of("messages"))
        assert 0.0 == rig.relay.rooms.cooling("!r:h")


async def test_a_rejected_bearer_is_told_to_the_auth_recovery(tmp_path: Path) -> None:
    """A 401 asks for a look at the credential, and the delivery goes on."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        broker.script("messages", Answer(401))
        suspected = rig.relay._bearer._suspected
        assert "delivered" == (await rig.send("x", meta.binding, "t"))["outcome"]
        assert suspected.is_set()


async def test_a_cooldown_of_the_room_is_waited_for(tmp_path: Path) -> None:
    """Nothing is sent meanwhile; the keyed posts caused none and lift none."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        broker.script("room", Answer(403))
        assert not (await rig.relay.rooms.message("!r:h", "x")).ok
        told = await rig.send("x", meta.binding, "t")
        assert "retry" == told["outcome"]
        assert 290 <= told["retry_after_s"] <= 300
        assert [] == broker.of("messages")


async def test_a_refusal_after_a_part_is_told_in_the_room_once(tmp_path: Path) -> None:
    """The notice names what is missing, under a key of its own; the answer says what is there."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        broker.script("messages", Answer(413))
        told = await rig.send("x", meta.binding, "t", files=[put(meta, "a.txt")])
        assert "rejected" == told["reason"]
        assert [0] == [part["part"] for part in told["delivered"]]
        await rig.until(lambda: rig.entry("x")["notice"] == "posted")
        line = "Part of a result that was to arrive here later: the text could not be sent."
        assert [line] == broker.bodies("!r:h")
        key = broker.of("messages")[-1].headers["idempotency-key"]
        assert _key(rig.store.worker_id, "x", "notice") == key


async def test_a_lost_response_then_a_refusal_is_unknown(tmp_path: Path) -> None:
    """It may be in the room: never called rejected."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        broker.script("messages", Answer(drop=True), Answer(404))
        assert "unknown" == (await rig.send("x", meta.binding, "t"))["reason"]


async def test_a_post_without_its_echo_withdraws(tmp_path: Path) -> None:
    """The part did post; the others wait for a probe that passes; new requests get Retry."""
    async with open_broker() as broker:
        bare = Answer(body={"ok": True, "event_id": "$bare"})
        async with running(broker, tmp_path, recheck_s=0.5) as rig:
            meta = await rig.bind()
            broker.script("media", bare)
            broker.always("capabilities", Answer(404))
            told = await rig.send("x", meta.binding, "t", files=[put(meta, "a.txt")])
            assert "retry" == told["outcome"]
            assert not rig.desk.enabled
            assert "retry" == (await rig.send("y", meta.binding, "t"))["outcome"]
            await rig.until(lambda: rig.blocks and rig.blocks[-1].state == "withdrawn")
            assert [] == broker.of("messages")
            broker.keyed()
            assert await rig.desk.changed(False)
            await rig.until(lambda: (rig.entry("x") or {}).get("outcome") == "delivered")
            told = await rig.send("x", meta.binding, "t", files=[{"uri": _uri(meta, "a.txt")}])
            assert ["unechoed", "created"] == [part["status"] for part in told["delivered"]]


async def test_the_last_part_without_its_echo_is_delivered(tmp_path: Path) -> None:
    """It is in the room; only the next one has to wait."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        broker.script("messages", Answer(body={"ok": True, "event_id": "$bare"}))
        told = await rig.send("x", meta.binding, "t")
        assert ["unechoed"] == [part["status"] for part in told["delivered"]]
        assert not rig.desk.enabled


async def test_ids_that_joining_would_confuse_are_different(tmp_path: Path) -> None:
    """Also in other normal forms of the same letter."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        names = ["x1", "x", "x1,0", "\u00e9", "e\u0301", "☃", '["x",0]']
        for name in names:
            assert "delivered" == (await rig.send(name, meta.binding, "t"))["outcome"]
        assert len(names) == len(broker.bodies("!r:h"))


def _uri(meta: Any, name: str) -> str:
    return (Path(meta.export_dir) / name).as_uri()
