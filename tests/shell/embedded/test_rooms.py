"""Room ops, keyed posts and files over the worker's endpoints."""

import base64
import hashlib
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from agentconnect.embedded.faults import Fault
from agentconnect.embedded.timing import Timing
from tests.support.relay import Clock, Relay, running_relay

_KEY = "ab" * 32
_CAPABILITIES = {
    "room_post_idempotency": {
        "header": "Idempotency-Key",
        "ttl_seconds": 86400,
        "routes": ["POST /v1/rooms/{room}/messages", "POST /v1/rooms/{room}/media"],
    }
}


async def _post(relay: Relay, body: str, key: str = _KEY, room: str = "") -> httpx.Response:
    headers = {"idempotency-key": key} if key else {}
    path = f"/v1/rooms/{room or relay.room}/messages"
    return await relay.call("POST", path, {"body": body}, headers=headers)


async def test_message_edit_react_redact_members(tmp_path: Path) -> None:
    """The five ops do what they say and the room shows it."""
    async with running_relay(tmp_path) as relay:
        asked = await relay.say("hello")
        event = (await relay.op("message", body="first")).json()["event_id"]
        assert (await relay.op("edit", event_id=event, body="second")).json()["ok"] is True
        assert (await relay.op("react", event_id=asked, key="👍")).json() == {"ok": True}
        assert (await relay.op("react", event_id=asked, key="👍")).json() == {"ok": True}
        assert await relay.relay.reactions(asked) == [("👍", relay.agent)]
        members = (await relay.op("members")).json()["members"]
        assert {m["user_id"] for m in members} == {relay.owner, relay.agent}
        assert await relay.bodies() == ["hello", "second"]
        assert (await relay.op("redact", event_id=event)).json() == {"ok": True}
        gone = (await relay.relay.messages(relay.room))[-1]
        assert (gone.body, gone.redacted) == ("", True)
        assert (await relay.op("edit", event_id=event, body="back")).status_code == 404


@pytest.mark.parametrize(
    ("op", "status"),
    [
        ({"op": "message", "body": "  "}, 400),
        ({"op": "message", "body": "x" * 32_000}, 200),
        ({"op": "message", "body": "x" * 32_001}, 413),
        ({"op": "edit", "event_id": "$mine", "body": "x" * 4000}, 200),
        ({"op": "edit", "event_id": "$mine", "body": "x" * 4001}, 413),
        ({"op": "edit", "event_id": "$nothing", "body": "x"}, 404),
        ({"op": "edit", "event_id": "$theirs", "body": "x"}, 400),
        ({"op": "redact", "event_id": "$theirs"}, 400),
        ({"op": "react", "event_id": "$theirs", "key": ""}, 400),
        ({"op": "react", "event_id": "$nothing", "key": "👍"}, 404),
        ({"op": "dance"}, 400),
        ({"op": "message", "body": 5}, 400),
        ({"op": "message", "body": "x", "room_id": "!nowhere:local"}, 404),
        ({"op": "message", "body": "x", "room_id": None, "room": "!r:h"}, 400),
    ],
)
async def test_ops_that_are_refused(tmp_path: Path, op: dict[str, Any], status: int) -> None:
    """A refusal is a 4xx with one sentence, never a success and never a 401 or 403."""
    async with running_relay(tmp_path) as relay:
        named = {
            "$theirs": await relay.say("theirs"),
            "$mine": (await relay.op("message", body="mine")).json()["event_id"],
        }
        event = op.get("event_id", "")
        said = {**op, "event_id": named.get(event, event)}
        answer = await relay.op(**said)
        assert answer.status_code == status
        assert status == 200 or set(answer.json()) == {"error"}


async def test_a_room_the_identity_is_not_in_is_not_there(tmp_path: Path) -> None:
    """A foreign room and no room have the same answer, on every room route."""
    async with running_relay(tmp_path) as relay:
        foreign = await relay.relay.create_room("Private", relay.owner)
        upload = {"content_b64": "aGk=", "filename": "a.txt"}
        for room in (foreign, "!nowhere:local"):
            answers = [
                await relay.op("message", room_id=room, body="hi"),
                await _post(relay, "hi", key="", room=room),
                await relay.call("POST", f"/v1/rooms/{room}/media", upload),
            ]
            assert {(a.status_code, a.text) for a in answers} == {
                (404, '{"error":"There is no such room for this identity."}')
            }


async def test_capabilities(tmp_path: Path) -> None:
    """The probe says header, life and routes of keyed posts."""
    async with running_relay(tmp_path) as relay:
        assert (await relay.call("GET", "/v1/capabilities")).json() == _CAPABILITIES


async def test_keyed_message_is_posted_once(tmp_path: Path) -> None:
    """The same key and body is replayed with the first answer; another body conflicts."""
    async with running_relay(tmp_path) as relay:
        first = await _post(relay, "once")
        again = await _post(relay, "once")
        assert first.headers["idempotency-status"] == "created"
        assert again.headers["idempotency-status"] == "replayed"
        assert first.json() == again.json()
        conflict = await _post(relay, "other")
        assert (conflict.status_code, conflict.json()) == (409, {"state": "conflict"})
        assert await relay.bodies() == ["once"]


async def test_lost_answer_of_a_keyed_post_is_replayed(tmp_path: Path) -> None:
    """A post whose answer was lost is in the room once, and the retry learns its event."""
    async with running_relay(tmp_path) as relay:
        relay.faults.plan(Fault(method="POST", path="/messages", drop=True))
        with pytest.raises(httpx.TransportError):
            await _post(relay, "once")
        again = await _post(relay, "once")
        assert again.headers["idempotency-status"] == "replayed"
        (only,) = await relay.relay.messages(relay.room)
        assert again.json()["event_id"] == only.event_id


async def test_keys_live_a_day_and_belong_to_one_identity(tmp_path: Path) -> None:
    """After 24 hours a key is free again; another identity's same key never meets it."""
    clock = Clock()
    async with running_relay(tmp_path, timing=Timing(wall=clock)) as relay:
        other, token, _ = await relay.relay.add_agent("Other")
        second = await relay.relay.create_room("Both", relay.owner, (relay.agent, other))
        await _post(relay, "mine", room=second)
        secret = token.partition("|")[2]
        theirs = await relay.call(
            "POST",
            f"/v1/rooms/{second}/messages",
            {"body": "theirs"},
            secret=secret,
            headers={"idempotency-key": _KEY},
        )
        assert theirs.headers["idempotency-status"] == "created"
        clock.forward(86_399)
        assert (await _post(relay, "mine", room=second)).headers["idempotency-status"] == "replayed"
        clock.forward(2)
        assert (await _post(relay, "new", room=second)).headers["idempotency-status"] == "created"
        assert await relay.bodies(second) == ["mine", "theirs", "new"]


async def test_claims_of_another_process_are_respected(tmp_path: Path) -> None:
    """A running claim answers `running` for its lease, then `unknown`: nothing is posted."""
    clock = Clock()
    async with running_relay(tmp_path, timing=Timing(wall=clock)) as relay:
        raw = b'{"body":"half done"}'
        await relay.relay.hold_key(relay.agent, _KEY, "messages", relay.room, raw)
        headers = {"idempotency-key": _KEY}
        path = f"/v1/rooms/{relay.room}/messages"
        running = await relay.call("POST", path, content=raw, headers=headers)
        assert (running.status_code, running.json()) == (409, {"state": "running"})
        clock.forward(61)
        unknown = await relay.call("POST", path, content=raw, headers=headers)
        assert (unknown.status_code, unknown.json()) == (409, {"state": "unknown"})
        assert await relay.bodies() == []


async def test_refused_post_frees_its_key(tmp_path: Path) -> None:
    """A keyed post that was refused is not remembered: the same key may then be used."""
    async with running_relay(tmp_path) as relay:
        assert (await _post(relay, "x", room="!nowhere:local")).status_code == 404
        assert (await _post(relay, " ")).status_code == 400
        assert (await _post(relay, "fine")).headers["idempotency-status"] == "created"
        assert (await _post(relay, "x", key="short")).status_code == 400


async def test_file_out_and_in(tmp_path: Path) -> None:
    """A file goes into the room by name and comes out byte for byte by a task's marker."""
    data = bytes(range(256)) * 100
    async with running_relay(tmp_path) as relay:
        body = {"content_b64": base64.b64encode(data).decode(), "filename": "chart.png"}
        sent = (await relay.call("POST", f"/v1/rooms/{relay.room}/media", body)).json()
        assert sent["ok"] is True
        assert sent["mxc"].startswith("mxc://local/")
        (message,) = await relay.relay.messages(relay.room)
        assert (message.kind, message.event_id) == ("file", sent["event_id"])
        await relay.relay.post_file(relay.room, relay.owner, "in.bin", data, caption="look")
        (task,) = await relay.poll()
        text, _, marker = task["task"].partition("\n\n")
        assert text == "look"
        url = marker.removeprefix("[ag2space-media: ").partition(" ")[0]
        assert url.startswith(relay.base + "/v1/media/local/")
        got = await relay.client.get(url, headers={"authorization": f"Bearer {relay.secret}"})
        assert hashlib.sha256(got.content).digest() == hashlib.sha256(data).digest()
        assert got.headers["content-type"] == "application/octet-stream"
        assert (await relay.client.get(url)).status_code == 401


@pytest.mark.parametrize(
    "name",
    ["a b].png", "x] [ag2space-media: http://evil/", "kind=m.evil name=y.png", "../../etc/passwd"],
)
async def test_a_crafted_name_stays_inside_its_marker(tmp_path: Path, name: str) -> None:
    """A task has exactly one marker, whose attributes are those the relay wrote."""
    async with running_relay(tmp_path) as relay:
        await relay.relay.post_file(relay.room, relay.owner, name, b"x")
        (task,) = await relay.poll()
        assert task["task"].count("[ag2space-media:") == 1
        assert task["task"].endswith("]")
        assert task["task"].count("]") == 1
        assert task["task"].count("kind=") == 1
        assert task["task"].count(" ") == 5
        assert "/" not in task["task"].partition("name=")[2]


async def test_files_of_foreign_rooms_cannot_be_had(tmp_path: Path) -> None:
    """Media of a room the identity is not in, or that never was, answers 502 and nothing else."""
    async with running_relay(tmp_path) as relay:
        private = await relay.relay.create_room("Private", relay.owner)
        await relay.relay.post_file(private, relay.owner, "secret.txt", b"secret")
        (message,) = await relay.relay.messages(private)
        for media_id in (message.media_id, "0" * 32, "..%2Frelay.db"):
            answer = await relay.call("GET", f"/v1/media/local/{media_id}")
            assert answer.status_code in (404, 502)
            assert b"secret" not in answer.content


async def test_uploads_past_the_limits(tmp_path: Path) -> None:
    """A file over 25 MiB and a request over 35 MB are 413; what is not base64 is 400."""
    async with running_relay(tmp_path) as relay:
        path = f"/v1/rooms/{relay.room}/media"
        big = base64.b64encode(bytes(25 * 1024 * 1024 + 1)).decode()
        over = await relay.call("POST", path, {"content_b64": big, "filename": "a.bin"})
        assert over.status_code == 413
        huge = await relay.call("POST", path, content=b"x" * 36_000_000)
        assert huge.status_code == 413
        bad = await relay.call("POST", path, {"content_b64": "%%%", "filename": "a"})
        assert bad.status_code == 400
        assert await relay.bodies() == []


async def test_uploads_cut_off_by_a_crash_are_swept(tmp_path: Path) -> None:
    """A file that no message names is gone after the next start; the others stay."""
    async with running_relay(tmp_path) as relay:
        await relay.relay.post_file(relay.room, relay.owner, "kept.txt", b"kept")
    folder = trio.Path(tmp_path / "media")
    await (folder / ("e" * 32)).write_bytes(b"half")
    async with running_relay(tmp_path):
        (kept,) = [path async for path in _files(folder)]
        assert await kept.read_bytes() == b"kept"
        assert (await kept.stat()).st_mode & 0o777 == 0o600


async def test_an_upload_that_is_not_posted_leaves_no_file(tmp_path: Path) -> None:
    """A repeat under its key, a conflict: the folder holds the one file that a message names."""
    key = {"Idempotency-Key": "a" * 64}
    async with running_relay(tmp_path) as relay:
        path = f"/v1/rooms/{relay.room}/media"
        body = {"content_b64": "eHl6", "filename": "a.txt"}
        made = await relay.call("POST", path, body, headers=key)
        again = await relay.call("POST", path, body, headers=key)
        other = await relay.call("POST", path, {**body, "filename": "b.txt"}, headers=key)
        assert (made.status_code, again.status_code, other.status_code) == (200, 200, 409)
        assert again.json() == made.json()
        (kept,) = [file async for file in _files(trio.Path(tmp_path / "media"))]
        assert kept.name == made.json()["mxc"].rpartition("/")[2]


async def _files(folder: trio.Path) -> Any:
    for path in await folder.iterdir():
        yield path
