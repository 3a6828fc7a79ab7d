"""Every refusal that settings can give, told in one go (worker.md §3, §4)."""

import os
from pathlib import Path

import pytest

from agentconnect import checks
from agentconnect.config import settings as config
from agentconnect.config.settings import LoadedSettings
from agentconnect.core.errors import SettingsError

SECRET = "s3cret-of-this-test"


@pytest.fixture
def good(tmp_path: Path) -> dict[str, str]:
    """Settings that nothing is wrong with."""
    return {
        "HOME": str(tmp_path),
        "AGENT_CONNECT_TOKEN": f"https://gw.example/relay|{SECRET}",
        "AGENT_CONNECT_ADAPTER": "acp",
        "AGENT_CONNECT_ACP_AGENT": "claude",
        "AGENT_CONNECT_REPO": str(tmp_path),
    }


def loaded(env: dict[str, str], **changes: str) -> LoadedSettings:
    return config.load({**env, **changes}, {})


def test_good_settings_are_not_refused(good: dict[str, str]) -> None:
    """Nothing is said and nothing is raised."""
    assert () == checks.refusals(loaded(good))
    checks.refuse_wrong(loaded(good))


def test_a_broken_command_line_is_told_once(good: dict[str, str]) -> None:
    """It names the agent: that its name is no preset of ours is no second fault."""
    changes = {"AGENT_CONNECT_ACP_COMMAND": "a 'b", "AGENT_CONNECT_ACP_AGENT": "custom"}
    (told,) = checks.refusals(loaded(good, **changes))
    assert "never closed" in told


URL = "AGENT_CONNECT_ACP_URL"


@pytest.mark.parametrize(
    ("changes", "names", "fact"),
    [
        ({"AGENT_CONNECT_INSTANCE": "a b"}, "AGENT_CONNECT_INSTANCE", "1 to 32"),
        ({"AGENT_CONNECT_ACP_COMMAND": "a 'b"}, "AGENT_CONNECT_ACP_COMMAND", "never closed"),
        ({"AGENT_CONNECT_ADAPTER": "acq"}, "“acq”", "acp, cline, codex, kilo, ollama, omnigent"),
        ({"AGENT_CONNECT_ADAPTER": " "}, "AGENT_CONNECT_ADAPTER is not set", "config file"),
        ({"AGENT_CONNECT_REPO": "/no/such"}, "AGENT_CONNECT_REPO", "does not exist"),
        ({"AGENT_CONNECT_REPO": "/dev/null"}, "AGENT_CONNECT_REPO", "not a directory"),
        ({"AGENT_CONNECT_REPO": "/dev/null/x"}, "AGENT_CONNECT_REPO", "cannot be used"),
        ({"AGENT_CONNECT_REPO": "x" * 5000}, "AGENT_CONNECT_REPO", "cannot be used"),
        ({"AGENT_CONNECT_TOKEN": ""}, "AGENT_CONNECT_TOKEN is not set", "Agent Portal"),
        ({"AGENT_CONNECT_TOKEN": SECRET}, "AGENT_CONNECT_TOKEN", "REMOTE_TASK_URL"),
        ({"AGENT_CONNECT_TOKEN": "https://gw.example"}, "AGENT_CONNECT_TOKEN", "whole token"),
        ({"AGENT_CONNECT_TOKEN": "https://gw.example|"}, "AGENT_CONNECT_TOKEN", "whole token"),
        ({"AGENT_CONNECT_TOKEN": f"https://g|{SECRET} x"}, "AGENT_CONNECT_TOKEN", "ASCII"),
        ({"AGENT_CONNECT_TOKEN": f"ftp://g|{SECRET}"}, "AGENT_CONNECT_TOKEN: ", "http://"),
        (
            {"AGENT_CONNECT_TOKEN": f"http:/g|{SECRET}", "REMOTE_TASK_URL": "https://g"},
            "AGENT_CONNECT_TOKEN: ",
            "http://",
        ),
        ({"AGENT_CONNECT_TOKEN": f"https://u:p@g|{SECRET}"}, "AGENT_CONNECT_TOKEN", "user"),
        (
            {"AGENT_CONNECT_TOKEN": SECRET, "REMOTE_TASK_URL": "ftp://g"},
            "REMOTE_TASK_URL",
            "http://",
        ),
        ({"AGENT_CONNECT_TOKEN": "", "REMOTE_TASK_TOKEN": "x"}, "REMOTE_TASK_TOKEN", "URL"),
        ({URL: "http://127.0.0.1:1"}, URL, "ws://"),
        ({URL: "ws://u:p@127.0.0.1:1"}, URL, "AGENT_CONNECT_ACP_TOKEN"),
        ({URL: "wss://far.example"}, URL, "AGENT_CONNECT_ACP_ALLOW_REMOTE=1"),
        ({URL: "ws://far.example", "AGENT_CONNECT_ACP_ALLOW_REMOTE": "1"}, URL, "wss://"),
        ({URL: "ws://[::1", "AGENT_CONNECT_ACP_AGENT": ""}, URL, "URL"),
        ({URL: "ws://localhost", "AGENT_CONNECT_ACP_COMMAND": "a"}, URL, "_ACP_COMMAND"),
        (
            {URL: "ws://localhost", "AGENT_CONNECT_ACP_REMOTE_CWD": "here"},
            "AGENT_CONNECT_ACP_REMOTE_CWD",
            "absolute",
        ),
        (
            {URL: "ws://localhost", "AGENT_CONNECT_ACP_TOKEN": f"{SECRET} x"},
            "AGENT_CONNECT_ACP_TOKEN",
            "",
        ),
        ({"AGENT_CONNECT_ADAPTER": "ollama", "OLLAMA_HOST": "a b"}, "OLLAMA_HOST", ""),
    ],
)
def test_a_wrong_setting_is_one_sentence_with_its_name(
    good: dict[str, str], changes: dict[str, str], names: str, fact: str
) -> None:
    """Each kind of mistake is named with what would be right, and no secret is repeated."""
    (sentence,) = checks.refusals(loaded(good, **changes))
    assert names in sentence
    assert fact in sentence
    assert SECRET not in sentence
    assert "u:p" not in sentence
    assert sentence.isprintable()
    with pytest.raises(SettingsError) as caught:
        checks.refuse_wrong(loaded(good, **changes))
    assert 2 == caught.value.exit_code


def test_all_are_told_at_once_the_wrong_before_the_missing(good: dict[str, str]) -> None:
    """Whoever mends a config file mends it once."""
    wrong = {
        "AGENT_CONNECT_ADAPTER": "",
        "AGENT_CONNECT_TOKEN": "",
        "AGENT_CONNECT_INSTANCE": "../x",
        "AGENT_CONNECT_REPO": "/no/such",
    }
    told = checks.refusals(loaded(good, **wrong))
    first_words = [sentence.split()[0].rstrip(":") for sentence in told]
    assert [
        "AGENT_CONNECT_INSTANCE",
        "AGENT_CONNECT_REPO",
        "AGENT_CONNECT_ADAPTER",
        "AGENT_CONNECT_TOKEN",
    ] == first_words
    with pytest.raises(SettingsError) as caught:
        checks.refuse_wrong(loaded(good, **wrong))
    assert list(told) == str(caught.value).splitlines()


@pytest.mark.parametrize(("agent", "fact"), [("", "no agent is configured"), ("clod", "clod")])
def test_which_agent_runs_is_told_beside_the_rest_and_is_the_preflights_alone(
    good: dict[str, str], agent: str, fact: str
) -> None:
    """Alone it ends the start with the preflight's exit code; with others it is told along."""
    assert () == checks.refusals(loaded(good, AGENT_CONNECT_ACP_AGENT=agent))
    told = checks.refusals(
        loaded(good, AGENT_CONNECT_ACP_AGENT=agent, AGENT_CONNECT_REPO="/no/such")
    )
    assert 2 == len(told)
    assert fact in told[1]


def test_the_default_working_directory_is_only_refused_where_something_else_is_there(
    good: dict[str, str], tmp_path: Path
) -> None:
    """The start makes it; a check makes nothing."""
    del good["AGENT_CONNECT_REPO"]
    assert () == checks.refusals(loaded(good))
    assert not (tmp_path / "agents").exists()
    (tmp_path / "agents").write_text("")
    (sentence,) = checks.refusals(loaded(good))
    assert "agents is not a directory" in sentence


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_working_directory_that_may_not_be_read_is_refused(
    good: dict[str, str], tmp_path: Path
) -> None:
    """The agent could not even be started there."""
    (tmp_path / "closed").mkdir(mode=0o000)
    for name in ("closed", "closed/below"):
        (sentence,) = checks.refusals(loaded(good, AGENT_CONNECT_REPO=str(tmp_path / name)))
        assert "AGENT_CONNECT_REPO" in sentence
