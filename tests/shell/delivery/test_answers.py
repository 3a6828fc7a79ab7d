"""The order in which an answer is decided, and what each of them says (§7, §9)."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import trio

from agentconnect.core.task import SessionKey, Tier
from tests.shell.delivery.rig import BOB, LATER, OWNER, Answer, Wall, damage, put, running
from tests.support.fake_broker import open_broker

DAY_S = 86_400.0


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"binding": "w.r", "text": "t"}, "id"),
        ({"id": "a\nb", "binding": "w.r", "text": "t"}, "id"),
        ({"id": "x", "text": "t"}, "binding"),
        ({"id": "x", "binding": "../x", "text": "t"}, "binding"),
        ({"id": "x", "binding": "w.r"}, "text"),
        ({"id": "x", "binding": "w.r", "text": "x" * 100_001}, "text"),
        ({"id": "x", "binding": "w.r", "text": "\ud800"}, "text"),
        ({"id": "x", "binding": "w.r", "files": [{"uri": "http://h/a"}]}, "files[0].uri"),
        ({"id": "x", "binding": "w.r", "files": [{"uri": "file://h/a"}]}, "files[0].uri"),
    ],
)
async def test_a_request_that_breaks_a_rule(
    tmp_path: Path, params: dict[str, Any], field: str
) -> None:
    """-32602 names the field; nothing is recorded or posted."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        told = await rig.send_raw(json.dumps(params))
        assert (-32602, "final", "rejected") == (told["code"], told["outcome"], told["reason"])
        assert field == told["field"]
        assert told["expires_at"] is None
        assert rig.entry("x") is None
        assert [] == broker.of("messages") + broker.of("media")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[1]",
        b'"x"',
        b"{",
        b"\xff\xfe",
        b"[" * 200_000,
        b'{"id":' * 50_000,
        b'{"id":"x","id":"y","binding":"w.r","text":"t"}',
        b'{"id":"x","binding":"w.r","text":"t","n":' + b"9" * 100_000 + b"}",
        b'{"id":{"$":1},"binding":["w"],"text":7,"files":"all"}',
    ],
)
async def test_hostile_json(tmp_path: Path, raw: bytes) -> None:
    """Whatever comes is answered, and no traceback is."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        told = await rig.send_raw(raw)
        assert told["code"] in (-32602, -32011)
        assert "final" == told["outcome"]


async def test_a_text_of_ten_mebibytes(tmp_path: Path) -> None:
    """Refused by its length, without holding up another delivery."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        told: dict[str, Any] = {}

        async def send_big() -> None:
            told["big"] = await rig.send("big", meta.binding, "x" * (10 * 1024 * 1024))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_big)
            assert "delivered" == (await rig.send("small", meta.binding, "t"))["outcome"]
        assert (-32602, "text") == (told["big"]["code"], told["big"]["field"])


async def test_the_longest_text(tmp_path: Path) -> None:
    """100,000 code units go out whole."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        text = "😀" * 50_000
        assert "delivered" == (await rig.send("x", meta.binding, text))["outcome"]
        assert [text] == broker.bodies("!r:h")


async def test_an_unreadable_store_is_retry_before_anything_else(tmp_path: Path) -> None:
    """Never taken for an empty one; it heals without a restart."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        first = await rig.send("x", meta.binding, "t")
        await rig.store.close()
        whole = damage(rig.layout.deliveries)
        for name in ("x", "new"):
            told = await rig.send(name, meta.binding, "t")
            assert (-32010, None) == (told["code"], told["expires_at"])
        assert not rig.desk.enabled
        assert await rig.desk.destinations.delivery(OWNER) is None
        rig.layout.deliveries.write_bytes(whole)
        assert first == await rig.send("x", meta.binding, "t")
        assert rig.desk.enabled
        assert 1 == len(broker.of("messages"))


async def test_a_store_taken_away_is_retry(tmp_path: Path) -> None:
    """Nothing is minted in its place; put back, it goes on."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        await rig.send("x", meta.binding, "t")
        await rig.store.close()
        away = rig.layout.deliveries.rename(tmp_path / "away.db")
        told = await rig.send("x", meta.binding, "t")
        assert (-32010, None) == (told["code"], told["expires_at"])
        assert not rig.layout.deliveries.exists()
        away.rename(rig.layout.deliveries)
        assert "delivered" == (await rig.send("x", meta.binding, "t"))["outcome"]


async def test_a_known_id_with_other_content_is_a_conflict(tmp_path: Path) -> None:
    """Other binding: the recorded one is named; other text or files: just that."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        other = await rig.bind(SessionKey(room="!other:h", tier=Tier.OWNER))
        await rig.send("x", meta.binding, "t")
        told = await rig.send("x", other.binding, "t")
        assert ("conflict", meta.binding) == (told["reason"], told["binding"])
        told = await rig.send("x", meta.binding, "u")
        assert "conflict" == told["reason"]
        assert "binding" not in told
        assert ["t"] == broker.bodies("!r:h") + broker.bodies("!other:h")


async def test_a_known_id_is_answered_whatever_became_of_its_binding(tmp_path: Path) -> None:
    """Expired: new ids are refused, the old one has its answer; lost response included."""
    async with open_broker() as broker:
        wall = Wall()
        async with running(broker, tmp_path, wall=wall) as rig:
            meta = await rig.bind()
            first = await rig.send("x", meta.binding, "t")
        wall.ahead_s = 29 * DAY_S + 3600
        async with running(broker, tmp_path, wall=wall) as rig:
            assert first == await rig.send("x", meta.binding, "t")
            wall.ahead_s += DAY_S / 2 + 1
            # the entry and the binding end together after 30 days: the entry is asked first
            told = await rig.send("new", meta.binding, "t")
            assert "delivered" == told["outcome"]
            wall.ahead_s += DAY_S
            told = await rig.send("newer", meta.binding, "t")
            assert ("rejected", None) == (told["reason"], told["expires_at"])
            assert first == await rig.send("x", meta.binding, "t")


async def test_another_workers_binding_is_not_mine(tmp_path: Path) -> None:
    """Without a record of the id; with one, the record counts."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        told = await rig.send("x", f"{'0' * 32}.{'1' * 32}", "t")
        assert ("not_mine", None) == (told["reason"], told["expires_at"])
        told = await rig.send("x", f"{rig.store.worker_id}.{'1' * 32}", "t")
        assert ("rejected", None) == (told["reason"], told["expires_at"])
        assert rig.entry("x") is None


@pytest.mark.parametrize(
    ("again", "taken"),
    [
        ({"collaborators": frozenset({"@bob:h"}), "unchecked": True}, True),
        ({"collaborators": frozenset({"@bob:h"}), "unchecked": False}, False),
        ({"collaborators": frozenset(), "unchecked": True}, False),
    ],
)
async def test_a_collaborators_binding_after_a_restart(
    tmp_path: Path, again: dict[str, Any], taken: bool
) -> None:
    """Removed from the list, or the opt-out unset: nothing new; a known id has its answer."""
    async with open_broker() as broker:
        bobs: dict[str, Any] = {"collaborators": frozenset({"@bob:h"}), "unchecked": True}
        async with running(broker, tmp_path, **bobs) as rig:
            meta = await rig.bind(BOB)
            first = await rig.send("x", meta.binding, "t")
            broker.script("messages", Answer(429, headers=LATER))
            assert "retry" == (await rig.send("open", meta.binding, "u"))["outcome"]
        async with running(broker, tmp_path, **again) as rig:
            assert first == await rig.send("x", meta.binding, "t")
            told = await rig.send("new", meta.binding, "t")
            assert ("delivered" if taken else "final") == told["outcome"]
            assert taken or told["reason"] == "rejected"
            # already accepted: it completes
            await rig.until(lambda: rig.entry("open")["outcome"] == "delivered")


async def test_no_binding_for_a_collaborator_without_the_opt_out(tmp_path: Path) -> None:
    """A room's own flag decides nothing."""
    async with (
        open_broker() as broker,
        running(broker, tmp_path, collaborators=frozenset({"@bob:h"})) as rig,
    ):
        assert await rig.desk.destinations.delivery(BOB) is None
        assert await rig.desk.destinations.delivery(OWNER) is not None


async def test_a_turn_that_is_not_attested_drops_the_binding(tmp_path: Path) -> None:
    """Only that sender's, only in that room; the next Turn gets a new one."""
    bobs: dict[str, Any] = {"collaborators": frozenset({"@bob:h"}), "unchecked": True}
    async with open_broker() as broker, running(broker, tmp_path, **bobs) as rig:
        elsewhere = SessionKey(room="!other:h", tier=Tier.GUEST, sender="@bob:h")
        here, there, owners = await rig.bind(BOB), await rig.bind(elsewhere), await rig.bind()
        assert rig.desk.destinations.folder_of(BOB) == here.export_dir
        await rig.desk.destinations.unattested("!r:h", "@bob:h")
        assert "rejected" == (await rig.send("a", here.binding, "t"))["reason"]
        assert "delivered" == (await rig.send("b", there.binding, "t"))["outcome"]
        assert "delivered" == (await rig.send("c", owners.binding, "t"))["outcome"]
        assert rig.desk.destinations.folder_of(BOB) is None
        again = await rig.bind(BOB)
        assert here.binding != again.binding
        assert "delivered" == (await rig.send("d", again.binding, "t"))["outcome"]


async def test_a_drop_that_cannot_be_written_down_is_not_forgotten(tmp_path: Path) -> None:
    """The store comes back: the binding goes before anything is decided."""
    bobs: dict[str, Any] = {"collaborators": frozenset({"@bob:h"}), "unchecked": True}
    async with open_broker() as broker, running(broker, tmp_path, **bobs) as rig:
        meta = await rig.bind(BOB)
        await rig.store.close()
        whole = damage(rig.layout.deliveries)
        await rig.desk.destinations.unattested("!r:h", "@bob:h")
        rig.layout.deliveries.write_bytes(whole)
        assert "rejected" == (await rig.send("a", meta.binding, "t"))["reason"]


async def test_a_turn_renews_its_binding(tmp_path: Path) -> None:
    """The same one with a fresh end, its folder 0700; a task without a room gets none."""
    async with open_broker() as broker:
        wall = Wall()
        async with running(broker, tmp_path, wall=wall) as rig:
            first = await rig.bind()
            assert 0o700 == os.stat(first.export_dir).st_mode & 0o777  # noqa: PTH116
            assert Path(first.export_dir).parent == rig.layout.export
            wall.ahead_s = DAY_S
            again = await rig.bind()
            assert (first.binding, first.export_dir) == (again.binding, again.export_dir)
            assert first.expires_at < again.expires_at
            assert first.binding.startswith(f"{rig.store.worker_id}.")
            roomless = SessionKey(room="task:t1", tier=Tier.OWNER)
            assert await rig.desk.destinations.delivery(roomless) is None


async def test_the_record_is_full(tmp_path: Path) -> None:
    """New ids get Retry while nothing may go; known ones their answer."""
    async with open_broker() as broker, running(broker, tmp_path, max_entries=2) as rig:
        meta = await rig.bind()
        for name in ("a", "b"):
            assert "delivered" == (await rig.send(name, meta.binding, "t"))["outcome"]
        told = await rig.send("c", meta.binding, "t")
        assert ("retry", None) == (told["outcome"], told["expires_at"])
        rig.wall.ahead_s = DAY_S + 60
        assert "delivered" == (await rig.send("c", meta.binding, "t"))["outcome"]
        assert rig.entry("a") is None


async def test_a_bad_file_is_final_before_the_first_post(tmp_path: Path) -> None:
    """Recorded as rejected; nothing was posted, no notice is owed."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        files = [put(meta, "a.txt"), {"uri": (Path(meta.export_dir) / "none.txt").as_uri()}]
        told = await rig.send("x", meta.binding, "t", files=files)
        assert ("rejected", []) == (told["reason"], told["delivered"])
        assert told["detail"].endswith("it is not there")
        assert [] == broker.of("media") + broker.of("messages")
        assert "" == rig.entry("x")["notice"]


@pytest.mark.parametrize("change", ["gone", "other"])
async def test_a_continued_delivery_whose_file_changed(tmp_path: Path, change: str) -> None:
    """Rejected: what was accepted is what is sent."""
    async with open_broker() as broker:
        async with running(broker, tmp_path) as rig:
            meta = await rig.bind()
            broker.script("media", Answer(429, headers=LATER))
            files = [put(meta, "a.txt")]
            assert "retry" == (await rig.send("x", meta.binding, "t", files=files))["outcome"]
        path = Path(meta.export_dir) / "a.txt"
        if change == "gone":
            path.unlink()
        else:
            path.write_bytes(b"other")
        async with running(broker, tmp_path) as rig:
            told = await rig.send("x", meta.binding, "t", files=files)
            assert "rejected" == told["reason"]
            assert [] == broker.files


async def test_23_hours_after_first_seen_it_expires(tmp_path: Path) -> None:
    """With a notice in the room; a clock that steps back revives nothing."""
    async with open_broker() as broker:
        wall = Wall()
        async with running(broker, tmp_path, wall=wall) as rig:
            meta = await rig.bind()
            broker.script("messages", Answer(429, headers=LATER))
            assert "retry" == (await rig.send("x", meta.binding, "t"))["outcome"]
        wall.ahead_s = 23 * 3600 + 1
        async with running(broker, tmp_path, wall=wall) as rig:
            told = await rig.send("x", meta.binding, "t")
            assert "expired" == told["reason"]
            await rig.until(lambda: rig.entry("x")["notice"] == "posted")
        wall.ahead_s = 0.0
        async with running(broker, tmp_path, wall=wall) as rig:
            assert told == await rig.send("x", meta.binding, "t")
        assert 1 == len(broker.bodies("!r:h"))
