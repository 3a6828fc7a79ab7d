"""The config file: found, read, refused and warned about (the grammar's lines are in cases/)."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.config import envfile
from agentconnect.config.envfile import About
from agentconnect.core.errors import SettingsError


def test_a_file_that_is_not_utf8_is_refused_by_path_and_line(tmp_path: Path) -> None:
    """Bytes that are no text stop the start with a sentence that shows none of them."""
    path = tmp_path / "config.env"
    path.write_bytes(b"AGENT_CONNECT_ADAPTER=acp\nAGENT_CONNECT_TOKEN=s3cret\xff\n")
    with pytest.raises(SettingsError) as caught:
        envfile.read(path)
    sentence = str(caught.value)
    assert str(path) in sentence
    assert "line 2" in sentence
    assert "s3cret" not in sentence


def test_a_nul_in_an_accepted_value_is_refused(tmp_path: Path) -> None:
    """No environment can carry a NUL, so it is said at once and by name."""
    path = tmp_path / "config.env"
    path.write_bytes(b"AGENT_CONNECT_TOKEN=a\0b\n")
    with pytest.raises(SettingsError, match="NUL character in AGENT_CONNECT_TOKEN"):
        envfile.read(path)


def test_a_nul_elsewhere_is_no_reason_to_stop(tmp_path: Path) -> None:
    """A NUL in a comment or an ignored line costs nothing."""
    path = tmp_path / "config.env"
    path.write_bytes(b"# \0\nPATH=\0\nAGENT_CONNECT_ADAPTER=acp\n")
    assert {"AGENT_CONNECT_ADAPTER": "acp"} == envfile.read(path).parsed.values


def test_an_unreadable_file_is_refused_with_the_cause(tmp_path: Path) -> None:
    """Whatever the system says about the file reaches the owner with its path."""
    with pytest.raises(SettingsError, match="cannot be read") as caught:
        envfile.read(tmp_path / "gone.env")
    assert str(tmp_path / "gone.env") in str(caught.value)


def test_other_line_separators_do_not_end_a_line() -> None:
    """Only LF, CRLF and CR end a line; a value may hold any other separator of Unicode."""
    value = "a\u2028b\x0bc\x0cd\x85e"
    assert {"AGENT_CONNECT_ADAPTER": value} == envfile.parse(
        f"AGENT_CONNECT_ADAPTER={value}\n"
    ).values


def test_values_keep_file_order_of_first_appearance() -> None:
    """A repeated name keeps its first place and takes its last value."""
    parsed = envfile.parse("OLLAMA_HOST=1\nAGENT_CONNECT_LOG=json\nOLLAMA_HOST=2\n")
    assert ["OLLAMA_HOST", "AGENT_CONNECT_LOG"] == list(parsed.values)
    assert "2" == parsed.values["OLLAMA_HOST"]


def test_export_in_front_of_a_name_is_taken_off_once() -> None:
    """A pasted shell line is read; the word alone is a name like any other."""
    parsed = envfile.parse("export\tAGENT_CONNECT_LOG=json\nexport=1\nexport export A=1\n")
    assert {"AGENT_CONNECT_LOG": "json"} == parsed.values
    assert ("export",) == parsed.ignored
    assert (3,) == parsed.unread_lines


def test_lines_that_set_nothing_are_named_by_number_only(tmp_path: Path) -> None:
    """A line may be a token pasted alone: its number is said, its text never."""
    path = tmp_path / "config.env"
    path.write_text("AGENT_CONNECT_ADAPTER: acp\n\nhttps://relay.example/r|s3cret\n")
    path.chmod(0o600)
    notices = envfile.warnings(envfile.read(path), known=["AGENT_CONNECT_ADAPTER"])
    assert [About.UNREAD] == [notice.about for notice in notices]
    assert "lines 1, 3" in notices[0].sentence
    assert "s3cret" not in notices[0].sentence


def test_misspelt_and_retired_settings_are_named(tmp_path: Path) -> None:
    """A setting nobody reads is said, and a retired one is told apart from a misspelt one."""
    path = tmp_path / "config.env"
    path.write_text("AGENT_CONNECT_TOKNE=x\nAGENT_CONNECT_TASK_DIR=/t\nAGENT_CONNECT_LOG=json\n")
    path.chmod(0o600)
    notices = envfile.warnings(
        envfile.read(path), known=["AGENT_CONNECT_LOG"], retired=["AGENT_CONNECT_TASK_DIR"]
    )
    assert [
        (About.RETIRED, ("AGENT_CONNECT_TASK_DIR",)),
        (About.UNKNOWN, ("AGENT_CONNECT_TOKNE",)),
    ] == [(notice.about, notice.keys) for notice in notices]


def test_the_line_after_applying_names_what_the_environment_kept() -> None:
    """One line tells the path, the count and, only if any, the names that were already set."""
    values = {"AGENT_CONNECT_LOG": "json", "AGENT_CONNECT_REPO": "/r"}
    alone = envfile.apply(values, {})
    assert "config: /c.env: 2 settings applied" == envfile.applied_line(Path("/c.env"), alone)
    mixed = envfile.apply(values, {"AGENT_CONNECT_LOG": "text"})
    line = envfile.applied_line(Path("/c.env"), mixed)
    assert "1 setting applied" in line
    assert line.endswith("1 already set in the environment: AGENT_CONNECT_LOG")


def test_the_default_place_that_is_a_directory_counts_as_absent(home: Path) -> None:
    """Only a regular file is a config file."""
    (home / ".agent-connect" / "config.env").mkdir(parents=True)
    assert envfile.locate(None, {"HOME": str(home)}) is None


def test_a_strange_path_is_refused_and_never_a_traceback() -> None:
    """A name that no file system can hold is a missing file."""
    for named in ("/" + "x" * 5000, "/a\0b"):
        with pytest.raises(SettingsError, match="is not there"):
            envfile.locate(named, {})


def test_reprs_hide_values() -> None:
    """What gets logged by accident holds no value of a file."""
    parsed = envfile.parse("AGENT_CONNECT_TOKEN=s3cret\n")
    assert "s3cret" not in repr(parsed)
    assert "s3cret" not in repr(envfile.apply(parsed.values, {"X": "s3cret"}))


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    """The parser takes any text, names only what it met, and keeps no blank around a bare value."""
    parsed = envfile.parse(text)
    assert not set(parsed.values).intersection(parsed.ignored)
    assert set(parsed.duplicated) <= set(parsed.values)
    assert all(key in text for key in parsed.values)
