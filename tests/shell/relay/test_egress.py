"""The described cases of ``cases/egress.md``, and what is always refused."""

import os
import threading
from pathlib import Path

import pytest

from agentconnect.core.task import TaskId
from agentconnect.relay.egress import LIMIT_BYTES, Egress, Outgoing, Refusal
from agentconnect.relay.pictures import Pictures

MIB = 1024 * 1024


def _tree(at: Path, tree: str) -> None:
    """``a=bytes`` file, ``a/`` folder, ``a>b`` link, ``a&b`` hard link, ``a|`` pipe."""
    for entry in tree.split():
        if entry.endswith("/"):
            (at / entry).mkdir(parents=True, exist_ok=True)
        elif entry.endswith("|"):
            os.mkfifo(_parent(at / entry[:-1]))
        elif ">" in entry:
            name, target = entry.split(">")
            _parent(at / name).symlink_to(at / target)
        elif "&" in entry:
            name, target = entry.split("&")
            _parent(at / name).hardlink_to(at / target)
        else:
            name, size = entry.split("=")
            with _parent(at / name).open("wb") as file:
                file.truncate(int(size))


def _parent(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


A = "proj/a.txt=1"
CASES: list[tuple[int, str, list[str], str, str, int | None, tuple[str, int] | str]] = [
    (1, A, ["@/proj"], "@/proj/a.txt", "", None, ("@/proj/a.txt", 1)),
    (2, "proj/sub/a.txt=1", ["@/proj"], "sub/a.txt", "@/proj", None, ("@/proj/sub/a.txt", 1)),
    (3, A, ["@/proj"], "a.txt", "", None, "relative_without_base"),
    (4, f"{A} else/", ["@/proj"], "../proj/a.txt", "@/else", None, ("@/proj/a.txt", 1)),
    (5, "proj/ b.txt=1", ["@/proj"], "../b.txt", "@/proj", None, "outside"),
    (6, "proj/ proj-evil/a.txt=1", ["@/proj"], "@/proj-evil/a.txt", "", None, "outside"),
    (7, "proj/ home/id_key=1", ["@/proj"], "@/home/id_key", "", None, "outside"),
    (8, "proj/ out/a.txt=1", ["@/proj", "@/out"], "@/out/a.txt", "", None, ("@/out/a.txt", 1)),
    (9, A, [], "@/proj/a.txt", "", None, "no_roots"),
    (10, A, ["/"], "@/proj/a.txt", "", None, "no_roots"),
    (11, A, ["@/prjo"], "@/proj/a.txt", "", None, "no_roots"),
    (12, "proj/ home/k=1 proj/l>home/k", ["@/proj"], "@/proj/l", "", None, "outside"),
    (13, f"{A} proj/l>proj/a.txt", ["@/proj"], "@/proj/l", "", None, ("@/proj/a.txt", 1)),
    (14, "proj/ home/k=1 proj/d>home", ["@/proj"], "@/proj/d/k", "", None, "outside"),
    (15, "real/a.txt=1 proj>real", ["@/proj"], "@/proj/a.txt", "", None, ("@/real/a.txt", 1)),
    (16, "proj/ proj/l>proj/none", ["@/proj"], "@/proj/l", "", None, "missing"),
    (17, "proj/ home/k=1 proj/h&home/k", ["@/proj"], "@/proj/h", "", None, "multi_linked"),
    (18, "proj/", ["@/proj"], "@/proj/none.txt", "", None, "missing"),
    (19, A, ["@/proj"], "@/proj/a.txt/b", "", None, "swapped"),
    (20, "proj/d/", ["@/proj"], "@/proj/d", "", None, "not_regular"),
    (21, A, ["@/proj"], "@/proj", "", None, "outside"),
    (22, "proj/p|", ["@/proj"], "@/proj/p", "", None, "not_regular"),
    (23, "proj/", ["@/proj"], "/dev/zero", "", None, "outside"),
    (24, "proj/", ["@/proj"], "  ", "", None, "no_path"),
    (25, "proj/", ["@/proj"], "@/proj/a\0.txt", "", None, "not_a_path"),
    (26, "proj/b=100", ["@/proj"], "@/proj/b", "", 100, ("@/proj/b", 100)),
    (27, "proj/b=101", ["@/proj"], "@/proj/b", "", 100, "too_big"),
    (28, f"proj/b={24 * MIB}", ["@/proj"], "@/proj/b", "", None, ("@/proj/b", 24 * MIB)),
    (29, f"proj/b={24 * MIB + 1}", ["@/proj"], "@/proj/b", "", None, "too_big"),
    (30, f"proj/b={30 * MIB}", ["@/proj"], "@/proj/b", "", 0, ("@/proj/b", 30 * MIB)),
    (31, "proj/e=0", ["@/proj"], "@/proj/e", "", None, ("@/proj/e", 0)),
    (32, f"{A} proj/s/", ["@/proj"], "@/proj/s/../a.txt", "", None, ("@/proj/a.txt", 1)),
    (33, "", ["@/proj"], "@/proj/résumé 2.txt", "", None, ("@/proj/résumé 2.txt", 1)),
]


@pytest.mark.parametrize(
    ("number", "tree", "roots", "asked", "base", "limit", "expected"),
    CASES,
    ids=[str(case[0]) for case in CASES],
)
def test_the_described_cases(
    tmp_path: Path,
    number: int,
    tree: str,
    roots: list[str],
    asked: str,
    base: str,
    limit: int | None,
    expected: tuple[str, int] | str,
) -> None:
    """Each row of the table: allowed with its resolved path and size, or refused with its code."""
    at = tmp_path.resolve()
    _tree(at, tree)
    if number == 33:
        _parent(at / "proj/résumé 2.txt").write_bytes(b"x")

    def place(text: str) -> str:
        return text.replace("@", str(at))

    egress = Egress([place(root) for root in roots], limit=LIMIT_BYTES if limit is None else limit)
    found = egress.read(place(asked), place(base))
    if isinstance(expected, str):
        assert isinstance(found, Refusal)
        assert found.code == expected
    else:
        assert isinstance(found, Outgoing)
        assert (found.path, len(found.content)) == (place(expected[0]), expected[1])


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        ".env.local",
        ".ENV",
        ".netrc",
        ".git-credentials",
        "id_rsa",
        "id_ed25519_sk",
        "sub/.ssh/config",
        ".gnupg/x",
        ".aws/credentials",
        ".git/config",
        "state/status.json",
        "config.env",
        "renamed.txt",
    ],
)
def test_secrets_inside_a_root_are_refused(tmp_path: Path, name: str) -> None:
    """Well-known names, the state folder, and the config file by its identity."""
    root = tmp_path / "proj"
    _parent(root / name).write_bytes(b"secret")
    config = root / "config.env"
    config.write_bytes(b"TOKEN=x")
    if name == "renamed.txt":
        (root / name).unlink()
        config.rename(root / name)
        config = root / name
    egress = Egress([str(root)], private_folders=[str(root / "state")], private_files=[str(config)])
    found = egress.read(name, str(root))
    assert isinstance(found, Refusal)
    assert found.code == "private"


def test_the_list_of_roots_cannot_be_widened(tmp_path: Path) -> None:
    """No attribute of it can be set or deleted."""
    egress = Egress([str(tmp_path)])
    for name in ("_roots", "_limit", "new"):
        with pytest.raises(AttributeError):
            setattr(egress, name, ("/",))
    with pytest.raises(AttributeError):
        del egress._roots


def test_dropped_roots_are_named_as_typed(tmp_path: Path) -> None:
    """Blank, missing, a file and `/` are dropped; repeats count once."""
    file = tmp_path / "file"
    file.write_bytes(b"")
    egress = Egress(["", "/", str(tmp_path / "none"), str(file), str(tmp_path), str(tmp_path)])
    assert egress.dropped == ("", "/", str(tmp_path / "none"), str(file))


def test_a_link_swapped_in_while_we_look_is_never_followed(tmp_path: Path) -> None:
    """A file that keeps turning into a link to a secret: its own bytes, or a refusal."""
    root = tmp_path / "proj"
    root.mkdir()
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    target, spare = root / "f", root / "spare"
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            spare.write_bytes(b"good")
            spare.replace(target)
            spare.symlink_to(secret)
            spare.replace(target)

    thread = threading.Thread(target=swap)
    thread.start()
    egress = Egress([str(root)])
    try:
        found = [egress.read(str(target)) for _ in range(2000)]
    finally:
        stop.set()
        thread.join()
    contents = {item.content for item in found if isinstance(item, Outgoing)}
    assert contents <= {b"good"}


def test_a_link_in_the_place_of_a_tasks_own_folder_leads_nowhere(tmp_path: Path) -> None:
    """Planted as ``inline/<task>``, it opens neither the state folder, another task's nor ours."""
    state, home = tmp_path / "state", tmp_path / "home"
    for file in (state / "journal.db", state / "inline/t2/a.png", home / "id"):
        _parent(file).write_bytes(b"secret")
    egress = Egress([], private_folders=[str(state)])
    own = state / "inline" / "t1"
    for place, name in ((state, "journal.db"), (state / "inline/t2", "a.png"), (home, "id")):
        own.symlink_to(place)
        for asked in (own / name, place / name):
            found = egress.read(str(asked), own=str(own))
            assert isinstance(found, Refusal)
            assert found.code == "outside"
        own.unlink()
    own.mkdir()
    (own / "a.png").write_bytes(b"mine")
    assert isinstance(egress.read(str(own / "a.png"), own=str(own)), Outgoing)


def test_a_tasks_own_folder_swapped_for_a_link_while_we_look(tmp_path: Path) -> None:
    """Judged as a folder, opened as a link: refused, whatever lies behind it by the same name."""
    own, home = tmp_path / "inline" / "t1", tmp_path / "home"
    for folder in (own, home):
        folder.mkdir(parents=True)
        (folder / "a.png").write_bytes(folder.name.encode())
    spare = tmp_path / "spare"
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            own.rename(spare)
            own.symlink_to(home)
            own.unlink()
            spare.rename(own)

    thread = threading.Thread(target=swap)
    thread.start()
    egress = Egress([])
    try:
        found = [egress.read(str(own / "a.png"), own=str(own)) for _ in range(2000)]
    finally:
        stop.set()
        thread.join()
    assert {item.content for item in found if isinstance(item, Outgoing)} <= {b"t1"}


async def test_a_link_in_the_place_of_a_tasks_own_folder_costs_its_target_nothing(
    tmp_path: Path,
) -> None:
    """Neither the end of the task nor the next start removes what it points to."""
    home = tmp_path / "home"
    _parent(home / "id").write_bytes(b"kept")
    link = _parent(tmp_path / "inline" / "t1")
    link.symlink_to(home)
    pictures = Pictures(tmp_path / "inline")
    await pictures.release(TaskId("t1"))
    await pictures.sweep(lambda task_id: False)
    assert (home / "id").read_bytes() == b"kept"
    assert not link.is_symlink()
