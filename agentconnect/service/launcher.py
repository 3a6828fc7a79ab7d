"""``launch.sh`` as text: the head with this worker's names, the common part, the one last line."""

import shlex
from pathlib import Path

from agentconnect.service.place import Service

COMMON = Path(__file__).with_name("launcher.sh")

_HEAD = """\
#!/bin/sh
# Starts one agent-connect worker in the foreground, after ending the one that this started before.
# Written by "agent-connect service install"; a re-run replaces it. Holds no secret.
#   launch.sh         becomes the worker
#   launch.sh stop    only ends the one that runs
set -eu
_default={config}
_unit={unit}
_label={label}
worker() {{ {command} "$@"; }}

"""


def launcher(service: Service, common: str) -> str:
    """The script; ``common`` is the text of :data:`COMMON`."""
    command = shlex.join(service.command)
    head = _HEAD.format(
        config=shlex.quote(str(service.config)),
        unit=shlex.quote(service.unit),
        label=shlex.quote(service.label),
        command=command,
    )
    return f"{head}{common}\nexec {command}\n"


def start_line(service: Service) -> str:
    """What a person types to run it in the foreground."""
    return shlex.join(["sh", str(service.launcher)])
