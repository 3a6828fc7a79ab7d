"""Every setting in one table: name, type, default, meaning; and how their texts are read.

``TABLE`` (in ``table``) is what the code reads, what ``docs/settings.md`` shows and what tests
compare. A bad number never stops the start: its default is used and said (worker.md §3). What must
stop the start is kept in ``LoadedSettings.refusals`` until the status file can tell it too
(worker.md §4, step 4).
"""

import math
import os
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from agentconnect.config.envfile import ConfigFile, apply, expand_home, read, warnings
from agentconnect.config.kinds import Kind, Setting
from agentconnect.config.table import NAMES, RETIRED, TABLE
from agentconnect.core.errors import SettingsError
from agentconnect.core.relay.credential import instance_name

NEEDS_CREDENTIAL = (
    "AGENT_CONNECT_TOKEN is not set: without the token no room can be reached. The Agent Portal "
    "shows it once when the agent is made (a relay of your own: agent-connect relay --add-agent "
    "NAME). Set it in the environment or in the config file."
)

_OFF = frozenset({"0", "false", "no", "off"})
_ON = frozenset({"1", "true", "yes", "on"})
_WHOLE = re.compile(r"\+?[0-9]{1,18}")
_NUMBER = re.compile(r"\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_USER = re.compile(r"@[^\s:@,/]{1,254}:(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_ORIGIN = re.compile(r"https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?", re.IGNORECASE)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings, typed. Fields are those of the table; None and "" mean "not set"."""

    config: Path | None
    token: str
    remote_task_token: str
    remote_task_url: str
    adapter: str
    repo: Path | None
    workspace: Path
    status_file: Path | None
    status_heartbeat_s: float
    instance: str
    poll_s: float
    attachment_max_bytes: int
    egress_roots: tuple[str, ...]
    live_progress: bool
    progress_throttle_s: float
    edit_ceiling: int
    session_turns: int
    session_idle_s: float
    session_memory: bool
    session_store: Path | None
    acp_agent: str
    acp_command: tuple[str, ...]
    acp_url: str
    acp_token: str
    acp_remote_cwd: str
    acp_allow_remote: bool
    acp_mode: str
    acp_keepalive_s: float
    acp_max_idle: int
    acp_spare: int
    acp_execute: str
    acp_collaborators: tuple[str, ...]
    unchecked_collaborators: bool
    acp_skip_auth_check: bool
    codex_network: bool
    ollama_model: str
    ollama_host: str
    omnigent_harness: str
    omnigent_model: str
    omnigent_bin: str
    cline_bin: str
    cline_provider: str
    cline_model: str
    kilo_bin: str
    turn_timeout_s: float
    media_origins: tuple[str, ...]
    log: str
    channels_file: Path | None
    daemon_listen: str
    daemon_token: str
    daemon_allow_origin: str
    demo_home: Path | None

    def __repr__(self) -> str:
        secret = {setting.field for setting in TABLE if setting.secret}
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        shown = (
            f"{name}={'<secret>' if value and name in secret else repr(value)}"
            for name, value in values.items()
        )
        return f"Settings({', '.join(shown)})"

    @property
    def credential(self) -> tuple[str, str]:
        """The credential's text and the setting it came from; both "" when there is none."""
        if self.token:
            return self.token, "AGENT_CONNECT_TOKEN"
        if self.remote_task_token:
            return self.remote_task_token, "REMOTE_TASK_TOKEN"
        return "", ""


class LoadedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What was read, what to say about it, and whether it may go on.

    ``environment`` is the process environment with the file's settings laid under it: what a child
    process is given (minus ``secret_names()``) and what every later reader sees.
    """

    settings: Settings
    warnings: tuple[str, ...]
    refusals: tuple[str, ...]
    """A sentence for each setting that no default can mend."""
    environment: dict[str, str]
    child_umask: int = -1
    """What we were started with, and what children get back."""
    config_file: Path | None = None
    """The config file that was read: never sent to a room."""
    token_file: Path | None = None
    """That file where the token came from it: a new secret in it is used without a restart."""
    from_file: frozenset[str] = frozenset()
    """The settings that the config file gave."""
    credential_layer: str = ""
    """Which layer supplied the token, in words."""

    def __repr__(self) -> str:
        return f"LoadedSettings({self.settings!r}, {len(self.warnings)} warnings)"

    def checked(self) -> Settings:
        """The settings.

        Raises: SettingsError when some are wrong in a way no default can mend, a sentence a line.
        """
        if self.refusals:
            raise SettingsError("\n".join(self.refusals))
        return self.settings


class _Reading:
    """One pass over the table, collecting warnings and refusals."""

    def __init__(self, environment: Mapping[str, str], start_dir: Path) -> None:
        self.environment = environment
        self.start_dir = start_dir
        self.warnings: list[str] = []
        self.refusals: list[str] = []

    def value(self, setting: Setting) -> Any:
        text = self.environment.get(setting.name, "").strip()
        return _READERS[setting.kind](self, setting, text)

    def warn(self, setting: Setting, why: str) -> None:
        self.warnings.append(f"{setting.name} {why}; the default {setting.default} is used.")

    def absolute(self, text: str) -> Path:
        return Path(os.path.normpath(self.start_dir / expand_home(text, self.environment)))

    def text(self, setting: Setting, text: str) -> str:
        return text or setting.default

    def lower(self, setting: Setting, text: str) -> str:
        return text.lower()

    def path(self, setting: Setting, text: str) -> Path | None:
        chosen = text or setting.default
        return self.absolute(chosen) if chosen else None

    def flag_on(self, setting: Setting, text: str) -> bool:
        return text.lower() not in _OFF

    def flag_off(self, setting: Setting, text: str) -> bool:
        return text.lower() in _ON

    def whole(self, setting: Setting, text: str) -> int:
        if text and _WHOLE.fullmatch(text):
            return int(text)
        if text:
            self.warn(setting, f"is {_quoted(text)}, not a whole number of 0 or more")
        return int(setting.default)

    def number(self, setting: Setting, text: str) -> float:
        if not text:
            return float(setting.default)
        value = float(text) if _NUMBER.fullmatch(text) else math.nan
        if math.isfinite(value) and (value > 0 or setting.kind is not Kind.ABOVE_ZERO):
            return value
        least = "above 0" if setting.kind is Kind.ABOVE_ZERO else "of 0 or more"
        self.warn(setting, f"is {_quoted(text)}, not a number {least}")
        return float(setting.default)

    def choice(self, setting: Setting, text: str) -> str:
        word = text.lower()
        if word in setting.choices:
            return word
        if word:
            self.warn(setting, f"is {_quoted(text)}, not one of {', '.join(setting.choices)}")
        return setting.default

    def instance(self, setting: Setting, text: str) -> str:
        name = text or setting.default
        if instance_name(name) is None:
            self.refusals.insert(  # before all others (worker.md §4, step 4)
                0,
                f"{setting.name} is {_quoted(name)}: an instance name has 1 to 32 of the "
                "characters A-Z, a-z, 0-9, _ and -.",
            )
            return setting.default
        return name

    def words(self, setting: Setting, text: str) -> tuple[str, ...]:
        try:
            return tuple(shlex.split(text))
        except ValueError:
            self.refusals.append(f"{setting.name} has a quote that is never closed.")
            return ()

    def roots(self, setting: Setting, text: str) -> tuple[str, ...]:
        parts = (part.strip() for part in text.split(os.pathsep))
        full = (expand_home(part, self.environment) for part in parts if part)
        return tuple(dict.fromkeys(full))

    def users(self, setting: Setting, text: str) -> tuple[str, ...]:
        kept: dict[str, None] = {}
        for word in text.replace(",", " ").split():
            if _USER.fullmatch(word):
                kept[word] = None
            else:
                self.warnings.append(
                    f"{setting.name} has the entry {_quoted(word)}, which is no full user id "
                    "(@name:server); that entry is ignored."
                )
        return tuple(kept)

    def origins(self, setting: Setting, text: str) -> tuple[str, ...]:
        kept: dict[str, None] = {}
        for word in text.split():
            if _ORIGIN.fullmatch(word):
                kept[word.lower()] = None
            else:
                self.warnings.append(
                    f"{setting.name} has an entry that is not scheme://host or scheme://host:port; "
                    "that entry is ignored."
                )
        return tuple(kept)


_READERS: dict[Kind, Callable[[_Reading, Setting, str], Any]] = {
    Kind.TEXT: _Reading.text,
    Kind.LOWER: _Reading.lower,
    Kind.PATH: _Reading.path,
    Kind.FLAG_ON: _Reading.flag_on,
    Kind.FLAG_OFF: _Reading.flag_off,
    Kind.WHOLE: _Reading.whole,
    Kind.NUMBER: _Reading.number,
    Kind.ABOVE_ZERO: _Reading.number,
    Kind.CHOICE: _Reading.choice,
    Kind.INSTANCE: _Reading.instance,
    Kind.COMMAND: _Reading.words,
    Kind.PATHS: _Reading.roots,
    Kind.ORIGINS: _Reading.origins,
    Kind.USERS: _Reading.users,
}


def load(
    env: Mapping[str, str],
    file_values: Mapping[str, str],
    *,
    start_dir: Path | None = None,
    child_umask: int = -1,
    config_file: Path | None = None,
) -> LoadedSettings:
    """Read every setting of the table from the environment over a config file's values."""
    laid = apply(file_values, env)
    environment = laid.environment
    reading = _Reading(environment, start_dir or Path.cwd())
    if config_file is not None:
        config_file = reading.start_dir / config_file
    settings = Settings(**{setting.field: reading.value(setting) for setting in TABLE})
    from_file = settings.credential[1] in laid.applied
    return LoadedSettings(
        settings=settings,
        warnings=tuple(reading.warnings),
        refusals=tuple(reading.refusals),
        environment=environment,
        child_umask=child_umask,
        config_file=config_file,
        token_file=config_file if from_file else None,
        from_file=frozenset(laid.applied),
        credential_layer=f"the config file {config_file}" if from_file else "the environment",
    )


def current(loaded: LoadedSettings, name: str) -> str:
    """What a setting says now: of the environment, else of the config file as it is today.

    Blocking. A file that cannot be read leaves what was read at the start.
    """
    known = loaded.environment.get(name, "").strip()
    if loaded.config_file is None or name not in loaded.from_file:
        return known
    try:
        return read(loaded.config_file).parsed.values.get(name, "").strip()
    except SettingsError:
        return known


def file_warnings(config: ConfigFile) -> tuple[str, ...]:
    """The sentences about a config file, for stderr."""
    return tuple(notice.sentence for notice in warnings(config, known=NAMES, retired=RETIRED))


def secret_names() -> frozenset[str]:
    """The variables that no child process may be given."""
    return frozenset(setting.name for setting in TABLE if setting.secret)


def _quoted(text: str) -> str:
    shown = text if len(text) <= 60 else text[:57] + "..."
    return '"' + "".join(c if c.isprintable() else "?" for c in shown) + '"'
