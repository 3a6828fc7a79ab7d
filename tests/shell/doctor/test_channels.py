"""doctor and channels: what each workspace's file gives, without a secret, a target or a try."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentconnect.config import settings
from agentconnect.core.doctor import Finding, Level
from agentconnect.core.relay import credential
from agentconnect.doctor import channels
from agentconnect.store.layout import Layout

ON = {"AGENT_CONNECT_DAEMON_LISTEN": "127.0.0.1:0"}
PHONE = {"type": "telegram", "token_env": "PHONE"}
TOKEN = "https://relay.example|planted-relay-secret"
LABEL = "planted-label"


def look(home: Path, token: str = "", **values: str) -> list[Finding]:
    """The lines about channels of this home's workspace."""
    loaded = settings.load({"HOME": str(home), "PHONE": "1:planted", **values}, {})
    known = credential.build(token=token) if token else None
    return channels.look(loaded, Layout(state_dir=loaded.settings.workspace), known)


def written(home: Path, workspace: str, text: str = "", mode: int = 0o600, **entries: Any) -> Path:
    """The channels file of a workspace."""
    path = home / ".agent-connect" / "workspace" / "workspaces" / workspace / "channels.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text or json.dumps({"v": 1, "channels": entries}))
    path.chmod(mode)
    return path


def registered(home: Path, **trusted: bool) -> None:
    """These workspaces beside the primary one."""
    known = []
    for name, trust in trusted.items():
        (home / name).mkdir(exist_ok=True)
        known.append({"id": name, "cwd": str(home / name), "trusted": trust})
    path = home / ".agent-connect" / "workspace" / "workspaces.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"v": 1, "workspaces": known}))
    path.chmod(0o600)


def test_without_a_file_there_is_nothing_to_say(home: Path) -> None:
    """No line while the API is off; a good one where it is on."""
    assert [] == look(home)
    (found,) = look(home, **ON)
    assert (Level.OK, "no channels are configured") == (found.level, found.text)


def test_the_channels_of_each_workspace_are_counted(home: Path) -> None:
    """The primary's first; a room takes the worker's own token."""
    registered(home, side=True)
    side = written(home, "side", ops=PHONE)
    main = written(home, "main", ops=PHONE, own={"type": "room"})
    found = look(home, token=TOKEN, **ON)
    assert {Level.OK} == {line.level for line in found}
    assert [f"{main}: 2 channels can be used", f"{side}: 1 channel can be used"] == [
        line.text for line in found
    ]


@pytest.mark.parametrize("api", [{}, ON], ids=["off", "on"])
def test_a_file_that_others_can_use_is_a_failure(api: dict[str, str], home: Path) -> None:
    """With the command that mends it."""
    path = written(home, "main", mode=0o644, ops=PHONE)
    found = look(home, **api)[0]
    assert (Level.FAILURE, f"{path}: others can use it") == (found.level, found.text)
    assert found.mend.startswith(f"chmod 600 {path} ")


def test_a_file_that_is_none_is_a_failure(home: Path) -> None:
    """Broken, a folder, and one that the setting names and nobody wrote."""
    path = written(home, "main", "{")
    (found,) = look(home, **ON)
    assert (Level.FAILURE, f"{path}: it is no JSON") == (found.level, found.text)
    assert "agent-connect channels check" in found.mend
    path.unlink()
    path.mkdir(mode=0o700)
    (found,) = look(home, **ON)
    assert (Level.FAILURE, f"{path}: it is no file") == (found.level, found.text)
    named = home / "channels.json"
    registered(home, side=True)
    written(home, "side", ops=PHONE)
    found, good = look(home, **ON, AGENT_CONNECT_CHANNELS_FILE=str(named))
    assert (Level.FAILURE, Level.OK) == (found.level, good.level)
    assert f"AGENT_CONNECT_CHANNELS_FILE names {named}, which is not there" == found.text


def test_a_channel_with_a_mistake_costs_itself_only(home: Path) -> None:
    """It is named with the reason, the others are counted."""
    path = written(home, "main", ops=PHONE, odd={"type": "telegram"})
    found, good = look(home, **ON)
    assert Level.FAILURE == found.level
    assert f'{path}: channel "odd" is left out: token_env or token_file is missing' == found.text
    assert f"{path}: 1 channel can be used" == good.text


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "slack-webhook", "targets": {LABEL: {"url_env": "NOT_SET"}}},
        {"type": "slack-webhook", "targets": {LABEL: {"url_env": "BAD"}}},
        {"type": "slack-webhook", "targets": {LABEL: {"token_env": "BAD"}}},
        {"type": "slack-webhook", "targets": {LABEL: []}},
        PHONE | {"webhooks": {"ci": {"secret_env": "BAD", "target": {"team": {"id": LABEL}}}}},
        PHONE | {"token": LABEL},
    ],
)
def test_no_line_holds_a_secret_or_where_a_text_would_go(entry: object, home: Path) -> None:
    """A label is the id of a target; ``channels check`` names it."""
    written(home, "main", ops=entry)
    (found,) = look(home, **ON, BAD="ftp://planted-secret")
    assert Level.FAILURE == found.level
    assert "planted" not in found.text + found.mend


def test_a_label_that_stands_twice_is_not_shown(home: Path) -> None:
    """What stands twice may be one."""
    path = written(home, "main", f'{{"v": 1, "channels": {{"{LABEL}": 1, "{LABEL}": 2}}}}')
    (found,) = look(home, **ON)
    assert f"{path}: a name stands there twice in one object" == found.text


def test_a_file_that_the_worker_does_not_read_is_a_warning(home: Path) -> None:
    """Of a workspace that is not trusted, or none; or the API is off."""
    registered(home, dark=False)
    paths = [written(home, name, ops=PHONE) for name in ("dark", "none")]
    found = look(home, **ON)
    assert [Level.WARNING] * 2 == [line.level for line in found]
    assert [
        f"{path} is not used: no trusted workspace has the id {path.parent.name}" for path in paths
    ] == [line.text for line in found]
    *_, last = look(home)
    assert Level.WARNING == last.level
    assert "AGENT_CONNECT_DAEMON_LISTEN" in last.mend
