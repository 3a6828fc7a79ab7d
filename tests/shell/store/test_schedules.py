"""The files of scheduled tasks and workspaces: durable, and never taken for empty (§5, §7.2)."""

import json
import os
import stat
from pathlib import Path

import pytest
import trio

from agentconnect.core.daemon.tasks import Task
from agentconnect.core.errors import StoreUnreadableError
from agentconnect.store.layout import Layout
from agentconnect.store.schedules import ScheduleFile
from agentconnect.store.workspaces import FoundWorkspaces, read_workspaces


def task(name: str) -> Task:
    return Task(
        id=name,
        cron="0 9 * * *",
        prompt="planted-prompt",
        recurring=True,
        enabled=True,
        created_at=1,
        session_id="s1",
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the tasks of workspace ``side`` lie; nothing is there yet."""
    return Layout(state_dir=tmp_path).schedules("side")


def put(path: Path, text: str | None) -> None:
    """A file of that text; None: a folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir() if text is None else path.write_text(text)


def content(path: Path) -> str:
    return path.read_text()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_no_file_is_no_task(path: Path) -> None:
    """And a rule that changes nothing makes none."""
    file = ScheduleFile(path)
    assert () == await file.load()
    assert () == await file.change(lambda _: None)
    assert not path.parent.exists()


async def test_what_is_written_is_ours_alone_to_read(path: Path) -> None:
    """File 0600, both folders 0700, nothing left beside it; another run reads the same."""
    assert (task("a"),) == await ScheduleFile(path).change(lambda before: [*before, task("a")])
    assert (task("a"),) == await ScheduleFile(path).load()
    assert [0o600, 0o700, 0o700] == [mode(p) for p in (path, path.parent, path.parent.parent)]
    assert [path] == list(path.parent.iterdir())


async def test_changes_do_not_overtake_each_other(path: Path) -> None:
    """Each sees what the one before wrote."""
    file = ScheduleFile(path)
    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(file.change, lambda before, n=number: [*before, task(f"t{n}")])
    assert {f"t{n}" for n in range(8)} == {each.id for each in await file.load()}


async def test_a_rule_that_raises_changes_nothing(path: Path) -> None:
    """And the next one may go."""
    file = ScheduleFile(path)
    await file.change(lambda _: [task("a")])

    def broken(before: tuple[Task, ...]) -> None:
        raise KeyError(before)

    with pytest.raises(KeyError):
        await file.change(broken)
    assert (task("a"),) == await file.change(lambda _: None)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"v":1}', '{"v":1,"tasks":[{"id":"planted-prompt"}]}', "\0" * 4096]
)
async def test_a_malformed_file_is_an_error_and_stays(path: Path, text: str) -> None:
    """Never an empty list, never written over; its text is not repeated."""
    put(path, text)
    file = ScheduleFile(path)
    for attempt in (file.load, lambda: file.change(lambda before: [*before, task("a")])):
        with pytest.raises(StoreUnreadableError) as caught:
            await attempt()
        assert "planted" not in str(caught.value)
    assert text == content(path)


async def test_something_that_is_no_file(path: Path) -> None:
    """The same error."""
    put(path, None)
    with pytest.raises(StoreUnreadableError):
        await ScheduleFile(path).load()


async def test_a_write_that_fails_leaves_what_was(path: Path) -> None:
    """The folder was taken away: the error comes out, and nothing is half there."""
    file = ScheduleFile(path)
    await file.change(lambda _: [task("a")])
    path.parent.rename(path.parent.with_name("moved"))
    path.parent.write_text("in the way")
    with pytest.raises((OSError, StoreUnreadableError)):
        await file.change(lambda before: [*before, task("b")])
    path.parent.unlink()
    path.parent.with_name("moved").rename(path.parent)
    assert (task("a"),) == await file.load()


def found(tmp_path: Path, written: object, *, mode: int = 0o600) -> FoundWorkspaces:
    path = tmp_path / "workspaces.json"
    path.write_text(written if isinstance(written, str) else json.dumps(written))
    path.chmod(mode)
    return read_workspaces(path, tmp_path / "repo")


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """``repo`` (the primary), ``side``, ``dark``, a link to ``side`` and a file."""
    for name in ("repo", "side", "dark"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("side")
    (tmp_path / "file").touch()
    return tmp_path


def test_the_primary_is_always_there(folders: Path) -> None:
    """Under its canonical path, trusted, with no file and no complaint."""
    (folders / "alias").symlink_to("repo")
    got = read_workspaces(folders / "workspaces.json", folders / "alias")
    (main,) = got.workspaces
    expected = ("main", os.path.realpath(folders / "repo"), True, True)
    assert expected == (main.id, main.cwd, main.primary, main.trusted)
    assert () == got.problems


def test_others_are_untrusted_unless_said(folders: Path) -> None:
    """Their paths are canonical too."""
    entries = [
        {"id": "side", "cwd": str(folders / "link"), "trusted": True},
        {"id": "dark", "cwd": str(folders / "dark")},
    ]
    got = found(folders, {"v": 1, "workspaces": entries})
    real = os.path.realpath(folders)
    assert [("side", f"{real}/side", True), ("dark", f"{real}/dark", False)] == [
        (each.id, each.cwd, each.trusted) for each in got.workspaces[1:]
    ]
    assert not any(each.primary for each in got.workspaces[1:])


def test_a_faulty_entry_costs_itself(folders: Path) -> None:
    """One sentence each; those around it serve."""
    side = {"id": "side", "cwd": str(folders / "side")}
    faulty: list[object] = [
        *(5, {}, side | {"id": "a b"}, side | {"id": "main"}, side | {"trusted": "yes"}),
        *(side | {"cwd": cwd} for cwd in ("side", "/no/such", str(folders / "file"), "/a\0b", "~")),
        side | {"id": "again", "cwd": str(folders / "repo")},
        side | {"extra": 1},
    ]
    late: list[object] = [side | {"id": "twice"}, side | {"cwd": str(folders / "dark")}]
    got = found(folders, {"v": 1, "workspaces": [*faulty, side, *late]})
    assert ["main", "side"] == [each.id for each in got.workspaces]
    numbers = [*range(1, len(faulty) + 1), len(faulty) + 2, len(faulty) + 3]
    assert [f"Entry {n} of" for n in numbers] == [each.split(" /")[0] for each in got.problems]


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"v":2,"workspaces":[]}', '{"v":1}', "[" * 9999, " " * (1 << 20) + "{}"],
)
def test_a_file_that_cannot_be_used(folders: Path, content: str) -> None:
    """The primary serves alone, and one sentence says why."""
    got = found(folders, content)
    assert (1, 1) == (len(got.workspaces), len(got.problems))
    assert "is not used" in got.problems[0]


def test_a_file_that_others_may_write(folders: Path) -> None:
    """It decides where code runs; the sentence says how to mend it."""
    got = found(folders, {"v": 1, "workspaces": []}, mode=0o640)
    assert "chmod 600" in got.problems[0]


def test_no_file_at_the_end_of_the_path(folders: Path) -> None:
    """A folder, or a link to nothing, is not the same as no file."""
    (folders / "dir.json").mkdir(mode=0o700)
    (folders / "gone.json").symlink_to("nowhere")
    for name in ("dir.json", "gone.json"):
        assert 1 == len(read_workspaces(folders / name, folders / "repo").problems)
