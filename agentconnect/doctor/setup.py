"""The first checks: the program itself, the config file, the settings, the token.

What they find is what all other checks start from. Blocking.
"""

import os
import shlex
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from agentconnect.acp import PRESETS
from agentconnect.checks import bearer, refusals
from agentconnect.config import envfile, settings, workdir
from agentconnect.config.envfile import About, ConfigFile
from agentconnect.config.kinds import Kind
from agentconnect.config.settings import NEEDS_CREDENTIAL, LoadedSettings
from agentconnect.config.table import NAMES, RETIRED, TABLE
from agentconnect.core.doctor import Finding, failure, ok, warning
from agentconnect.core.errors import SettingsError
from agentconnect.core.relay.credential import Credential, parse_token, redact_url
from agentconnect.core.turns import wording_acp as wording

_PYTHON = (3, 11)
_MENDS = {
    About.DUPLICATED: "leave one line for each of them",
    About.IGNORED: "take these lines out, or set them where the worker is started",
    About.UNREAD: "write NAME=value, or begin the line with #",
    About.RETIRED: "take these lines out",
    About.UNKNOWN: "compare the spelling with docs/settings.md",
}


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What was read; None where it could not be."""

    findings: tuple[Finding, ...]
    loaded: LoadedSettings | None = None
    credential: Credential | None = None
    secrets: tuple[str, ...] = ()
    """What no line may show."""


def look(flag: str | None, environment: Mapping[str, str], child_umask: int = -1) -> Setup:
    """Program, config file, settings, token. Never raises for what the owner wrote."""
    findings = [_python(), _package()]
    try:
        path = envfile.locate(flag, environment)
        file = envfile.read(path) if path is not None else None
    except SettingsError as error:
        mend = "mend or move that file, make it readable for you, or name another with --config"
        return Setup(findings=(*findings, failure("config", str(error), mend)))
    findings += _config(file, environment)
    loaded = settings.load(
        environment,
        file.parsed.values if file is not None else {},
        child_umask=child_umask,
        config_file=path,
    )
    credential, about_token = _token(loaded)
    return Setup(
        findings=(*findings, *about_token, *_settings(loaded)),
        loaded=loaded,
        credential=credential,
        secrets=_secrets(loaded),
    )


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < _PYTHON:
        return failure("python", f"Python {found} is too old", "install Python 3.11 or newer")
    return ok("python", f"Python {found} ({sys.executable})")


def _package() -> Finding:
    try:
        return ok("version", f"agentconnect {version('agentconnect')}")
    except PackageNotFoundError:
        text = "agentconnect runs from a folder and was never installed: it knows no version"
        return warning("version", text, "install it: pip install .")


def _config(file: ConfigFile | None, environment: Mapping[str, str]) -> list[Finding]:
    if file is None:
        default = envfile.expand_home(envfile.DEFAULT_CONFIG, environment)
        text = f"no config file: all settings come from the environment ({default} would be read)"
        return [ok("config", text)]
    applied = envfile.apply(file.parsed.values, environment)
    text = f"{file.path}: settings used: {len(applied.applied)}"
    if applied.overridden:
        text += f"; decided by the environment: {', '.join(applied.overridden)}"
    findings = [ok("config", text)]
    notices = envfile.warnings(file, known=NAMES, retired=RETIRED)
    for notice in notices:
        if notice.about is About.PERMISSIONS:
            text = f"{file.path} can be read by other users of this machine; it holds the token"
            mend = f"chmod 600 {shlex.quote(str(file.path))}"
            findings.append(warning("config.permissions", text, mend))
        else:
            mend = _MENDS[notice.about]
            findings.append(warning(f"config.{notice.about.value}", notice.sentence, mend))
    return findings


def _settings(loaded: LoadedSettings) -> list[Finding]:
    """Wrong and missing settings; token, folder and agent have lines of their own."""
    where = f"in {loaded.config_file or '~/.agent-connect/config.env'} or in the environment"
    mend = f"set it right {where}"
    elsewhere = {
        NEEDS_CREDENTIAL,
        _bearer_problem(loaded),
        workdir.problem(loaded.settings.repo, loaded.environment),
        wording.no_agent(tuple(PRESETS)),
        wording.unknown_preset(loaded.settings.acp_agent, tuple(PRESETS)),
    }
    findings = [warning("settings", text, mend) for text in loaded.warnings]
    findings += _relative(loaded)
    wrong = [text for text in refusals(loaded) if text not in elsewhere]
    findings += [failure("settings", text, mend) for text in wrong]
    if not findings:
        findings.append(ok("settings", "all settings can be understood"))
    return findings


def _relative(loaded: LoadedSettings) -> list[Finding]:
    """Paths in the config file that a service and a shell would read differently."""
    names = [
        setting.name
        for setting in TABLE
        if setting.name in loaded.from_file
        and setting.kind in (Kind.PATH, Kind.PATHS)
        and any(_is_relative(part) for part in _paths(setting.kind, loaded, setting.name))
    ]
    if not names:
        return []
    text = (
        f"{', '.join(names)} in {loaded.config_file} begins with neither / nor ~: what it means "
        "depends on the folder in which the worker is started"
    )
    return [warning("settings.relative", text, "write the whole path")]


def _paths(kind: Kind, loaded: LoadedSettings, name: str) -> list[str]:
    text = loaded.environment.get(name, "")
    return text.split(os.pathsep) if kind is Kind.PATHS else [text]


def _is_relative(text: str) -> bool:
    return bool(text.strip()) and not text.strip().startswith(("/", "~"))


def _token(loaded: LoadedSettings) -> tuple[Credential | None, list[Finding]]:
    """The token's shape and where it came from; never the token."""
    if not loaded.settings.credential[0]:
        path = loaded.config_file or Path("~/.agent-connect/config.env")
        mend = f"put AGENT_CONNECT_TOKEN=<relay address>|<secret> into {path} (chmod 600)"
        return None, [failure("token", NEEDS_CREDENTIAL, mend)]
    try:
        found = bearer(loaded.settings)
    except SettingsError as error:
        mend = f"paste the whole token again, into {loaded.credential_layer}"
        return None, [failure("token", str(error), mend)]
    text = f"{found.source} of {loaded.credential_layer}, for {redact_url(found.gateway)}"
    findings = [ok("token", text)]
    for about in found.warnings:
        mend = "use an https address, unless nobody else is on that network"
        clear = "plain http" in about
        findings.append(warning("token", about, mend if clear else "take REMOTE_TASK_URL out"))
    return found, findings


def _bearer_problem(loaded: LoadedSettings) -> str:
    try:
        bearer(loaded.settings)
    except SettingsError as error:
        return str(error)
    return ""


def _secrets(loaded: LoadedSettings) -> tuple[str, ...]:
    texts = [loaded.environment.get(name, "").strip() for name in settings.secret_names()]
    return tuple({part for text in texts if text for part in (text, parse_token(text)[1]) if part})
