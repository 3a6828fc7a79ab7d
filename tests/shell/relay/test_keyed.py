"""Keyed posts of deliveries as the relay client sees them: one attempt, one reply."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from agentconnect.core.delivery.ledger import Part, PartKind
from agentconnect.core.delivery.posting import Reply
from agentconnect.relay.egress import Refusal
from agentconnect.relay.exports import Exports
from agentconnect.relay.keyed import FILES_AT_ONCE, TEXTS_AT_ONCE, KeyedPosts
from tests.shell.relay.rig import running
from tests.support.fake_broker import Answer, FakeBroker, open_broker

KEY = "0" * 64


@asynccontextmanager
async def _posts(tmp_path: Path) -> AsyncIterator[tuple[FakeBroker, KeyedPosts, Any]]:
    export = tmp_path / "ws" / "export"
    (export / "w.r").mkdir(parents=True)
    async with (
        open_broker() as broker,
        running(
            broker, tmp_path / "ws", polling=False, posting=False, delivery_root=str(export)
        ) as rig,
    ):
        yield broker, rig.relay.keyed, rig


def _part(tmp_path: Path, content: bytes = b"alpha", name: str = "a.txt") -> Part:
    path = tmp_path / "ws" / "export" / "w.r" / "a.txt"
    path.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    return Part(kind=PartKind.FILE, name=name, uri=path.as_uri(), size=len(content), sha256=digest)


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        (Answer(apply=True, drop=True), Reply()),
        (Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"), Reply()),
        (Answer(raw=b"SSH-2.0-hello\r\n"), Reply()),
        (Answer(body=b"<html>"), Reply(status=200)),
        (Answer(body=[1]), Reply(status=200)),
        (Answer(body={"ok": True, "event_id": 7}), Reply(status=200)),
        (Answer(body={"ok": False, "event_id": "$a"}), Reply(status=200)),
        (Answer(body={"event_id": "$a"}), Reply(status=200, event_id="$a")),
        (
            Answer(201, {"event_id": "$a"}, {"Idempotency-Status": " Created"}),
            Reply(status=201, event_id="$a", echo="created"),
        ),
        (Answer(body=b" " * 1_100_000), Reply(status=200)),
        (Answer(302, headers={"Location": "https://elsewhere"}), Reply(status=302)),
        (Answer(403), Reply(status=403)),
        (Answer(409, {"state": "running"}), Reply(status=409, state="running")),
        (Answer(409, b"x"), Reply(status=409)),
        (Answer(429, headers={"Retry-After": "7"}), Reply(status=429, retry_after_s=7.0)),
        (Answer(429, {"retry_after_ms": 1500}), Reply(status=429, retry_after_s=1.5)),
        (Answer(503, headers={"Retry-After": "7"}), Reply(status=503, retry_after_s=7.0)),
    ],
)
async def test_a_reply_says_what_came(tmp_path: Path, answer: Answer, reply: Reply) -> None:
    """One attempt each, and no cooldown of the room."""
    async with _posts(tmp_path) as (broker, posts, rig):
        broker.script("messages", answer)
        assert reply == await posts.text("!r:h", KEY, "t")
        assert 1 == len(broker.of("messages"))
        assert 0.0 == rig.relay.rooms.cooling("!r:h")


async def test_a_kept_connection_that_dies_is_told(tmp_path: Path) -> None:
    """The post may have arrived: it is not repeated unseen, as other keyed posts are."""
    async with _posts(tmp_path) as (broker, posts, _):
        assert "created" == (await posts.text("!r:h", "1" * 64, "t")).echo
        broker.script("messages", Answer(apply=True, drop=True))
        assert Reply() == await posts.text("!r:h", KEY, "t")
        assert 2 == len(broker.of("messages"))


async def test_no_connection_is_nothing_sent(tmp_path: Path) -> None:
    """And a cooldown of the room ops is said with its time."""
    async with _posts(tmp_path) as (broker, posts, rig):
        broker.always("room", Answer(403))
        await rig.relay.rooms.message("!r:h", "x")
        reply = await posts.text("!r:h", KEY, "t")
        assert not reply.sent
        assert 299 < reply.cooling_s <= 300
        assert [] == broker.of("messages")
        base = rig.relay._http.base
        rig.relay._http.base = "http://127.0.0.1:9"
        assert Reply(sent=False) == await posts.text("!other:h", KEY, "t")
        rig.relay._http.base = base


async def test_posts_that_fail_cause_no_outage(tmp_path: Path) -> None:
    """The turns' room ops go on."""
    async with _posts(tmp_path) as (broker, posts, rig):
        broker.always("messages", Answer(503))
        for _ in range(5):
            assert 503 == (await posts.text("!r:h", KEY, "t")).status
        assert (await rig.relay.rooms.message("!r:h", "x")).ok


async def test_the_same_part_is_the_same_bytes(tmp_path: Path) -> None:
    """The relay binds a key to them; half a character is replaced before it is sent."""
    async with _posts(tmp_path) as (broker, posts, _):
        part = _part(tmp_path)
        for _ in range(2):
            await posts.text("!r:h", KEY, "é\ud800")
            await posts.file("!r:h", "1" * 64, "w.r", part)
        for route in ("messages", "media"):
            first, second = broker.of(route)
            assert first.raw == second.raw
            assert first.path == second.path
        assert {"body": "é\ufffd"} == broker.of("messages")[0].body


async def test_a_file_that_is_not_the_one_accepted(tmp_path: Path) -> None:
    """Nothing is sent."""
    async with _posts(tmp_path) as (broker, posts, _):
        part = _part(tmp_path)
        _part(tmp_path, b"other")
        assert "accepted" in (await posts.file("!r:h", KEY, "w.r", part)).unfit
        for folder in ("", ".", "..", "w.none", "w.r/..", "/", "w\0r"):
            reply = await posts.file("!r:h", KEY, folder, part)
            assert reply.unfit
            assert not reply.sent
        assert [] == broker.of("media")


async def test_what_is_judged(tmp_path: Path) -> None:
    """Sizes and digests in order, up to the first that is unfit."""
    async with _posts(tmp_path) as (_, posts, _rig):
        part = _part(tmp_path)
        gone = Part(kind=PartKind.FILE, name="g", uri=part.uri.replace("a.txt", "g"))
        found = await posts.judge("w.r", [part, part])
        assert ((5, part.sha256), (5, part.sha256)) == found.found
        assert not found.unfit
        found = await posts.judge("w.r", [part, gone, part])
        assert (((5, part.sha256),), 1) == (found.found, found.at)
        found = await posts.judge("w.r", [part, part], lambda name, content: f"{name} {content!r}")
        assert ((), 0, "a.txt b'alpha'") == (found.found, found.at, found.unfit)


async def test_deliveries_leave_connections_to_the_turns(tmp_path: Path) -> None:
    """However many hang."""
    async with _posts(tmp_path) as (broker, posts, rig):
        broker.always("messages", Answer(delay_s=30))
        broker.always("media", Answer(delay_s=30))
        part = _part(tmp_path)
        async with trio.open_nursery() as many:
            for _ in range(50):
                many.start_soon(posts.text, "!r:h", KEY, "t")
                many.start_soon(posts.file, "!r:h", KEY, "w.r", part)
            await broker.seen("messages", TEXTS_AT_ONCE)
            await broker.seen("media", FILES_AT_ONCE)
            assert (await rig.relay.rooms.message("!r:h", "x")).ok
            assert TEXTS_AT_ONCE == len(broker.of("messages"))
            assert FILES_AT_ONCE == len(broker.of("media"))
            many.cancel_scope.cancel()


@pytest.mark.parametrize(
    "folder", ["", ".", "..", "/", "../out", "w.r/deep", "link", "gone", "f\0"]
)
def test_a_folder_that_is_not_one_strictly_inside_the_root(tmp_path: Path, folder: str) -> None:
    """Whatever a row of the store says: nothing is opened by it (§5)."""
    root, out = tmp_path / "export", tmp_path / "out"
    for place in (root / "w.r" / "deep", out):
        place.mkdir(parents=True)
        (place / "a").write_text("secret")
    (root / "link").symlink_to(out)
    for path in (out / "a", root / "w.r" / "deep" / "a", root / "link" / "a"):
        assert isinstance(Exports(str(root)).read(folder, bytes(path)), Refusal)


def test_the_delivery_root_is_sealed(tmp_path: Path) -> None:
    """Nothing can widen it, and without one nothing is sent."""
    exports = Exports(str(tmp_path))
    for name in ("_root", "more"):
        with pytest.raises(AttributeError):
            setattr(exports, name, "/")
        with pytest.raises(AttributeError):
            delattr(exports, name)
    (tmp_path / "w.r").mkdir()
    (tmp_path / "w.r" / "a").write_bytes(b"a")
    assert "content" in repr(exports.read("w.r", bytes(tmp_path / "w.r" / "a")))
    linked = tmp_path.with_name(f"{tmp_path.name}-linked")
    linked.symlink_to(tmp_path)
    found = Exports(str(linked)).read("w.r", bytes(tmp_path / "w.r" / "a"))
    assert "missing" in repr(found)
    assert "outside" in repr(Exports("").read("w.r", bytes(tmp_path / "w.r" / "a")))


async def test_one_probe_is_shared(tmp_path: Path) -> None:
    """Whoever asks at the same time gets the same answer."""
    async with _posts(tmp_path) as (broker, _, rig):
        broker.always("capabilities", Answer(404, delay_s=0.2))
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(rig.relay.capabilities.ask)
        assert 1 == len(broker.of("capabilities"))
        assert not rig.relay.capabilities.trusted


async def test_a_relay_that_cannot_be_asked_keeps_its_keys(tmp_path: Path) -> None:
    """Deliveries wait; a placeholder's post stays safe to repeat."""
    async with _posts(tmp_path) as (broker, _, rig):
        capabilities = rig.relay.capabilities
        broker.keyed()
        assert (await capabilities.ask()).passed
        broker.always("capabilities", Answer(503))
        await trio.sleep(1.1)  # an answer of just now is not asked for again
        assert not (await capabilities.ask()).passed
        assert not capabilities.trusted
        assert await capabilities.keyed()
        broker.always("capabilities", Answer(404))
        await trio.sleep(1.1)
        await capabilities.ask()
        assert not await capabilities.keyed()
