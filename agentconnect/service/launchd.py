"""The launchd agent as text (worker.md §17.4). ``plistlib`` escapes what XML would obey."""

import plistlib

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
