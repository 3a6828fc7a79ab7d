"""Which files go out: those of the one binding's folder, judged on the descriptor (§5, §9.8)."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentconnect.core.delivery.ports import DeliveryMeta
from agentconnect.core.task import SessionKey, Tier
from tests.shell.delivery.rig import LATER, Answer, Rig, put, running
from tests.support.fake_broker import open_broker

OTHER = SessionKey(room="!other:h", tier=Tier.OWNER)


def _cross(mine: Path, theirs: Path) -> str:
    return (theirs / "theirs.txt").as_uri()


def _dots(mine: Path, theirs: Path) -> str:
    return f"{mine.as_uri()}/../{theirs.name}/theirs.txt"


def _encoded(mine: Path, theirs: Path) -> str:
    return f"{mine.as_uri()}/%2e%2e%2F{theirs.name}%2ftheirs.txt"


def _twice(mine: Path, theirs: Path) -> str:
    (mine / "a").mkdir()
    return f"{mine.as_uri()}/a/%252e%252e/%252e%252e/{theirs.name}/theirs.txt"


def _link(mine: Path, theirs: Path) -> str:
    (mine / "l.txt").symlink_to(theirs / "theirs.txt")
    return (mine / "l.txt").as_uri()


def _link_within(mine: Path, theirs: Path) -> str:
    (mine / "real.txt").write_bytes(b"mine")
    (mine / "l.txt").symlink_to("real.txt")
    return (mine / "l.txt").as_uri()


def _folder_link(mine: Path, theirs: Path) -> str:
    (mine / "d").symlink_to(theirs)
    return (mine / "d").as_uri() + "/theirs.txt"


def _hard(mine: Path, theirs: Path) -> str:
    (mine / "h.txt").hardlink_to(theirs / "theirs.txt")
    return (mine / "h.txt").as_uri()


def _outside(mine: Path, theirs: Path) -> str:
    (mine.parent.parent / "out.txt").write_bytes(b"out")
    return (mine.parent.parent / "out.txt").as_uri()


def _namesake(mine: Path, theirs: Path) -> str:
    (mine / "theirs.txt").write_bytes(b"mine")
    return (theirs / "theirs.txt").as_uri()


def _beside(mine: Path, theirs: Path) -> str:
    beside = mine.with_name(f"{mine.name}-more")
    beside.mkdir()
    (beside / "a.txt").write_bytes(b"a")
    return (beside / "a.txt").as_uri()


def _store(mine: Path, theirs: Path) -> str:
    return (mine.parent.parent / "deliveries.db").as_uri()


def _folder(mine: Path, theirs: Path) -> str:
    (mine / "d").mkdir()
    return (mine / "d").as_uri()


def _pipe(mine: Path, theirs: Path) -> str:
    os.mkfifo(mine / "p")
    return (mine / "p").as_uri()


def _itself(mine: Path, theirs: Path) -> str:
    return mine.as_uri()


def _big(mine: Path, theirs: Path) -> str:
    with (mine / "big").open("wb") as file:
        file.truncate(24 * 1024 * 1024 + 1)
    return (mine / "big").as_uri()


def _device(mine: Path, theirs: Path) -> str:
    return "file:///dev/zero"


def _renamed_folder(mine: Path, theirs: Path) -> str:
    """The agent puts another folder, or a link to it, in the place of its own."""
    mine.rename(mine.with_name("moved"))
    mine.symlink_to(theirs)
    return mine.as_uri() + "/theirs.txt"


@pytest.mark.parametrize(
    "plant",
    [
        *(_cross, _dots, _encoded, _twice, _link, _link_within, _folder_link, _hard, _outside),
        *(_namesake, _beside, _store, _folder, _pipe, _itself, _big, _device, _renamed_folder),
    ],
)
async def test_what_is_no_file_of_this_binding(
    tmp_path: Path, plant: Callable[[Path, Path], str]
) -> None:
    """Final, with a reason that gives nothing away, and nothing is sent."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        mine, theirs = await rig.bind(), await rig.bind(OTHER)
        put(theirs, "theirs.txt", b"secret of the other room")
        uri = plant(Path(mine.export_dir), Path(theirs.export_dir))
        told = await rig.send("x", mine.binding, "t", files=[{"uri": uri, "name": "n.txt"}])
        assert ("final", "rejected") == (told["outcome"], told["reason"])
        assert "secret" not in str(told)
        assert [] == broker.of("media") + broker.of("messages")


def _plain(meta: DeliveryMeta) -> str:
    return put(meta, "a.txt")["uri"]


def _localhost(meta: DeliveryMeta) -> str:
    return put(meta, "a.txt")["uri"].replace("file://", "FILE://LocalHost")


def _spelt(meta: DeliveryMeta) -> str:
    put(meta, "résumé 2%.txt")
    return Path(meta.export_dir).as_uri() + "//./r%C3%A9sum%C3%A9%202%25.txt"


def _deep(meta: DeliveryMeta) -> str:
    (Path(meta.export_dir) / "a" / "b").mkdir(parents=True)
    return put(meta, "a/b/c.txt")["uri"]


def _aliased(meta: DeliveryMeta) -> str:
    """Reached by a link above the folder, as a home on another disk is."""
    put(meta, "a.txt")
    root = Path(meta.export_dir).parent
    alias = root.parent / "alias"
    alias.symlink_to(root)
    return (alias / Path(meta.export_dir).name / "a.txt").as_uri()


@pytest.mark.parametrize("place", [_plain, _localhost, _spelt, _deep, _aliased])
async def test_a_file_of_this_binding(tmp_path: Path, place: Callable[[DeliveryMeta], str]) -> None:
    """However its address is spelt."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        told = await rig.send("x", meta.binding, files=[{"uri": place(meta)}])
        assert "delivered" == told["outcome"]
        assert 1 == len(broker.files)


async def test_an_old_binding_has_no_way_into_a_new_ones_folder(tmp_path: Path) -> None:
    """Each delivery reads below the folder of the binding it names."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        mine, other = await rig.bind(), await rig.bind(OTHER)
        file = put(other, "a.txt")
        assert "rejected" == (await rig.send("x", mine.binding, files=[file]))["reason"]
        assert "delivered" == (await rig.send("y", other.binding, files=[file]))["outcome"]
        assert ["!other:h"] == [file["room"] for file in broker.files]


@pytest.mark.parametrize("how", ["link", "other", "hard link"])
async def test_a_file_exchanged_between_judgement_and_post(tmp_path: Path, how: str) -> None:
    """It is opened and judged again, and has to be the bytes that were accepted."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        mine, theirs = await rig.bind(), await rig.bind(OTHER)
        put(theirs, "theirs.txt", b"secret")
        files = [put(mine, "a.txt"), put(mine, "b.txt")]
        broker.script("media", Answer(429, headers=LATER))
        assert "retry" == (await rig.send("x", mine.binding, files=files))["outcome"]
        path = Path(mine.export_dir) / "a.txt"
        path.unlink()
        stolen = Path(theirs.export_dir) / "theirs.txt"
        if how == "link":
            path.symlink_to(stolen)
        elif how == "hard link":
            path.hardlink_to(stolen)
        else:
            path.write_bytes(b"changed")
        _wake_all(rig)
        await rig.until(lambda: rig.entry("x")["outcome"] == "final")
        assert "rejected" == rig.entry("x")["reason"]
        assert [] == broker.files


async def test_names_and_types(tmp_path: Path) -> None:
    """The name shown is the upload's; a type only ends a name that has no ending."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        named = [
            put(meta, "a") | {"mimeType": "application/pdf"},
            put(meta, "b.bin") | {"mimeType": "application/pdf"},
            put(meta, "c") | {"name": "Bericht März.md"},
            put(meta, "d") | {"name": "..hidden"},
        ]
        assert "delivered" == (await rig.send("x", meta.binding, files=named))["outcome"]
        assert ["a.pdf", "b.bin", "Bericht_M_rz.md", "hidden"] == [
            file["filename"] for file in broker.files
        ]


def _wake_all(rig: Rig) -> Any:
    """Time passes for every delivery that waits."""
    for asleep in list(rig.desk._asleep.values()):
        asleep.set()
