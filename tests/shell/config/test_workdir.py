"""The working directory at start."""

from pathlib import Path

import pytest

from agentconnect.config import workdir
from agentconnect.core.errors import SettingsError


def test_the_default_is_made_and_announced_once(home: Path) -> None:
    """Nothing set: ``~/agents`` is made and said; the next start says nothing."""
    env = {"HOME": str(home)}
    first = workdir.prepare(None, env)
    assert (home / "agents").is_dir()
    assert (home / "agents").resolve() == first.path
    assert str(home / "agents") in first.announcement
    assert "" == workdir.prepare(None, env).announcement


def test_a_named_directory_is_never_made(tmp_path: Path) -> None:
    """A misspelt directory stops the start, by name, and is not created."""
    with pytest.raises(SettingsError, match="does not exist") as caught:
        workdir.prepare(tmp_path / "gone", {})
    assert str(tmp_path / "gone") in str(caught.value)
    assert not (tmp_path / "gone").exists()


def test_a_file_is_no_working_directory(tmp_path: Path) -> None:
    """A file in its place is told apart from nothing."""
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="is not a directory"):
        workdir.prepare(tmp_path / "file", {})


def test_a_default_that_cannot_be_made_is_refused(home: Path) -> None:
    """Something else in its place is said with the way out."""
    (home / "agents").write_text("in the way")
    with pytest.raises(SettingsError, match="AGENT_CONNECT_REPO"):
        workdir.prepare(None, {"HOME": str(home)})


@pytest.mark.parametrize("name", ["Documents", "Desktop", "Downloads"])
def test_folders_that_systems_guard_earn_a_warning(home: Path, name: str) -> None:
    """Below three folders of the home a warning names path, folder and way out, links or not."""
    inside = home / name / "project"
    inside.mkdir(parents=True)
    (home / "link").symlink_to(inside)
    for chosen in (inside, home / "link"):
        found = workdir.prepare(chosen, {"HOME": str(home)})
        assert inside.resolve() == found.path
        assert str(home / name) in found.warning
        assert "AGENT_CONNECT_REPO" in found.warning


def test_other_folders_earn_none(home: Path) -> None:
    """Only the first part below the home counts."""
    inside = home / "work" / "Documents"
    inside.mkdir(parents=True)
    assert "" == workdir.prepare(inside, {"HOME": str(home)}).warning
    assert "" == workdir.prepare(home, {"HOME": str(home)}).warning
