"""doctor and folders and services: roots that overlap, units of any hand, plists."""

import plistlib
import re
import shlex
from pathlib import Path

import pytest

from agentconnect.channels import file as channels_file
from agentconnect.config import envfile, settings
from agentconnect.config.settings import LoadedSettings
from agentconnect.core.doctor import Finding, Level
from agentconnect.core.errors import SettingsError
from agentconnect.daemon.setup import read_token
from agentconnect.doctor import folders, service, setup, state
from agentconnect.store.layout import Layout
from agentconnect.store.owners import read_owners


def load(home: Path, **values: str) -> LoadedSettings:
    """Settings of this home, its config file included."""
    config = home / "config.env"
    config.write_text("")
    environment = {"HOME": str(home), "PATH": "", **values}
    return settings.load(environment, {}, config_file=config)


def egress(loaded: LoadedSettings) -> list[Finding]:
    """The lines about roots."""
    return folders.look_at_egress(loaded)


def test_roots_that_can_be_used_are_named(home: Path) -> None:
    """The working directory first."""
    for name in ("repo", "out"):
        (home / name).mkdir()
    loaded = load(
        home,
        AGENT_CONNECT_REPO=str(home / "repo"),
        AGENT_CONNECT_EGRESS_ROOTS=str(home / "out"),
    )
    assert [Level.OK] == [finding.level for finding in egress(loaded)]
    assert f"{home}/repo, {home}/out" in egress(loaded)[0].text


def test_roots_that_cannot_be_used_and_those_that_overlap_are_warnings(home: Path) -> None:
    """Missing; the file system itself; around the workspace and the config file; inside of it."""
    export = home / "ws" / "export"
    export.mkdir(parents=True)
    loaded = load(
        home,
        AGENT_CONNECT_REPO=str(home),
        AGENT_CONNECT_WORKSPACE=str(home / "ws"),
        AGENT_CONNECT_EGRESS_ROOTS=f"{home}/none:/:{export}",
    )
    texts = [finding.text for finding in egress(loaded)]
    assert {Level.WARNING} == {finding.level for finding in egress(loaded)}
    assert [
        f"{home}/none is no usable folder: nothing is sent from there",
        "/ is no usable folder: nothing is sent from there",
    ] == texts[:2]
    assert any(text.startswith(f"{home} contains {home}/ws") for text in texts)
    assert any(text.startswith(f"{home} contains {home}/config.env") for text in texts)
    assert any(text.startswith(f"{export} lies in {home}/ws") for text in texts)


def test_a_working_directory_in_a_guarded_folder_is_a_warning(home: Path) -> None:
    """Desktop, Documents, Downloads: the system may ask at a screen that nobody looks at."""
    (home / "Desktop" / "x").mkdir(parents=True)
    found = folders.look_at_workdir(load(home, AGENT_CONNECT_REPO=str(home / "Desktop" / "x")))
    assert [Level.WARNING] == [finding.level for finding in found]
    found = folders.look_at_workdir(load(home))
    assert ([Level.OK], False) == ([f.level for f in found], (home / "agents").exists())


def test_a_command_that_mends_can_be_pasted(home: Path) -> None:
    """A blank or a quotation mark in a path is part of the path."""
    odd = home / "ann's files"
    odd.mkdir()
    quoted = shlex.quote(str(odd))
    missing = folders.look_at_workdir(load(odd, AGENT_CONNECT_REPO=str(odd / "x")))
    assert [f"mkdir -p {shlex.quote(str(odd / 'x'))}"] == [finding.mend for finding in missing]
    odd.chmod(0o755)
    config = odd / ".agent-connect/config.env"
    config.parent.mkdir()
    config.write_text("")
    config.chmod(0o644)
    environment = {"HOME": str(odd), "AGENT_CONNECT_WORKSPACE": str(odd)}
    found = setup.look(None, environment)
    assert found.loaded is not None
    mends = [finding.mend for finding in found.findings]
    assert f"chmod 600 {shlex.quote(str(config))}" in mends
    lines = state.look(found.loaded, Layout(state_dir=odd))
    assert f"chmod 700 {quoted} (the next start does it too)" in [line.mend for line in lines]
    (notice,) = envfile.warnings(envfile.read(config), known=())
    assert notice.sentence.endswith(f"chmod 600 {shlex.quote(str(config))}")
    with pytest.raises(SettingsError, match=re.escape(f"chmod 600 {shlex.quote(str(config))}")):
        read_token(config)
    with pytest.raises(ValueError, match=re.escape(f"chmod 600 {shlex.quote(str(config))}")):
        read_owners(config, private=True)
    (refused,) = channels_file.load(config, {}).refusals
    assert refused.endswith(f"chmod 600 {shlex.quote(str(config))}")


def unit(home: Path, text: str, name: str = "agent-connect.service") -> Path:
    """A unit file of this home."""
    path = home / ".config/systemd/user" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_no_service_is_nothing_to_say(home: Path) -> None:
    """It may be run by hand."""
    assert (None, []) == service.find(load(home))


def test_a_unit_s_path_is_read_and_another_config_file_is_said(home: Path) -> None:
    """What doctor looks at is then not what the service runs with."""
    unit(home, '[Service]\nEnvironment=AGENT_CONNECT_CONFIG=/other.env\nEnvironment="PATH=/a b"\n')
    found, said = service.find(load(home))
    assert found is not None
    assert "/a b" == found.path
    assert ["/other.env" in finding.text for finding in said] == [True]
    unit(home, f"[Service]\nEnvironment=AGENT_CONNECT_CONFIG={home}/config.env\n")
    found, said = service.find(load(home))
    assert found is not None
    assert "/usr/bin" in found.path.split(":")
    assert [] == said


def test_another_instance_has_a_unit_of_its_own(home: Path) -> None:
    """By the name that service install gives it."""
    unit(home, "[Service]\n")
    assert service.find(load(home, AGENT_CONNECT_INSTANCE="two"))[0] is None
    path = unit(home, "[Service]\n", "agent-connect-two.service")
    found, _ = service.find(load(home, AGENT_CONNECT_INSTANCE="two"))
    assert found is not None
    assert path == found.file


@pytest.mark.parametrize("raw", [b"", b"<plist", b"bplist00", plistlib.dumps([1])])
def test_a_plist_that_is_none_is_a_warning(raw: bytes, home: Path) -> None:
    """A sentence, no traceback; a good one gives its PATH."""
    path = home / "Library/LaunchAgents/space.ag2.agent-connect.plist"
    path.parent.mkdir(parents=True)
    path.write_bytes(raw)
    found, said = service.find(load(home))
    assert (None, [Level.WARNING]) == (found, [finding.level for finding in said])
    path.write_bytes(plistlib.dumps({"EnvironmentVariables": {"PATH": "/opt/bin"}}))
    found, said = service.find(load(home))
    assert found is not None
    assert ("/opt/bin", []) == (found.path, said)


async def test_a_service_is_asked_for_where_its_manager_is(home: Path, tmp_path: Path) -> None:
    """Disabled, failed, and one that cannot be asked."""
    unit(home, "[Service]\n")
    systemctl = tmp_path / "systemctl"
    systemctl.write_text('#!/bin/sh\n[ "$2" = is-enabled ] && echo disabled || echo failed\n')
    systemctl.chmod(0o755)
    loaded = load(home, PATH=f"{tmp_path}:/usr/bin:/bin")
    found = await service.look(service.find(loaded)[0], loaded)
    assert ["no login starts it" in found[0].text, "has failed" in found[1].text] == [True, True]
    assert "enable --now agent-connect.service" in found[0].mend
    systemctl.write_text("#!/bin/sh\necho Failed to connect to bus: no medium found\nexit 1\n")
    found = await service.look(service.find(loaded)[0], loaded)
    assert [Level.WARNING] == [finding.level for finding in found]
    assert "no user manager can be asked here (Failed to connect" in found[0].text
    assert "agent-connect service install" in found[0].mend
