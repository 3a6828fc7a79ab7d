"""The config file: which one, how it is read, what of it applies (worker.md §2).

This is the only parser: the worker, ``--export-config`` and so every launcher go through it.
Nothing is expanded, evaluated or unescaped, and no value is ever printed: any line may hold a
token.
"""

import re
import shlex
import stat
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path

import msgspec

from agentconnect.core.errors import SettingsError

CONFIG_SETTING = "AGENT_CONNECT_CONFIG"
DEFAULT_CONFIG = "~/.agent-connect/config.env"

_FAMILIES = ("AGENT_CONNECT_", "REMOTE_TASK_")
_SINGLE_NAMES = frozenset({"OLLAMA_HOST"})
_LINE_ENDS = re.compile(r"\r\n|\n|\r")  # not str.splitlines: it also cuts at U+2028 and others
_BLANKS = " \t\r"
_READABLE_BY_OTHERS = stat.S_IRGRP | stat.S_IROTH


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """What a config file says. ``values`` keeps the order in which names first appear."""

    values: dict[str, str]
    ignored: tuple[str, ...] = ()
    duplicated: tuple[str, ...] = ()
    unread_lines: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"Parsed({', '.join(self.values)})"


class ConfigFile(msgspec.Struct, frozen=True, kw_only=True):
    """A config file that was found and read."""

    path: Path
    mode: int
    parsed: Parsed


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """A file's settings laid under the environment: whatever the environment decides stays."""

    applied: tuple[str, ...]
    overridden: tuple[str, ...]
    environment: dict[str, str]

    def __repr__(self) -> str:
        return f"Applied({len(self.applied)} applied, {len(self.overridden)} overridden)"


class About(StrEnum):
    """The kinds of warnings a config file can earn, in the order in which they are said."""

    DUPLICATED = "duplicated"
    IGNORED = "ignored"
    PERMISSIONS = "permissions"
    UNREAD = "unread"
    RETIRED = "retired"
    UNKNOWN = "unknown"


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """One warning: a sentence that names settings and lines, never a value."""

    about: About
    keys: tuple[str, ...] = ()
    sentence: str


def expand_home(text: str, env: Mapping[str, str]) -> str:
    """``~`` and ``~/…`` by the given environment, ``~name`` by the system's users."""
    if text == "~" or text.startswith("~/"):
        home = env.get("HOME", "").strip()
        if home:
            return home + text[1:]
    try:
        return str(Path(text).expanduser()) if text.startswith("~") else text
    except RuntimeError:  # no such user, or no home known: taken literally, as a shell does
        return text


def locate(flag: str | None, env: Mapping[str, str]) -> Path | None:
    """The config file to read: ``--config``, the environment, the default place, or none.

    Raises: SettingsError when a file was named and is not there; a named file has no fallback.
    """
    for source, raw in (("--config", flag or ""), (CONFIG_SETTING, env.get(CONFIG_SETTING, ""))):
        named = raw.strip()
        if not named:
            continue
        path = Path(expand_home(named, env))
        if not _is_file(path):
            what = "is not a file" if _exists(path) else "is not there"
            raise SettingsError(f"the config file {path}, named by {source}, {what}.")
        return path
    default = Path(expand_home(DEFAULT_CONFIG, env))
    return default if _is_file(default) else None


def read(path: Path) -> ConfigFile:
    """Read and parse one config file.

    Raises: SettingsError with path and cause.
    """
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(path.stat().st_mode)
            raw = file.read()
    except OSError as error:
        cause = error.strerror or type(error).__name__
        raise SettingsError(f"the config file {path} cannot be read: {cause}.") from error
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise SettingsError(
            f"the config file {path} is not UTF-8 text (line {line}). Save it as UTF-8."
        ) from None  # the error's own text would show bytes of the file
    parsed = parse(text)
    for name, value in parsed.values.items():
        if "\0" in value:
            raise SettingsError(f"the config file {path} has a NUL character in {name}.")
    return ConfigFile(path=path, mode=mode, parsed=parsed)


def parse(text: str) -> Parsed:
    """The grammar of worker.md §2.2. Never fails: what it cannot read it names."""
    values: dict[str, str] = {}
    ignored: set[str] = set()
    duplicated: set[str] = set()
    unread: list[int] = []
    for number, line in enumerate(_LINE_ENDS.split(text.removeprefix("\ufeff")), start=1):
        stripped = line.strip(_BLANKS)
        if not stripped or stripped.startswith("#"):
            continue
        pair = _split(stripped)
        if pair is None:
            unread.append(number)
            continue
        key, value = pair
        if not _accepted(key):
            ignored.add(key)
            continue
        if key in values:
            duplicated.add(key)
        values[key] = value
    return Parsed(
        values=values,
        ignored=tuple(sorted(ignored)),
        duplicated=tuple(sorted(duplicated)),
        unread_lines=tuple(unread),
    )


def apply(values: Mapping[str, str], env: Mapping[str, str]) -> Applied:
    """Lay a file's values under the environment; a blank variable counts as unset."""
    environment = dict(env)
    applied: list[str] = []
    overridden: list[str] = []
    for name, value in values.items():
        if env.get(name, "").strip():
            overridden.append(name)
        else:
            applied.append(name)
            environment[name] = value
    return Applied(
        applied=tuple(applied), overridden=tuple(sorted(overridden)), environment=environment
    )


def applied_line(path: Path, applied: Applied) -> str:
    """The one line that is printed after a file was applied."""
    count = len(applied.applied)
    line = f"config: {path}: {count} setting{'' if count == 1 else 's'} applied"
    if applied.overridden:
        names = ", ".join(applied.overridden)
        line += f"; {len(applied.overridden)} already set in the environment: {names}"
    return line


def warnings(
    config: ConfigFile, *, known: Iterable[str], retired: Iterable[str] = ()
) -> tuple[Notice, ...]:
    """What the owner should hear about a config file (worker.md §2.4, then ours)."""
    parsed, path = config.parsed, config.path
    past = tuple(sorted(set(retired).intersection(parsed.values)))
    families = {name for name in parsed.values if name.startswith(_FAMILIES)}
    unknown = tuple(sorted(families.difference(known, past)))
    found = (
        (
            About.DUPLICATED,
            parsed.duplicated,
            f"{path} sets {_names(parsed.duplicated)} more than once; the last line counts.",
        ),
        (
            About.IGNORED,
            parsed.ignored,
            f"{path} sets {_names(parsed.ignored)}, which this file does not set; ignored.",
        ),
    )
    notices = [Notice(about=a, keys=k, sentence=s) for a, k, s in found if k]
    if config.mode & _READABLE_BY_OTHERS:
        sentence = (
            f"{path} can be read by other users of this machine, and it holds the token. "
            f"Mend it with: chmod 600 {shlex.quote(str(path))}"
        )
        notices.append(Notice(about=About.PERMISSIONS, sentence=sentence))
    if parsed.unread_lines:
        plural = "s" if len(parsed.unread_lines) > 1 else ""
        numbers = ", ".join(map(str, parsed.unread_lines))
        sentence = f"{path}, line{plural} {numbers}: not NAME=value; skipped."
        notices.append(Notice(about=About.UNREAD, sentence=sentence))
    if past:
        sentence = f"{path} sets {_names(past)}: retired, read by nothing any more."
        notices.append(Notice(about=About.RETIRED, keys=past, sentence=sentence))
    if unknown:
        sentence = f"{path} sets {_names(unknown)}, which this version does not know. Misspelt?"
        notices.append(Notice(about=About.UNKNOWN, keys=unknown, sentence=sentence))
    return tuple(notices)


def _names(keys: tuple[str, ...]) -> str:
    return ", ".join(keys)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long, a NUL: as good as absent
        return False


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _split(line: str) -> tuple[str, str] | None:
    """Name and value of one line, or None when it is not a setting line."""
    key, equals, value = line.partition("=")
    if not equals:
        return None
    key = _without_export(key.strip(_BLANKS))
    bare = key.replace("_", "")
    if not bare or not bare.isalnum():
        return None
    return key, _unquoted(value.strip(_BLANKS))


def _without_export(key: str) -> str:
    """A pasted shell line is taken for what it means."""
    word, *rest = key.split(maxsplit=1)[:2] or [""]
    return rest[0] if word == "export" and rest else key


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value


def _accepted(key: str) -> bool:
    return key.isascii() and (key.startswith(_FAMILIES) or key in _SINGLE_NAMES)
