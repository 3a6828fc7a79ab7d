"""The launchd agent as text (worker.md §17.4). ``plistlib`` escapes what XML would obey."""

import plistlib
from xml.parsers.expat import ExpatError

from agentconnect.service.place import Service

EXIT_S = 45  # as systemd's TimeoutStopSec


def plist(service: Service) -> str:
    """The property list."""
    content = {
        "Label": service.label,
        "ProgramArguments": ["/bin/sh", str(service.launcher)],
        "EnvironmentVariables": {
            "AGENT_CONNECT_CONFIG": str(service.config),
            "PATH": service.path,
        },
        "RunAtLoad": True,
        "KeepAlive": True,
        "ExitTimeOut": EXIT_S,
        "StandardOutPath": str(service.log),
        "StandardErrorPath": str(service.log),
    }
    return plistlib.dumps(content, sort_keys=False).decode()


def path_in(text: str) -> str | None:
    """The PATH that a property list gives its worker; None where it gives none."""
    try:
        content = plistlib.loads(text.encode())
    except (plistlib.InvalidFileException, ExpatError, ValueError):
        return None
    variables = content.get("EnvironmentVariables") if isinstance(content, dict) else None
    found = variables.get("PATH") if isinstance(variables, dict) else None
    return found if isinstance(found, str) else None
