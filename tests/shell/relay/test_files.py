"""Files out and in: judged, sent once, fetched only from the relay, gone when answered."""

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest
import rfc8785
import trio

from agentconnect.core.task import Task
from tests.shell.relay.rig import Rig, running
from tests.support.fake_broker import Answer, FakeBroker, open_broker, wire_task


async def _reply(rig: Rig, broker: FakeBroker, body: str, base_dir: Path) -> str:
    """Answer one fresh task; the body that was posted."""
    name = f"t{len(rig.taken)}"
    broker.serve(wire_task(name))
    task = (await rig.tasks(len(rig.taken) + 1))[-1]
    await rig.relay.results.complete(task, body, base_dir=str(base_dir))
    await broker.until(lambda: name in broker.results)
    return str(broker.results[name]["body"])


def _project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_bytes(b"alpha")
    (project / "b.png").write_bytes(b"beta")
    return project


async def test_named_files_are_sent_and_their_markers_removed(tmp_path: Path) -> None:
    """In order, once each, before the result; two spellings of one file are one."""
    project = _project(tmp_path)
    async with (
        open_broker() as broker,
        running(broker, tmp_path / "ws", egress_roots=(str(project),)) as rig,
    ):
        body = await _reply(
            rig, broker, "Here [file: a.txt] and [file: b.png] [file: ./a.txt]", project
        )
        assert body == "Here  and"
        assert [file["filename"] for file in broker.files] == ["a.txt", "b.png"]
        assert base64.b64decode(broker.files[0]["content_b64"]) == b"alpha"
        routes = [request.route for request in broker.requests]
        assert routes.index("media") < routes.index("results")


async def test_a_file_alone_is_named(tmp_path: Path) -> None:
    """No words: a short line with the names."""
    project = _project(tmp_path)
    async with (
        open_broker() as broker,
        running(broker, tmp_path / "ws", egress_roots=(str(project),)) as rig,
    ):
        assert await _reply(rig, broker, "[file: a.txt]", project) == "📎 a.txt"


async def test_refused_files_are_named_with_their_reason(tmp_path: Path) -> None:
    """A good file still goes; every refusal is in the same reply and gives nothing away."""
    project = _project(tmp_path)
    state = project / "state"
    secret = tmp_path / "secret"
    secret.write_bytes(b"key")
    (project / "link").symlink_to(secret)
    (project / ".env").write_bytes(b"TOKEN=1")
    config = project / "my.conf"
    config.write_bytes(b"TOKEN=1")
    async with (
        open_broker() as broker,
        running(
            broker,
            state,
            egress_roots=(str(project),),
            private_folders=(str(state),),
            private_files=(str(config),),
        ) as rig,
    ):
        names = ["a.txt", "link", ".env", "my.conf", "state/relay/default/journal.db", "none.txt"]
        body = await _reply(rig, broker, " ".join(f"[file: {n}]" for n in names), project)
        assert [file["filename"] for file in broker.files] == ["a.txt"]
        lines = body.splitlines()[2:]
        assert len(lines) == 5
        for line, name in zip(lines, names[1:], strict=True):
            assert line.startswith(f"[attachment not sent: {name} (")
        assert str(secret) not in body


async def test_more_than_ten_files_are_refused_by_name(tmp_path: Path) -> None:
    """The eleventh marker is refused."""
    project = _project(tmp_path)
    for number in range(11):
        (project / f"{number}.txt").write_text(str(number))
    async with (
        open_broker() as broker,
        running(broker, tmp_path / "ws", egress_roots=(str(project),)) as rig,
    ):
        markers = "".join(f"[file: {number}.txt]" for number in range(11))
        body = await _reply(rig, broker, f"see {markers}", project)
        assert "[attachment not sent: 10.txt (at most 10 files per reply)]" in body
        assert len(broker.files) == 10


async def test_an_upload_whose_response_is_lost_shows_one_file(tmp_path: Path) -> None:
    """Keyed: the repeat is recognised; the answer says nothing false."""
    project = _project(tmp_path)
    async with open_broker() as broker:
        broker.keyed()
        broker.script("media", Answer(apply=True, drop=True))
        async with running(broker, tmp_path / "ws", egress_roots=(str(project),)) as rig:
            assert await _reply(rig, broker, "x [file: a.txt]", project) == "x"
            assert len(broker.files) == 1
            digest = hashlib.sha256(b"alpha").hexdigest()
            key = hashlib.sha256(rfc8785.dumps([rig.journal.worker_id, "task/t0", digest]))
            for request in broker.of("media"):
                assert request.headers["idempotency-key"] == key.hexdigest()


async def test_without_keys_a_lost_upload_is_said_to_be_unsure(tmp_path: Path) -> None:
    """One try, and the line does not claim that it was not sent."""
    project = _project(tmp_path)
    async with open_broker() as broker:
        broker.script("media", Answer(apply=True, drop=True))
        async with running(broker, tmp_path / "ws", egress_roots=(str(project),)) as rig:
            body = await _reply(rig, broker, "x [file: a.txt]", project)
            assert "may not have been sent" in body
            assert len(broker.files) == 1


@pytest.mark.parametrize("keyed", [True, False])
async def test_a_turn_run_again_after_a_crash_posts_no_file_twice(
    tmp_path: Path, *, keyed: bool
) -> None:
    """The file went out, the process died before the result: the re-run recognises it."""
    project = _project(tmp_path)
    async with open_broker() as broker:
        if keyed:
            broker.keyed()
        async with running(broker, tmp_path / "ws", egress_roots=(str(project),)) as rig:
            await rig.sql(
                "CREATE TRIGGER f BEFORE UPDATE OF result ON tasks"
                " BEGIN SELECT RAISE(ABORT, 'power cut'); END"
            )
            broker.serve(wire_task("t0"))
            (task,) = await rig.tasks()
            with pytest.raises(Exception, match="power cut"):
                await rig.relay.results.complete(task, "x [file: a.txt]", base_dir=str(project))
            await rig.sql("DROP TRIGGER f")
        async with running(broker, tmp_path / "ws", egress_roots=(str(project),)) as rig:
            (task,) = await rig.tasks()
            await rig.relay.results.complete(task, "y [file: a.txt]", base_dir=str(project))
            await broker.until(lambda: "t0" in broker.results)
            assert broker.results["t0"]["body"] == "y"
            assert len(broker.files) == 1


async def test_equal_files_under_two_names_both_arrive(tmp_path: Path) -> None:
    """The key is made of the bytes; a second name is a post of its own."""
    project = _project(tmp_path)
    (project / "copy.txt").write_bytes(b"alpha")
    async with open_broker() as broker:
        broker.keyed()
        async with running(broker, tmp_path / "ws", egress_roots=(str(project),)) as rig:
            body = await _reply(rig, broker, "x [file: a.txt] [file: copy.txt]", project)
            assert body == "x"
            assert [file["filename"] for file in broker.files] == ["a.txt", "copy.txt"]


async def test_a_redirected_answer_takes_its_files_along(tmp_path: Path) -> None:
    """The files of a private answer are not shown in the asking room."""
    project = _project(tmp_path)
    async with (
        open_broker() as broker,
        running(broker, tmp_path / "ws", egress_roots=(str(project),)) as rig,
    ):
        body = await _reply(rig, broker, "[channel: !ops:h]\nx [file: a.txt]", project)
        assert body == "[channel: !ops:h]\nx"
        assert [file["room"] for file in broker.files] == ["!ops:h"]


@pytest.mark.parametrize("answer", [Answer(413), Answer(403), Answer(body={"ok": False})])
async def test_an_upload_the_relay_refuses_is_said(tmp_path: Path, answer: Answer) -> None:
    """Not sent, and the reply says so."""
    project = _project(tmp_path)
    async with open_broker() as broker:
        broker.script("media", answer)
        async with running(broker, tmp_path / "ws", egress_roots=(str(project),)) as rig:
            body = await _reply(rig, broker, "x [file: a.txt]", project)
            assert "[attachment not sent: a.txt (the relay did not take it)]" in body


# files in


def _media_task(broker: FakeBroker, name: str, *paths: str, **more: Any) -> dict[str, Any]:
    markers = "".join(
        f" [ag2space-media: {p if '://' in p else broker.base + p} mime=image/png name=pic.png]"
        for p in paths
    )
    return wire_task(name, f"look{markers}", **more)


async def _fetched(rig: Rig, broker: FakeBroker, *paths: str) -> Task:
    broker.serve(_media_task(broker, "t1", *paths))
    return (await rig.tasks())[0]


async def test_an_attachment_is_fetched_and_deleted_when_answered(tmp_path: Path) -> None:
    """The bytes are there at hand-over, under our name, and gone after the answer."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.stored["/v1/media/h/m1"] = Answer(
            body=b"\x89PNG", headers={"Content-Type": "image/png; x=y"}
        )
        task = await _fetched(rig, broker, "/v1/media/h/m1")
        assert task.body == "look"
        (attachment,) = task.attachments
        assert (attachment.ok, attachment.mime, attachment.size) == (True, "image/png", 4)
        path = Path(attachment.path)
        assert path.read_bytes() == b"\x89PNG"  # noqa: ASYNC240
        assert path.parent == rig.layout.media
        assert path.name.startswith("pic")
        assert path.suffix == ".png"
        await rig.relay.results.complete(task, "seen", base_dir="/")
        assert not path.exists()  # noqa: ASYNC240


async def test_only_the_relay_itself_is_fetched_from(tmp_path: Path) -> None:
    """Any member can write a marker: other hosts, other paths and tricks with dots are refused."""
    async with open_broker() as broker, open_broker() as other, running(broker, tmp_path) as rig:
        origin = broker.base.removesuffix("/relay")
        urls = [
            f"{other.base}/v1/media/h/x",
            f"{origin}/relay-evil/x",
            f"{broker.base}/%2e%2e/evil",
            f"{broker.base}/../evil",
            "file:///etc/passwd",
            "http://169.254.169.254/latest",
        ]
        task = await _fetched(rig, broker, *urls)
        assert [a.reason for a in task.attachments] == ["unfetchable"] * len(urls)
        assert not any(a.ok for a in task.attachments)
        assert other.requests == []
        assert broker.of("fetch") == []


@pytest.mark.parametrize(
    ("answer", "reason", "asked"),
    [
        (Answer(502), "unreachable (HTTP 502)", 2),
        (Answer(drop=True), "unreachable", 2),
        (Answer(302, headers={"Location": "http://127.0.0.1:9/"}), "unreachable (HTTP 302)", 2),
        (Answer(403), "bearer refused", 1),
        (Answer(body=b"x" * (25 * 1024 * 1024 + 1)), "too large", 1),
    ],
    ids=["502", "dropped", "redirect", "403", "large"],
)
async def test_a_failed_fetch_is_still_an_attachment(
    tmp_path: Path, answer: Answer, reason: str, asked: int
) -> None:
    """The task is delivered with a reason that holds no URL, and polling goes on."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.stored["/v1/media/h/m1"] = answer
        task = await _fetched(rig, broker, "/v1/media/h/m1")
        (attachment,) = task.attachments
        assert (attachment.ok, attachment.path, attachment.reason) == (False, "", reason)
        assert len(broker.of("fetch")) == asked
        assert not any(status.state == "auth-wait" for status in rig.statuses)


async def test_one_slow_fetch_holds_nobody(tmp_path: Path) -> None:
    """Another task of the same batch is handed over, and polled ones too."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        held = trio.Event()
        broker.stored["/v1/media/h/slow"] = Answer(body=b"x", hold=held)
        broker.serve(_media_task(broker, "slow", "/v1/media/h/slow"), wire_task("quick"))
        assert (await rig.tasks(1))[0].id == "quick"
        broker.serve(wire_task("later"))
        await rig.tasks(2)
        held.set()
        assert [task.id for task in await rig.tasks(3)] == ["quick", "later", "slow"]


async def test_too_many_attachments_are_bounded(tmp_path: Path) -> None:
    """Ten are fetched; the rest comes with a reason."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        paths = [f"/v1/media/h/m{number}" for number in range(14)]
        for path in paths:
            broker.stored[path] = Answer(body=b"x")
        task = await _fetched(rig, broker, *paths)
        assert [a.ok for a in task.attachments] == [True] * 10 + [False] * 4


async def test_what_an_earlier_run_left_is_swept(tmp_path: Path) -> None:
    """Plain files and links of the media folder go; nothing they point to, no folder."""
    media = tmp_path / "relay" / "default" / "media"
    (media / "kept").mkdir(parents=True)
    (media / "old.png").write_bytes(b"x")
    outside = tmp_path / "outside"
    outside.write_bytes(b"x")
    (media / "link").symlink_to(outside)
    async with open_broker() as broker, running(broker, tmp_path):
        await broker.seen("tasks")
        with trio.fail_after(60):
            while (media / "old.png").exists():
                await trio.sleep(0.01)
        assert sorted(entry.name for entry in media.iterdir()) == ["kept"]
        assert outside.exists()
