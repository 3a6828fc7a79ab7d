"""``access.json`` as a file: taken up when it changes, never a door when it breaks."""

import logging
import os
from pathlib import Path

import pytest

from agentconnect.core.turns.access import Rank
from agentconnect.store.access import AccessFile

USER = "@a:x"
CAPPED = '{"tierMap": {"@a:x": "guest"}}'
OPEN = '{"tierMap": {"@a:x": "owner"}}'


class Rig:
    """The file, what was said of it, and a wall clock that stands still."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "access.json"
        self.said: list[str] = []
        self.now = 4e9  # long after every file: nothing is young
        self.access = AccessFile(self.path, self.said.append, wall_now=lambda: self.now)

    def write(self, text: str) -> None:
        """As an editor does: another file under the same name."""
        fresh = self.path.with_name("fresh")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(self.path)

    def cap(self) -> Rank:
        return self.access.cap(USER)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_no_file_caps_nobody(rig: Rig) -> None:
    """The file is optional."""
    assert rig.cap() is Rank.OWNER
    assert [] == rig.said


def test_a_revocation_needs_no_restart(rig: Rig) -> None:
    """Written, changed, deleted: each is in force with the next task."""
    rig.write(CAPPED)
    assert rig.cap() is Rank.GUEST
    rig.write(OPEN)
    assert rig.cap() is Rank.OWNER
    rig.write(CAPPED)
    assert rig.cap() is Rank.GUEST
    rig.path.unlink()
    assert rig.cap() is Rank.OWNER


def test_the_last_good_map_stays(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """A broken edit neither opens nor closes anything, and is said once."""
    rig.write(CAPPED)
    rig.cap()
    rig.write("{")
    for _ in range(3):
        assert rig.cap() is Rank.GUEST
        assert rig.access.cap("@b:x") is Rank.OWNER
    (sentence,) = rig.said
    assert "last good one" in sentence
    assert 1 == caplog.text.count(sentence)
    rig.write(OPEN)
    assert rig.cap() is Rank.OWNER
    assert "" == rig.said[-1]


def test_broken_at_first_sight_makes_everybody_a_guest(rig: Rig) -> None:
    """Nobody can say what the owner meant, so nobody is let in; mending it is enough."""
    rig.write("nonsense")
    assert rig.cap() is Rank.GUEST
    assert rig.access.cap("@owner:x") is Rank.GUEST
    assert "everybody is a guest" in rig.said[0]
    rig.write(OPEN)
    assert rig.cap() is Rank.OWNER


def test_a_map_that_was_deleted_is_no_last_good_one(rig: Rig) -> None:
    """Deleted and made again in error: the owner wants caps, and which ones is not known."""
    rig.write(OPEN)
    rig.cap()
    rig.path.unlink()
    rig.cap()
    rig.write("{")
    assert rig.cap() is Rank.GUEST


@pytest.mark.parametrize("what", ["folder", "pipe", "huge", "link"])
def test_what_is_no_file_of_text_is_broken(rig: Rig, what: str) -> None:
    """A folder, a pipe nobody writes to, a huge file, a link to nothing: nobody is let in."""
    if what == "folder":
        rig.path.mkdir()
    elif what == "pipe":
        os.mkfifo(rig.path)
    elif what == "huge":
        rig.write(" " * (2 << 20))
    else:
        rig.path.symlink_to(rig.path.with_name("nowhere"))
    assert rig.cap() is Rank.GUEST


def test_each_new_fault_is_said_again(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Once per change, not once per process and not once per task."""
    for text in ("{", "[", '{"tierMap": {"@a:x": "boss"}}'):
        rig.write(text)
        rig.cap()
        rig.cap()
    assert 3 == len(rig.said)
    assert "@a:x" in rig.said[-1]
    assert 3 == len([record for record in caplog.records if record.levelno == logging.WARNING])


def test_a_young_file_is_read_again_though_its_times_are_the_same(rig: Rig) -> None:
    """Two edits within one tick of the clock have the same times: the second one counts."""
    rig.write(OPEN)
    found = rig.path.stat()
    rig.now = found.st_mtime
    assert rig.cap() is Rank.OWNER
    with rig.path.open("r+", encoding="utf-8") as file:
        file.write(CAPPED)  # same size, same inode
    os.utime(rig.path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert rig.cap() is Rank.GUEST
    assert [] == [sentence for sentence in rig.said if sentence]
