"""``agent-connect service``: the worker as a service of this user (worker.md §17.4).

A service gets nothing but a config file, so its settings are read as it will read them: from that
file alone, without this shell's variables.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from agentconnect.cli.console import say, warn
from agentconnect.cli.options import Options
from agentconnect.config import envfile, settings
from agentconnect.config.settings import LoadedSettings, Settings
from agentconnect.config.table import INSTALLER
from agentconnect.core.errors import SettingsError
from agentconnect.service.install import Host, description, install, log_command, uninstall
from agentconnect.service.place import Service, service_path
from agentconnect.store.layout import Layout

_OWN = ("AGENT_CONNECT_", "REMOTE_TASK_")
_INSTALLERS = {setting.name for setting in INSTALLER}
_PROGRAMS = {"codex": "codex", "cline": "cline", "kilo": "kilo", "omnigent": "omnigent"}


def run_service(options: Options, platform: str = sys.platform) -> int:
    """One action; its exit code. Raises: SettingsError, OSError."""
    action = options.words[0]
    config = _config(options, must=action in {"install", "print"})
    loaded = _as_the_service(config)
    service = describe(config, loaded.settings)
    layout = Layout(state_dir=loaded.settings.workspace)
    host = Host(
        environment=os.environ,
        status_file=loaded.settings.status_file or layout.status,
        say=lambda line: say(f"agent-connect: {line}"),
        platform=platform,
    )
    if action == "print":
        print(description(service, host)[1], end="")
        return 0
    if action == "uninstall":
        return uninstall(service, host)
    if action == "logs":
        return _logs(service, host)
    from agentconnect.checks import refuse_wrong

    refuse_wrong(loaded)
    warn([*loaded.warnings, *_left_behind(loaded), *_missing(loaded.settings, service)])
    return install(service, host, start=not options.no_start)


def describe(config: Path, chosen: Settings) -> Service:
    """The service of the worker with this config file."""
    command = _command()
    return Service(
        home=Path.home(),
        config=config,
        command=command,
        path=service_path(os.environ, command),
        instance=chosen.instance,
    )


def _config(options: Options, *, must: bool) -> Path:
    found = envfile.locate(options.config, os.environ)
    default = Path(envfile.expand_home(envfile.DEFAULT_CONFIG, os.environ))
    if found is None and must:
        raise SettingsError(
            f"there is no config file: a service reads its settings from one. Write {default} "
            "(see docs/operations.md), or name another with --config."
        )
    path = (found or default).absolute()
    if not str(path).isprintable():
        raise SettingsError("the config file's path has a character that no service file can hold.")
    return path


def _as_the_service(config: Path) -> LoadedSettings:
    """The settings as the service will have them."""
    clean = {name: v for name, v in os.environ.items() if not _is_setting(name)}
    values = envfile.read(config).parsed.values if config.is_file() else {}
    return settings.load(clean, values, start_dir=Path.home(), config_file=config)


def _is_setting(name: str) -> bool:
    return (name.startswith(_OWN) or name == "OLLAMA_HOST") and name not in _INSTALLERS


def _left_behind(loaded: LoadedSettings) -> list[str]:
    """Settings of this shell that the service will not see."""
    names = sorted(
        name
        for name, value in os.environ.items()
        if _is_setting(name)
        and name != envfile.CONFIG_SETTING
        and value.strip()
        and value != loaded.environment.get(name)
    )
    if not names:
        return []
    return [
        f"{', '.join(names)}: set in this shell, which the service does not see; "
        f"it reads {loaded.config_file} only."
    ]


def _command() -> tuple[str, ...]:
    """The worker's program: as it was called now, else beside this Python, else as a module."""
    called = Path(sys.argv[0]).absolute()
    for program in (called, Path(sys.executable).parent / "agent-connect"):
        if program.name == "agent-connect" and os.access(program, os.X_OK):
            return (str(program),)
    return (sys.executable, "-m", "agentconnect")


def _missing(chosen: Settings, service: Service) -> list[str]:
    """The agent's program, where the service would not find it (field report D20)."""
    word = _program(chosen, {"PATH": service.path})
    if not word or shutil.which(os.path.expanduser(word), path=service.path):  # noqa: PTH111
        return []
    return [
        f"{word} is not found on the PATH that the service gets. Install it, or open a shell that "
        "finds it, and run `agent-connect service install` again."
    ]


def _program(chosen: Settings, environment: Mapping[str, str]) -> str:
    """The first word of the agent's command; blank where nothing is started."""
    if chosen.adapter != "acp":
        named = {
            "cline": chosen.cline_bin,
            "kilo": chosen.kilo_bin,
            "omnigent": chosen.omnigent_bin,
        }
        return named.get(chosen.adapter) or _PROGRAMS.get(chosen.adapter, "")
    if chosen.acp_command:
        return chosen.acp_command[0]
    from agentconnect.acp import PRESETS

    preset = PRESETS.get(chosen.acp_agent)
    return preset.command(environment["PATH"])[0] if preset else ""


def _logs(service: Service, host: Host) -> int:
    command = log_command(service, host)
    if command[0] == "tail" and not service.log.is_file():
        raise SettingsError(f"no service is installed, and there is no {service.log}.")
    if shutil.which(command[0]) is None:
        raise SettingsError(f"{command[0]} is not there, which would show the log.")
    sys.stdout.flush()
    os.execvp(command[0], command)  # noqa: S606 - it is the log from here on
