"""Export folders are made for us alone and removed without following what is planted in them."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest
import trio

from agentconnect.core.task import SessionKey, Tier
from agentconnect.delivery.folders import ExportFolders
from tests.shell.delivery.rig import LATER, OWNER, Answer, Wall, put, running
from tests.support.fake_broker import open_broker

DAY_S = 86_400.0


@pytest.fixture
def folders(tmp_path: Path) -> ExportFolders:
    found = ExportFolders(tmp_path / "export")
    found.prepare()
    return found


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_made_for_us_alone(folders: ExportFolders) -> None:
    """Also where it was there with another mode."""
    folders.root.chmod(0o755)
    folders.prepare()
    made = Path(folders.make("w.r"))
    assert (0o700, 0o700) == (_mode(folders.root), _mode(made))
    (made / "a").write_bytes(b"")
    assert str(made) == folders.make("w.r")
    assert (made / "a").exists()


def test_a_link_in_the_place_of_a_folder_is_not_used(tmp_path: Path) -> None:
    """Neither for the root nor for a binding's folder."""
    aim = tmp_path / "aim"
    aim.mkdir()
    (tmp_path / "linked").symlink_to(aim)
    with pytest.raises(OSError):
        ExportFolders(tmp_path / "linked").prepare()
    folders = ExportFolders(tmp_path / "export")
    folders.prepare()
    (folders.root / "w.r").symlink_to(aim)
    with pytest.raises(OSError):
        folders.make("w.r")


def test_a_root_that_was_taken_away_is_made_again(folders: ExportFolders) -> None:
    """The agent may have tidied up."""
    folders.root.rmdir()
    assert Path(folders.make("w.r")).is_dir()
    assert 0o700 == _mode(folders.root)


def test_planted_links_are_not_followed(folders: ExportFolders, tmp_path: Path) -> None:
    """Links go; what they point to stays, folders of links included."""
    aim = tmp_path / "aim"
    (aim / "sub").mkdir(parents=True)
    (aim / "kept.txt").write_bytes(b"kept")
    made = Path(folders.make("w.r"))
    (made / "file").symlink_to(aim / "kept.txt")
    (made / "folder").symlink_to(aim)
    (made / "up").symlink_to("..")
    (made / "broken").symlink_to("nowhere")
    (made / "d").mkdir()
    (made / "d" / "folder").symlink_to(aim)
    (made / "hard").hardlink_to(aim / "kept.txt")
    folders.make("w.other")
    folders.remove("w.r")
    assert not made.exists()
    assert ["w.other"] == folders.names()
    assert b"kept" == (aim / "kept.txt").read_bytes()
    assert (aim / "sub").is_dir()


def test_a_link_in_the_place_of_a_removed_folder(folders: ExportFolders, tmp_path: Path) -> None:
    """The link itself goes."""
    aim = tmp_path / "aim"
    aim.mkdir()
    (aim / "kept").write_bytes(b"")
    (folders.root / "w.r").symlink_to(aim)
    folders.remove("w.r")
    assert [] == folders.names()
    assert (aim / "kept").exists()
    folders.remove("w.r")


def test_what_else_may_lie_in_a_folder(folders: ExportFolders) -> None:
    """Pipes, sockets, folders that may not be written to, odd names, very deep ones."""
    made = Path(folders.make("w.r"))
    os.mkfifo(made / "pipe")
    (made / "ro").mkdir()
    (made / "ro" / "inner").mkdir()
    (made / "ro" / "inner" / "a").write_bytes(b"")
    (made / "ro" / "inner").chmod(0o500)
    (made / "ro").chmod(0o500)
    (made / ".agent-connect-removing-").mkdir()
    os.close(os.open(os.fsencode(made) + b"/\xff\n", os.O_CREAT | os.O_WRONLY))
    at = os.open(made, os.O_RDONLY)
    for _ in range(3000):  # deeper than a path can say
        os.mkdir("d", dir_fd=at)
        deeper = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = deeper
    os.close(at)
    folders.remove("w.r")
    assert [] == folders.names()


async def test_a_folder_goes_with_its_binding(tmp_path: Path) -> None:
    """Expired: gone at the next start, unless a delivery in progress needs it; so does litter."""
    async with open_broker() as broker:
        wall = Wall()
        async with running(broker, tmp_path, wall=wall) as rig:
            wall.ahead_s = -30 * DAY_S - 60
            gone = await rig.bind(SessionKey(room="!old:h", tier=Tier.OWNER))
            wall.ahead_s = 0.0
            kept = await rig.bind()
            put(gone, "a.txt")
            put(kept, "a.txt")
            (rig.layout.export / f"{rig.store.worker_id}.{'0' * 32}").mkdir()
            (rig.layout.export / os.fsdecode(b"\xff")).mkdir()
        async with running(broker, tmp_path, wall=wall) as rig:
            assert [Path(kept.export_dir)] == list(rig.layout.export.iterdir())
            assert (Path(kept.export_dir) / "a.txt").exists()


async def test_a_folder_stays_while_a_delivery_needs_it(tmp_path: Path) -> None:
    """The binding is dropped; what was accepted still finds its file."""
    bob = SessionKey(room="!r:h", tier=Tier.GUEST, sender="@bob:h")
    async with open_broker() as broker:
        listed: dict[str, Any] = {"collaborators": frozenset({"@bob:h"}), "unchecked": True}
        async with running(broker, tmp_path, **listed) as rig:
            meta = await rig.bind(bob)
            broker.script("media", Answer(429, headers=LATER))
            told = await rig.send("x", meta.binding, files=[put(meta, "a.txt")])
            assert "retry" == told["outcome"]
        async with running(broker, tmp_path, keyed=False) as rig:
            broker.keyed()
            await rig.until(lambda: rig.entry("x")["outcome"] == "delivered")
        async with running(broker, tmp_path) as rig:
            await rig.until(lambda: not Path(meta.export_dir).exists())


async def test_folders_are_kept_while_the_store_cannot_be_read(tmp_path: Path) -> None:
    """It could not be said which are needed."""
    async with open_broker() as broker:
        async with running(broker, tmp_path) as rig:
            meta = await rig.bind()
            put(meta, "a.txt")
        whole = rig.layout.deliveries.read_bytes()
        rig.layout.deliveries.write_bytes(whole[:50])
        async with running(broker, tmp_path) as rig:
            assert (Path(meta.export_dir) / "a.txt").exists()


async def test_an_export_folder_that_cannot_be_made_gives_no_binding(tmp_path: Path) -> None:
    """The Session goes on without; nothing raises."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        rig.layout.export.rmdir()
        rig.layout.export.write_bytes(b"")
        assert await rig.desk.destinations.delivery(OWNER) is None
        with trio.fail_after(60):
            await rig.desk.destinations.destination(OWNER)
