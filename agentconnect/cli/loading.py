"""The config file and the environment, read once for every command that needs settings."""

import os
import sys
from collections.abc import Callable, Mapping

import msgspec

from agentconnect.cli.console import say, warn
from agentconnect.cli.options import Options
from agentconnect.config import envfile, settings
from agentconnect.config.settings import LoadedSettings


def load_settings(
    options: Options,
    fixed: Mapping[str, str] | None = None,
    defaults: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda _chosen: {},
) -> LoadedSettings:
    """The config file and the environment, with what there is to say about them.

    ``fixed`` outranks both; ``defaults`` yield to both and are told what both chose.
    """
    path = envfile.locate(options.config, os.environ)
    values: dict[str, str] = {}
    if path is not None:
        file = envfile.read(path)
        values = file.parsed.values
        applied = envfile.applied_line(path, envfile.apply(values, os.environ))
        if options.say is not None or options.json:  # stdout is for the answer
            print(applied, file=sys.stderr)
        else:
            say(applied)
        warn(settings.file_warnings(file))
    environment = {**os.environ, **(fixed or {})}
    chosen = envfile.apply(values, environment).environment
    loaded = settings.load(
        environment,
        {**defaults(chosen), **values},
        child_umask=options.umask,
        config_file=path,
    )
    if fixed and loaded.settings.credential[1] in fixed:
        loaded = msgspec.structs.replace(loaded, credential_layer="this command itself")
    warn(loaded.warnings)
    return loaded
