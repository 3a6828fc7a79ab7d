"""How the texts of settings become values (worker.md §3)."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.config import settings
from agentconnect.config.settings import LoadedSettings, Settings, load
from agentconnect.config.table import TABLE
from agentconnect.core.errors import SettingsError

START = Path("/start")


def loaded(home: str = "/home/me", **env: str) -> LoadedSettings:
    return load({"HOME": home, **env}, {}, start_dir=START)


def test_an_empty_environment_gives_every_default() -> None:
    """With nothing set the worker has the documented defaults and nothing to complain about."""
    result = loaded()
    got = result.checked()
    assert () == result.warnings
    assert Path("/home/me/.agent-connect/workspace") == got.workspace
    assert ("default", "text", "refuse") == (got.instance, got.log, got.acp_execute)
    assert (15.0, 1.0, 3.0, 600.0, 300.0, 3600.0) == (
        got.status_heartbeat_s,
        got.poll_s,
        got.progress_throttle_s,
        got.turn_timeout_s,
        got.acp_keepalive_s,
        got.session_idle_s,
    )
    assert (10485760, 4000, 20, 8, 1) == (
        got.attachment_max_bytes,
        got.edit_ceiling,
        got.session_turns,
        got.acp_max_idle,
        got.acp_spare,
    )
    assert (True, True, False) == (got.live_progress, got.session_memory, got.acp_skip_auth_check)
    assert (None, None, None) == (got.repo, got.status_file, got.session_store)
    assert ((), (), ()) == (got.egress_roots, got.acp_command, got.media_origins)


def test_the_environment_wins_unless_it_is_blank() -> None:
    """A non-blank variable beats the file; a blank one counts as unset."""
    file = {"AGENT_CONNECT_ADAPTER": "acp", "AGENT_CONNECT_ACP_MODE": "plan"}
    result = load({"AGENT_CONNECT_ADAPTER": "codex", "AGENT_CONNECT_ACP_MODE": " \t"}, file)
    assert ("codex", "plan") == (result.settings.adapter, result.settings.acp_mode)
    assert "plan" == result.environment["AGENT_CONNECT_ACP_MODE"]


@pytest.mark.parametrize("text", ["", "  ", "\t"])
def test_a_blank_path_is_unset(text: str) -> None:
    """A blank value never becomes a folder that is named by blanks."""
    got = loaded(AGENT_CONNECT_REPO=text, AGENT_CONNECT_WORKSPACE=text).settings
    assert got.repo is None
    assert Path("/home/me/.agent-connect/workspace") == got.workspace


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("~", "/home/me"),
        ("~/x y", "/home/me/x y"),
        ("here", "/start/here"),
        ("../up/./a", "/up/a"),
        ("/abs/", "/abs"),
        (" /abs ", "/abs"),
        ("~nobody-of-this-name/x", "/start/~nobody-of-this-name/x"),
        ("$HOME/x", "/start/$HOME/x"),
    ],
)
def test_paths_are_absolute_and_know_the_home(text: str, path: str) -> None:
    """``~`` is expanded, a relative path begins where the worker was started, no more."""
    assert Path(path) == loaded(AGENT_CONNECT_REPO=text).settings.repo


@pytest.mark.parametrize("text", ["0", "false", " NO ", "Off"])
def test_words_that_switch_off(text: str) -> None:
    """Four words in any case switch a flag off."""
    assert not loaded(AGENT_CONNECT_LIVE_PROGRESS=text).settings.live_progress


@pytest.mark.parametrize("text", ["1", "true", "YES", " on "])
def test_words_that_switch_on(text: str) -> None:
    """Four words in any case switch a flag on."""
    assert loaded(AGENT_CONNECT_ACP_SKIP_AUTH_CHECK=text).settings.acp_skip_auth_check


def test_any_other_word_leaves_a_flag_at_its_default() -> None:
    """A word that is neither on nor off changes nothing."""
    got = loaded(
        AGENT_CONNECT_LIVE_PROGRESS="maybe", AGENT_CONNECT_ACP_SKIP_AUTH_CHECK="maybe"
    ).settings
    assert (True, False) == (got.live_progress, got.acp_skip_auth_check)


@pytest.mark.parametrize(
    "text", ["-1", "1.5", "ten", "1e3", "0x10", "1_000", "٣", "9" * 5000, "inf"]
)
def test_a_bad_whole_number_costs_a_warning_and_nothing_more(text: str) -> None:
    """The default is used; the warning names setting, value and default."""
    result = loaded(AGENT_CONNECT_EDIT_CEILING=text)
    assert 4000 == result.checked().edit_ceiling
    assert 1 == len(result.warnings)
    assert "AGENT_CONNECT_EDIT_CEILING" in result.warnings[0]
    assert text[:50] in result.warnings[0]
    assert "4000" in result.warnings[0]


@pytest.mark.parametrize("text", ["-0.1", "nan", "inf", "1e999", "1,5", "5s", "1_0"])
def test_a_bad_number_costs_a_warning_and_nothing_more(text: str) -> None:
    """Infinite, negative and unreadable numbers give the default."""
    result = loaded(AGENT_CONNECT_POLL=text)
    assert 1.0 == result.checked().poll_s
    assert 1 == len(result.warnings)


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0.0), (" 2.5 ", 2.5), ("1e1", 10.0), (".5", 0.5)]
)
def test_plain_numbers_are_read(text: str, value: float) -> None:
    """Decimal and scientific forms are numbers."""
    assert value == loaded(AGENT_CONNECT_TURN_TIMEOUT=text).settings.turn_timeout_s


def test_zero_is_bad_where_a_number_must_be_above_it() -> None:
    """A heartbeat of nothing is no promise."""
    result = loaded(AGENT_CONNECT_STATUS_HEARTBEAT="0")
    assert 15.0 == result.settings.status_heartbeat_s
    assert "above 0" in result.warnings[0]


def test_an_unknown_choice_falls_back_to_the_safe_default() -> None:
    """A misspelt word never widens what is allowed."""
    result = loaded(AGENT_CONNECT_ACP_EXECUTE="alow", AGENT_CONNECT_LOG="JSON")
    assert ("refuse", "json") == (result.settings.acp_execute, result.settings.log)
    assert "refuse, allow" in result.warnings[0]


@pytest.mark.parametrize("name", ["a b", "x" * 33, "é", "a/b", "..", "a\n"])
def test_a_bad_instance_name_is_refused_by_name(name: str) -> None:
    """It is refused only when asked for, so that the status file can tell it too."""
    result = loaded(AGENT_CONNECT_INSTANCE=f"{name}x" if name == "a\n" else name)
    assert 1 == len(result.refusals)
    with pytest.raises(SettingsError, match="AGENT_CONNECT_INSTANCE") as caught:
        result.checked()
    assert "32" in str(caught.value)
    assert 2 == caught.value.exit_code


def test_commands_are_split_like_shell_words() -> None:
    """Quotes hold words together; nothing is expanded."""
    got = loaded(AGENT_CONNECT_ACP_COMMAND="my-agent --name 'a b' $HOME *").checked()
    assert ("my-agent", "--name", "a b", "$HOME", "*") == got.acp_command


def test_an_open_quote_in_the_command_is_refused() -> None:
    """The sentence names the setting and not the command, which may hold a key."""
    with pytest.raises(SettingsError, match="AGENT_CONNECT_ACP_COMMAND") as caught:
        loaded(AGENT_CONNECT_ACP_COMMAND="agent --key s3cret 'x").checked()
    assert "s3cret" not in str(caught.value)


def test_egress_roots_drop_blanks_and_repeats() -> None:
    """The list is kept in order, each entry once, the home expanded."""
    text = os.pathsep.join(["~/out", "", " /srv ", "~/out", "rel"])
    got = loaded(AGENT_CONNECT_EGRESS_ROOTS=text).settings
    assert ("/home/me/out", "/srv", "rel") == got.egress_roots


def test_a_media_origin_must_be_an_origin() -> None:
    """Anything with a path, a user or another scheme is ignored aloud, without its text."""
    text = "https://M.example http://h:81 ftp://x https://u:p@h https://h/path https://[::1]:5"
    result = loaded(AGENT_CONNECT_MEDIA_ORIGINS=text)
    assert ("https://m.example", "http://h:81", "https://[::1]:5") == result.settings.media_origins
    assert 3 == len(result.warnings)
    assert not any("u:p" in warning for warning in result.warnings)


def test_the_new_token_name_wins_over_the_old_one() -> None:
    """Each name alone gives the credential; together the new name wins."""
    both = loaded(AGENT_CONNECT_TOKEN="new", REMOTE_TASK_TOKEN="old").settings
    old = loaded(REMOTE_TASK_TOKEN="old").settings
    assert ("new", "AGENT_CONNECT_TOKEN") == both.credential
    assert ("old", "REMOTE_TASK_TOKEN") == old.credential


def test_every_wrong_setting_is_kept_and_not_the_first_only() -> None:
    """One start tells all that has to be mended, a sentence a line."""
    result = loaded(AGENT_CONNECT_INSTANCE="a b", AGENT_CONNECT_ACP_COMMAND="agent 'x")
    with pytest.raises(SettingsError) as caught:
        result.checked()
    lines = str(caught.value).splitlines()
    assert ["AGENT_CONNECT_INSTANCE", "AGENT_CONNECT_ACP_COMMAND"] == [s.split()[0] for s in lines]


def test_a_relative_config_file_is_known_by_its_full_path() -> None:
    """It is watched for a new token and never sent, wherever the worker goes later."""
    file = {"AGENT_CONNECT_TOKEN": "https://gw.example/relay|s"}
    result = load({}, file, start_dir=START, config_file=Path("config.env"))
    assert (START / "config.env", START / "config.env") == (result.config_file, result.token_file)


def test_secrets_are_not_in_any_repr() -> None:
    """A settings object in a log or a traceback shows no token."""
    result = loaded(AGENT_CONNECT_TOKEN="https://r|s3cret", REMOTE_TASK_TOKEN="s3cret")
    assert "s3cret" not in repr(result)
    assert "s3cret" not in repr(result.settings)
    assert "s3cret" not in f"{result.settings}"
    assert {"AGENT_CONNECT_TOKEN", "REMOTE_TASK_TOKEN"} <= settings.secret_names()


@given(st.dictionaries(st.sampled_from([setting.name for setting in TABLE]), st.text(max_size=40)))
def test_any_texts_give_settings(values: dict[str, str]) -> None:
    """Whatever is typed, reading ends in settings; only ``checked`` may refuse."""
    result = load({"HOME": "/home/me"}, values, start_dir=START)
    assert isinstance(result.settings, Settings)
    assert result.settings.status_heartbeat_s > 0
    assert result.settings.workspace.is_absolute()


def test_the_config_file_is_the_token_file_only_where_the_token_came_from_it() -> None:
    """A rotation is read from the file; a token of the environment has no file to watch."""
    path = Path("/etc/worker.env")
    file = {"AGENT_CONNECT_TOKEN": "https://gw.example/relay|in-the-file"}
    from_file = load({}, file, config_file=path)
    assert (path, path) == (from_file.token_file, from_file.config_file)
    assert str(path) in from_file.credential_layer
    outer = load({"AGENT_CONNECT_TOKEN": "https://gw.example/relay|outer"}, file, config_file=path)
    assert (None, path) == (outer.token_file, outer.config_file)
    assert "environment" in outer.credential_layer
    older = load({"REMOTE_TASK_TOKEN": "https://gw.example/relay|outer"}, file, config_file=path)
    assert path == older.token_file
    for told in (from_file, outer, older):
        assert "in-the-file" not in f"{told!r}{told.credential_layer}"
