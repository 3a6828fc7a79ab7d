"""Settings that are read again while the worker runs."""

from pathlib import Path

from agentconnect.config import settings as config
from agentconnect.config.envfile import read

NAME = "AGENT_CONNECT_ACP_TOKEN"


def loaded(file: Path, env: dict[str, str]) -> config.LoadedSettings:
    """What a start with this file and this environment reads."""
    return config.load(env, read(file).parsed.values, config_file=file)


def test_a_value_of_the_file_is_read_again(tmp_path: Path) -> None:
    """A rotated bearer needs no restart; a file that went away leaves the old one."""
    file = tmp_path / "config.env"
    file.write_text(f"{NAME}=one\n")
    settings = loaded(file, {})
    assert "one" == config.current(settings, NAME)
    file.write_text(f"{NAME}=two\n")
    assert "two" == config.current(settings, NAME)
    file.write_text("")
    assert "" == config.current(settings, NAME)
    file.unlink()
    assert "one" == config.current(settings, NAME)


def test_a_value_of_the_environment_stays(tmp_path: Path) -> None:
    """It wins over the file, then as now."""
    file = tmp_path / "config.env"
    file.write_text(f"{NAME}=file\n")
    settings = loaded(file, {NAME: "environment"})
    file.write_text(f"{NAME}=changed\n")
    assert "environment" == config.current(settings, NAME)
    assert "" == config.current(settings, "AGENT_CONNECT_ACP_URL")


def test_the_bearer_is_a_secret_and_in_no_repr(tmp_path: Path) -> None:
    """Agents are not given it, and no error shows it."""
    file = tmp_path / "config.env"
    file.write_text(f"{NAME}=very-secret\n")
    settings = loaded(file, {})
    assert NAME in config.secret_names()
    assert "very-secret" not in repr(settings)
    assert "very-secret" not in repr(settings.settings)
