"""Puts a service in place and takes it away (worker.md §17.4).

Blocking; for the command line. Files first, then the manager: what is written is whole, so a run
that was cut short is mended by the next one. Running it again replaces and restarts.
"""

import getpass
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from agentconnect.service import background, launchd, systemd
from agentconnect.service.launcher import COMMON, launcher, start_line
from agentconnect.service.manager import call, last_line, lingers, user_systemctl
from agentconnect.service.place import Service
from agentconnect.store.atomic import write_file

Say = Callable[[str], None]


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """What an installation needs of the machine."""

    environment: Mapping[str, str]
    status_file: Path
    say: Say
    platform: str = sys.platform

    @property
    def has_launchd(self) -> bool:
        return self.platform == "darwin"


def description(service: Service, host: Host) -> tuple[Path, str]:
    """The service manager's file: where it goes and what it says."""
    if host.has_launchd:
        return service.plist_file, launchd.plist(service)
    return service.unit_file, systemd.unit(service)


def install(service: Service, host: Host, *, start: bool) -> int:
    """Write everything and, unless told otherwise, (re)start. The exit code. Raises: OSError."""
    service.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_file(service.launcher, launcher(service, COMMON.read_text("utf-8")).encode())
    service.launcher.chmod(0o700)
    file, text = description(service, host)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, text.encode())
    host.say(f"written: {service.launcher}")
    host.say(f"written: {file}")
    if not start:
        host.say(f"nothing was started. To run the worker here: {start_line(service)}")
        return 0
    return _load(service, host) if host.has_launchd else _enable(service, host)


def _enable(service: Service, host: Host) -> int:
    if (reload := user_systemctl("daemon-reload")).code != 0:
        reason = last_line(reload.output) or "systemctl is not there"
        host.say(f"systemd's user manager cannot be reached ({reason})")
        host.say(f"when it can be: systemctl --user enable --now {service.unit}")
        return background.start(service, host.environment, host.status_file, host.say)
    enabled = user_systemctl("enable", service.unit)
    if not enabled.ok:
        host.say(f"{service.unit} is not enabled: {last_line(enabled.output)}")
    if not user_systemctl("restart", service.unit).ok:
        host.say(f"{service.unit} does not start; it is tried again every 10 s")
        host.say("why: agent-connect service logs, or agent-connect doctor")
        return 1
    host.say(f"{service.unit} runs, and starts with you at every login")
    if not lingers(user := _user()):
        host.say(
            "it ends when you log out. To let it run on, and start with the machine: "
            f"loginctl enable-linger {user}"
        )
    return 0 if enabled.ok else 1


def _load(service: Service, host: Host) -> int:
    call("launchctl", "unload", str(service.plist_file))
    loaded = call("launchctl", "load", str(service.plist_file))
    if loaded.code is None or not loaded.ok or "failed" in loaded.output:  # it may exit 0
        host.say(f"launchd does not take it: {last_line(loaded.output) or 'no launchctl'}")
        return background.start(service, host.environment, host.status_file, host.say)
    host.say(f"{service.label} runs, and starts with you at every login; log: {service.log}")
    return 0


def uninstall(service: Service, host: Host) -> int:
    """Stop it, take its files away, keep settings and workspace. Raises: OSError."""
    file, _text = description(service, host)
    there = file.is_file()
    runs_on = False
    if host.has_launchd:
        runs_on = there and not call("launchctl", "unload", str(file)).ok
    elif not (answer := user_systemctl("disable", "--now", service.unit)).ok and there:
        host.say(f"systemd did not stop it: {last_line(answer.output)}")
        runs_on = user_systemctl("is-active", service.unit).output in {"active", "activating"}
    background.stop(service, host.environment)
    file.unlink(missing_ok=True)
    service.launcher.unlink(missing_ok=True)
    if not host.has_launchd and there:
        user_systemctl("daemon-reload")
    if not there:
        host.say(f"there was no service ({file})")
        return 0
    host.say(f"removed: {file}")
    host.say(f"kept: {service.config} and the workspace")
    if runs_on:
        host.say("the service manager still runs it, or brings it back: stop it there")
    return 1 if runs_on else 0


def log_command(service: Service, host: Host) -> list[str]:
    """The program that shows the log and follows it."""
    if not host.has_launchd and user_systemctl("is-enabled", service.unit).ok:
        return ["journalctl", "--user", "-u", service.unit, "-n", "100", "-f"]
    return ["tail", "-n", "100", "-F", str(service.log)]


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "$USER"
