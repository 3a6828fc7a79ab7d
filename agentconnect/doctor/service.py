"""The service of this user, where one was installed: what its file says, and what runs.

The commonest fault of a service is that it gets another PATH than the shell in which everything
was tried (field report D20); ``agent`` compares the two.
"""

import getpass
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec
import trio

from agentconnect.adapters.childenv import child_environment
from agentconnect.config.envfile import expand_home
from agentconnect.config.settings import LoadedSettings, secret_names
from agentconnect.core.doctor import Finding, ok, plist_environment, unit_environment, warning
from agentconnect.core.errors import StoreUnreadableError
from agentconnect.doctor.programs import Said, ask
from agentconnect.service.place import STANDARD, Service
from agentconnect.store.peek import peek

ASK_S = 4.0
_LINGER = Path("/var/lib/systemd/linger")


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """A service's file: what it is called, and what its worker is given."""

    name: str
    file: Path
    environment: Mapping[str, str]
    launchd: bool = False

    @property
    def path(self) -> str:
        """The PATH its worker gets, the manager's own where the file says nothing."""
        return self.environment.get("PATH", "") or os.pathsep.join(STANDARD)


def find(loaded: LoadedSettings) -> tuple[Installed | None, list[Finding]]:
    """The service of this instance, and what is wrong with its file. Blocking."""
    place = Service(
        home=Path(expand_home("~", loaded.environment)),
        config=loaded.config_file or Path(),
        command=(),
        path="",
        instance=loaded.settings.instance,
    )
    for name, file, launchd in (
        (place.unit, place.unit_file, False),
        (place.label, place.plist_file, True),
    ):
        try:
            raw = peek(file)
        except StoreUnreadableError as error:
            return None, [warning("service", str(error), "agent-connect service install")]
        if raw is None:
            continue
        if launchd:
            variables = plist_environment(raw)
        else:
            variables = unit_environment(raw.decode("utf-8", "replace"))
        if variables is None:
            text = f"{file} cannot be understood"
            return None, [warning("service", text, "agent-connect service install")]
        found = Installed(name=name, file=file, environment=variables, launchd=launchd)
        return found, _other_config(found, loaded)
    return None, []


def _other_config(found: Installed, loaded: LoadedSettings) -> list[Finding]:
    named = found.environment.get("AGENT_CONNECT_CONFIG", "")
    if not named or loaded.config_file is None:
        return []
    if os.path.realpath(named) == os.path.realpath(loaded.config_file):
        return []
    text = f"the service reads {named}; what is looked at here is {loaded.config_file}"
    return [
        warning("service", text, f"agent-connect --config {named} doctor looks at the service's")
    ]


async def look(found: Installed | None, loaded: LoadedSettings) -> list[Finding]:
    """Is it installed, does it start at login, does it outlive a logout."""
    if found is None:
        text = "not installed: the worker runs as long as somebody runs it"
        return [ok("service", f"{text} (agent-connect service install)")]
    systemctl = shutil.which("systemctl", path=loaded.environment.get("PATH", os.defpath))
    if found.launchd or systemctl is None:
        return [ok("service", f"installed: {found.file}")]
    return await _systemd(found, loaded, systemctl)


async def _systemd(found: Installed, loaded: LoadedSettings, systemctl: str) -> list[Finding]:
    said: dict[str, Said] = {}
    environment = child_environment(loaded.environment, secret_names())

    async def question(word: str) -> None:
        command = (systemctl, "--user", word, found.name)
        try:
            said[word] = await ask(command, environment, "/", ASK_S)
        except OSError as error:
            said[word] = Said(text=str(error.strerror), code=None)

    async with trio.open_nursery() as questions:
        questions.start_soon(question, "is-enabled")
        questions.start_soon(question, "is-active")
    enabled, active = said["is-enabled"].line, said["is-active"].line
    if not active.isalpha():  # a sentence: nobody answers
        why = active or "no answer"
        text = f"{found.file} is written, and no user manager can be asked here ({why})"
        mend = (
            "after a crash or a new login start the worker by hand, agent-connect service install; "
            f"where the manager runs: systemctl --user enable --now {found.name}"
        )
        return [warning("service", text, mend)]
    findings: list[Finding] = []
    if enabled in ("disabled", "masked"):
        mend = f"systemctl --user enable --now {found.name}"
        findings.append(warning("service", f"{found.name} is {enabled}: no login starts it", mend))
    if active == "failed":
        mend = "agent-connect service logs"
        findings.append(warning("service", f"{found.name} has failed", mend))
    if enabled == "enabled" and not await trio.to_thread.run_sync(_lingers):
        text = "the service ends when its user logs out"
        findings.append(warning("service.linger", text, "loginctl enable-linger"))
    if not findings:
        findings.append(ok("service", f"{found.file}: {enabled}, {active}"))
    return findings


def _lingers() -> bool:
    """Whether this user's services run without a login; true where that cannot be told."""
    try:
        return not _LINGER.is_dir() or (_LINGER / getpass.getuser()).exists()
    except (OSError, KeyError):
        return True
