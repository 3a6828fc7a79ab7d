"""Files that an answer brings by list, what a guard keeps back, and an agent's own pictures."""

from pathlib import Path

import trio

from agentconnect.core.task import Task, TaskId
from agentconnect.store.journal import open_journal
from tests.shell.relay.rig import Rig, running
from tests.support.fake_broker import FakeBroker, open_broker, wire_task


async def _served(rig: Rig, broker: FakeBroker, name: str) -> Task:
    broker.serve(wire_task(name))
    return (await rig.tasks(len(rig.taken) + 1))[-1]


async def _posted(broker: FakeBroker, name: str) -> str:
    await broker.until(lambda: name in broker.results)
    return str(broker.results[name]["body"])


def _sent(broker: FakeBroker) -> list[str]:
    return [str(file["filename"]) for file in broker.files]


async def test_files_by_list_follow_those_of_markers(tmp_path: Path) -> None:
    """Same rules, same refusals, and no name is too odd to be judged whole."""
    project = tmp_path / "project"
    project.mkdir()
    names = ["a.txt", "b]c.txt", "d\ne.txt", "[file: a.txt]"]
    for name in names:
        (project / name).write_bytes(b"alpha")
    listed = [*(str(project / name) for name in names[1:]), "/etc/passwd", "", "nowhere"]
    async with (
        open_broker() as broker,
        running(broker, tmp_path / "ws", egress_roots=(str(project),)) as rig,
    ):
        task = await _served(rig, broker, "t1")
        await rig.relay.results.complete(
            task, "Here [file: a.txt]", base_dir=str(project), files=listed
        )
        body = await _posted(broker, "t1")
        assert ["a.txt", "b_c.txt", "d_e.txt", "_file__a.txt_"] == _sent(broker)
        assert 3 == body.count("[attachment not sent: ")
        assert "[attachment not sent: passwd (" in body  # by name: the room learns no path of ours
        assert "/etc" not in body
        assert "[file:" not in body


async def test_a_listed_file_alone_is_named(tmp_path: Path) -> None:
    """No words and no marker: the reply names the file."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_bytes(b"alpha")
    async with (
        open_broker() as broker,
        running(broker, tmp_path / "ws", egress_roots=(str(project),)) as rig,
    ):
        task = await _served(rig, broker, "t1")
        await rig.relay.results.complete(task, "", base_dir=str(project), files=["a.txt"])
        assert "📎 a.txt" == await _posted(broker, "t1")


async def test_ten_files_in_all(tmp_path: Path) -> None:
    """Markers and list count together."""
    project = tmp_path / "project"
    project.mkdir()
    for number in range(12):
        (project / f"{number}.txt").write_bytes(b"%d" % number)
    async with (
        open_broker() as broker,
        running(broker, tmp_path / "ws", egress_roots=(str(project),)) as rig,
    ):
        task = await _served(rig, broker, "t1")
        files = [f"{number}.txt" for number in range(1, 12)]
        await rig.relay.results.complete(task, "[file: 0.txt]", base_dir=str(project), files=files)
        assert 2 == (await _posted(broker, "t1")).count("at most 10 files per reply")
        assert 10 == len(_sent(broker))


async def test_a_skip_body_brings_no_file(tmp_path: Path) -> None:
    """What is archived only sends nothing."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_bytes(b"alpha")
    async with (
        open_broker() as broker,
        running(broker, tmp_path / "ws", egress_roots=(str(project),)) as rig,
    ):
        task = await _served(rig, broker, "t1")
        await rig.relay.results.complete(
            task, "[no-send] over", base_dir=str(project), files=["a.txt"]
        )
        await _posted(broker, "t1")
        assert [] == _sent(broker)


async def test_the_guard_judges_the_bytes_that_would_go_out(tmp_path: Path) -> None:
    """A file that is kept back is named with the guard's reason; the others go."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_bytes(b"honest")
    (project / "b.txt").write_bytes(b"secret")
    (project / "c.txt").symlink_to(project / "b.txt")

    def inspect(name: str, content: bytes) -> str:
        return "withheld" if b"secret" in content else ""

    async with (
        open_broker() as broker,
        running(broker, tmp_path / "ws", egress_roots=(str(project),)) as rig,
    ):
        task = await _served(rig, broker, "t1")
        await rig.relay.results.complete(
            task,
            "[file: a.txt] [file: b.txt] [file: c.txt]",
            base_dir=str(project),
            inspect=inspect,
        )
        body = await _posted(broker, "t1")
        assert ["a.txt"] == _sent(broker)
        assert "[attachment not sent: b.txt (withheld)]" in body
        assert "[attachment not sent: c.txt (withheld)]" in body


async def test_a_picture_of_this_turn_is_sent_and_then_gone(tmp_path: Path) -> None:
    """It lies in the state folder, which is never sent; only this task's own folder is."""
    state = tmp_path / "ws"
    mine, other = state / "inline" / "t1", state / "inline" / "t2"
    project = tmp_path / "project"
    project.mkdir()
    async with (
        open_broker() as broker,
        running(
            broker,
            state,
            egress_roots=(str(project),),
            private_folders=(str(state),),
            pictures_dir=state / "inline",
        ) as rig,
    ):
        task = await _served(rig, broker, "t1")
        for folder in (mine, other):
            folder.mkdir(parents=True)
            (folder / "picture-1.png").write_bytes(b"png")
        (mine / "link.png").symlink_to(other / "picture-1.png")
        files = [str(mine / "picture-1.png"), str(other / "picture-1.png"), str(mine / "link.png")]
        await rig.relay.results.complete(task, "look", base_dir=str(project), files=files)
        body = await _posted(broker, "t1")
        assert ["picture-1.png"] == _sent(broker)
        assert 2 == body.count("[attachment not sent: ")
        await rig.until(lambda: not mine.exists())
        assert other.exists()


async def test_pictures_of_a_crash_stay_only_while_they_are_owed(tmp_path: Path) -> None:
    """A start keeps the pictures of tasks that are still to be answered, and no others."""
    state = tmp_path / "ws"
    for name in ("t1", "gone"):
        (state / "inline" / name).mkdir(parents=True)
        (state / "inline" / name / "picture-1.png").write_bytes(b"png")
    journal_path = state / "relay" / "default" / "journal.db"
    journal_path.parent.mkdir(parents=True)
    async with open_journal(journal_path) as journal:
        await journal.accept([Task(id=TaskId("t1"), body="hi", room_id="!r:h")])
    async with (
        open_broker() as broker,
        running(broker, state, pictures_dir=state / "inline") as rig,
    ):
        await rig.tasks(1)
        await rig.until(lambda: not (state / "inline" / "gone").exists())
        assert await trio.Path(state / "inline" / "t1").exists()


async def test_listed_files_are_in_the_journal_until_the_result(tmp_path: Path) -> None:
    """A restart between the recorded answer and its result still sends them."""
    path = tmp_path / "journal.db"
    files = ("/w/a]b.txt", "/w/c\nd\ud800.txt")
    async with open_journal(path) as journal:
        await journal.accept([Task(id=TaskId("t1"), body="hi", room_id="!r:h")])
        await journal.answered(TaskId("t1"), "", files)
    async with open_journal(path) as journal:
        found = journal.progress(TaskId("t1"))
        assert (True, "") == (found.answered, found.answer)
        assert ("/w/a]b.txt", "/w/c\nd\ufffd.txt") == found.files
        await journal.record_result(TaskId("t1"), "{}")
        assert () == journal.progress(TaskId("t1")).files
