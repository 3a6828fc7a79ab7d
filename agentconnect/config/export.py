"""``--export-config``: a config file as shell lines (worker.md §2.5).

Launchers ``eval`` this and read the file in no other way. It applies nothing and needs neither trio
nor httpx: it must stay cheap to start.
"""

import shlex
from collections.abc import Mapping

from agentconnect.config import envfile, settings


def lines(values: Mapping[str, str], env: Mapping[str, str]) -> tuple[str, ...]:
    """One ``export`` line per setting that the environment has not decided, in file order."""
    applied = envfile.apply(values, env).applied
    return tuple(f"export {name}={shlex.quote(values[name])}" for name in applied)


def export_config(
    flag: str | None, env: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lines for stdout and the warnings for stderr; both empty when there is no file.

    Raises: SettingsError when a named file is missing or a file cannot be read.
    """
    path = envfile.locate(flag, env)
    if path is None:
        return (), ()
    config = envfile.read(path)
    return lines(config.parsed.values, env), settings.file_warnings(config)
