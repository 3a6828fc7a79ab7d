"""The channels file on disk, and where its secrets are."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agentconnect.channels.file import Channels, load
from agentconnect.core.destination import Target

MATRIX = {"type": "matrix", "homeserver": "https://hs.example", "token_env": "T"}
ENV = {"T": " t0k \n", "W": "w3b", "U": "https://hooks.example/s3cret"}


def written(folder: Path, mode: int = 0o600, **channels: Any) -> Path:
    path = folder / "channels.json"
    path.write_text(json.dumps({"v": 1, "channels": channels}))
    path.chmod(mode)
    return path


def test_secrets_are_fetched_where_the_file_says(tmp_path: Path) -> None:
    """From the environment, and from a file; white space around them does not count."""
    secret = tmp_path / "token"
    secret.write_text("2:tok\n")
    phone = {"type": "telegram", "token_file": str(secret)}
    hooks = {"ci": {"secret_env": "W", "target": {"ops": {"type": "chat", "id": "!r"}}}}
    found = load(written(tmp_path, ops=MATRIX | {"webhooks": hooks}, phone=phone), ENV)
    assert () == found.refusals
    assert {"token": "t0k"} == found.channels["ops"].secrets
    assert {"token": "2:tok"} == found.channels["phone"].secrets
    assert {"T", "W"} == found.secret_variables
    assert {"t0k", "2:tok", "w3b"} == found.secrets
    source = found.webhooks["ops"]["ci"]
    assert ("w3b", {"ops": Target(type="chat", id="!r")}) == (source.secret, source.targets)
    for held in (found, source):
        assert not {"t0k", "w3b"} & set(repr(held).split())


def test_a_file_in_the_home_folder(tmp_path: Path, home: Path) -> None:
    """A tilde is the home of the environment that is given."""
    (home / "tok").write_text("3:tok")
    path = written(tmp_path, phone={"type": "telegram", "token_file": "~/tok"})
    found = load(path, {"HOME": str(home)})
    assert {"token": "3:tok"} == found.channels["phone"].secrets


def test_no_file_is_no_channel(tmp_path: Path) -> None:
    """And nothing to complain of."""
    assert Channels() == load(tmp_path / "none.json", {})


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o602, 0o610, 0o677])
def test_a_file_that_others_can_use_is_refused_whole(tmp_path: Path, mode: int) -> None:
    """With the command that mends it."""
    path = written(tmp_path, mode, ops=MATRIX)
    found = load(path, ENV)
    assert {} == found.channels
    assert (f"{path}: others can use it: chmod 600 {path}",) == found.refusals


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A folder, a pipe (which must not be waited for), something huge, a file without rights."""
    (tmp_path / "folder").mkdir(mode=0o700)
    os.mkfifo(tmp_path / "pipe", 0o600)
    huge = tmp_path / "huge"
    huge.write_bytes(b" " * (1024 * 1024 + 1))
    huge.chmod(0o600)
    for name, words in (("folder", "no file"), ("pipe", "no file"), ("huge", "larger than")):
        (sentence,) = load(tmp_path / name, {}).refusals
        assert words in sentence


def test_a_secret_in_a_pipe_or_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    """It costs its own channel."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name, words in (("pipe", "it is not a regular file"), (".", "Is a directory")):
        entry = {"type": "telegram", "token_file": str(tmp_path / name)}
        found = load(written(tmp_path, bad=entry, ops=MATRIX), ENV)
        assert ["ops"] == list(found.channels)
        (sentence,) = found.refusals
        assert f"token_file cannot be read: {words}" in sentence


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (MATRIX | {"token_env": "NONE"}, "token_env names NONE, which is not set"),
        ({"type": "telegram", "token_file": "/no/such"}, "token_file cannot be read: No such"),
        ({"type": "telegram", "token_env": "ODD"}, "token holds a character that no secret has"),
        (
            {"type": "slack-webhook", "targets": {"a": {"url_env": "T"}}},
            'targets."a".url must be an https address',
        ),
        ({"type": "webhook", "url_env": "PLAIN", "secret_env": "T"}, "url must be an https"),
        ({"type": "room"}, "token_env or token_file is missing, and the worker has no token"),
        ({"type": "room", "token_env": "T"}, "token must be <relay address>|<secret>"),
        (
            MATRIX | {"webhooks": {"ci": {"secret_env": "NONE", "target": {}}}},
            'webhooks."ci"_env names NONE',
        ),
    ],
)
def test_a_secret_that_cannot_be_used_costs_its_own_channel(
    tmp_path: Path, entry: dict[str, Any], words: str
) -> None:
    """The sentence holds no value."""
    env = ENV | {"ODD": "a\nb-s3cret", "PLAIN": "http://hooks.example/s3cret"}
    found = load(written(tmp_path, bad=entry, ops=MATRIX), env)
    assert ["ops"] == list(found.channels)
    (sentence,) = found.refusals
    assert words in sentence
    assert "s3cret" not in sentence
    assert "t0k" not in sentence


def test_a_room_uses_the_workers_own_token_or_one_of_its_own(tmp_path: Path) -> None:
    """Address and secret come apart; both forms are hidden."""
    own = "https://relay.example/gw|s3cret-own"
    path = written(tmp_path, own={"type": "room"}, other={"type": "room", "token_env": "R"})
    found = load(path, {"R": "https://other.example%7Cs3cret-two"}, own)
    assert "https://relay.example/gw" == found.channels["own"].options["base"]
    assert "s3cret-own" == found.channels["own"].secrets["secret"]
    assert "https://other.example" == found.channels["other"].options["base"]
    assert {own, "s3cret-own", "s3cret-two"} <= found.secrets
