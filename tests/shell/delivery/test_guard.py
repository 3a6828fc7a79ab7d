"""What is scanned before it is accepted, and the rules of ``_ag2/notify`` (§9.6, §13)."""

from pathlib import Path
from typing import Any

import pytest

from agentconnect.core.delivery.bindings import Purpose
from agentconnect.core.delivery.ledger import DeliveryId, Entry, Part, PartKind
from agentconnect.core.task import SessionKey, Tier
from tests.shell.delivery.rig import BOB, LATER, OWNER, Answer, Wall, damage, put, running
from tests.support.fake_broker import open_broker

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2"
LISTED: dict[str, Any] = {"collaborators": frozenset({"@bob:h"})}
DAY_S = 86_400.0


@pytest.mark.parametrize(
    ("text", "content", "name"),
    [
        (f"the key is {SECRET}", b"", ""),
        ("t", f"TOKEN={SECRET}\n".encode(), "a.txt"),
        ("t", f"TOKEN={SECRET}\n".encode("utf-16"), "a.txt"),
        ("t", b"\x89PNG\x00\x01", "a.png"),
        ("t", b"fine", f"{SECRET}.txt"),
    ],
)
async def test_a_secret_is_kept_back(
    tmp_path: Path, text: str, content: bytes, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The owner's binding too; the reason does not quote it, and nothing is recorded."""
    async with open_broker() as broker, running(broker, tmp_path, **LISTED) as rig:
        meta = await rig.bind()
        more: dict[str, Any] = {"files": [put(meta, "f", content) | {"name": name}]} if name else {}
        told = await rig.send("x", meta.binding, text, **more)
        assert ("rejected", None) == (told["reason"], told["expires_at"])
        assert "withheld" in told["detail"]
        assert SECRET not in str(told) + caplog.text
        assert rig.entry("x") is None
        assert [] == broker.of("media") + broker.of("messages")


async def test_what_is_fit_goes_out(tmp_path: Path) -> None:
    """The bytes that were scanned are the ones that are sent."""
    async with open_broker() as broker, running(broker, tmp_path, **LISTED) as rig:
        meta = await rig.bind()
        files = [put(meta, "a.txt", b"fine")]
        broker.script("media", Answer(429, headers=LATER))
        assert "retry" == (await rig.send("x", meta.binding, "t", files=files))["outcome"]
        (Path(meta.export_dir) / "a.txt").write_text(SECRET)
        for asleep in list(rig.desk._asleep.values()):
            asleep.set()
        await rig.until(lambda: rig.entry("x")["outcome"] == "final")
        assert [] == broker.files


@pytest.mark.parametrize(
    "settings", [{}, LISTED | {"unchecked": True}], ids=["nobody listed", "opt-out"]
)
async def test_nothing_is_scanned_otherwise(tmp_path: Path, settings: dict[str, Any]) -> None:
    """A stated limit."""
    async with open_broker() as broker, running(broker, tmp_path, **settings) as rig:
        meta = await rig.bind()
        files = [put(meta, "a.png", b"\x89PNG\x00")]
        told = await rig.send("x", meta.binding, SECRET, files=files)
        assert "delivered" == told["outcome"]


async def test_what_was_accepted_before_anybody_was_listed_is_scanned(tmp_path: Path) -> None:
    """A file that was never opened until now."""
    async with open_broker() as broker:
        async with running(broker, tmp_path) as rig:
            meta = await rig.bind()
            broker.always("capabilities", Answer(404))
            await rig.relay.capabilities.ask()
            rig.relay.capabilities.withdraw()
            files = [put(meta, "a.txt", SECRET.encode())]
            await rig.store.begin(_entry_of(rig, meta, files[0]["uri"]))
        async with running(broker, tmp_path, **LISTED) as rig:
            await rig.until(lambda: rig.entry("early")["outcome"] == "final")
            assert [] == broker.files


async def test_notify_posts_to_the_owners_room(tmp_path: Path) -> None:
    """Without a record and without a key."""
    async with open_broker() as broker, running(broker, tmp_path, declared=False) as rig:
        destination = await rig.desk.destinations.destination(OWNER)
        assert {"posted": True, "reason": None} == await rig.notify(str(destination), "hello")
        assert ["hello"] == broker.bodies("!r:h")
        assert "idempotency-key" not in broker.requests[-1].headers
        assert destination == await rig.desk.destinations.destination(OWNER)


async def test_only_owner_sessions_get_a_destination(tmp_path: Path) -> None:
    """No collaborator, no guest, no task without a room."""
    async with (
        open_broker() as broker,
        running(broker, tmp_path, unchecked=True, **LISTED) as rig,
    ):
        guest = SessionKey(room="!r:h", tier=Tier.GUEST)
        roomless = SessionKey(room="task:t1", tier=Tier.OWNER)
        for key in (BOB, guest, roomless):
            assert await rig.desk.destinations.destination(key) is None


@pytest.mark.parametrize("unchecked", [True, False])
async def test_notify_passes_the_guard_once_anybody_is_listed(
    tmp_path: Path, *, unchecked: bool
) -> None:
    """The opt-out does not count here."""
    async with (
        open_broker() as broker,
        running(broker, tmp_path, unchecked=unchecked, **LISTED) as rig,
    ):
        destination = str(await rig.desk.destinations.destination(OWNER))
        told = await rig.notify(destination, f"key: {SECRET}")
        assert not told["posted"]
        assert "withheld" in told["reason"]
        assert SECRET not in told["reason"]
        assert (await rig.notify(destination, "fine"))["posted"]
        assert ["fine"] == broker.bodies("!r:h")


async def test_notify_goes_nowhere_else(tmp_path: Path) -> None:
    """Not to a delivery's binding, an unknown name, an expired row, or a collaborator's row."""
    async with open_broker() as broker:
        wall = Wall()
        async with running(broker, tmp_path, wall=wall, unchecked=True, **LISTED) as rig:
            delivery = (await rig.bind()).binding
            bobs = (await rig.store.bind(BOB, Purpose.NOTIFY)).id
            live = str(await rig.desk.destinations.destination(OWNER))
            for destination in (delivery, bobs, f"{rig.store.worker_id}.{'0' * 32}"):
                assert not (await rig.notify(destination, "t"))["posted"]
            wall.ahead_s = 30 * DAY_S + 1
            assert "no longer in force" in (await rig.notify(live, "t"))["reason"]
            told = await rig.notify("../x", "t")
            assert (-32602, "destination") == (told["code"], told["field"])
            assert -32602 == (await rig.notify(live, " "))["code"]
            assert {} == broker.messages


async def test_notify_may_be_lost(tmp_path: Path) -> None:
    """What the relay or the store does not take is said, not tried again."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        destination = str(await rig.desk.destinations.destination(OWNER))
        broker.script("room", Answer(403))
        assert "HTTP 403" in (await rig.notify(destination, "t"))["reason"]
        assert "takes no posts" in (await rig.notify(destination, "t"))["reason"]
        await rig.store.close()
        damage(rig.layout.deliveries)
        assert "cannot be read" in (await rig.notify(destination, "t"))["reason"]
        assert await rig.desk.destinations.destination(OWNER) is None


def _entry_of(rig: Any, meta: Any, uri: str) -> Any:
    part = Part(kind=PartKind.FILE, name="a.txt", uri=uri)
    return Entry(
        id=DeliveryId("early"),
        worker_id=rig.store.worker_id,
        binding=meta.binding,
        room="!r:h",
        folder=meta.binding,
        first_seen=rig.wall(),
        fingerprint="0",
        parts=(part,),
    )
