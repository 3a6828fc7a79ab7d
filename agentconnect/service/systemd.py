"""The systemd user unit as text (worker.md §17.4).

Hardening is little on purpose. In a user's manager nearly all of it works by seccomp or a mount
namespace and so implies ``NoNewPrivileges``, which breaks ``sudo`` and what agents build their own
sandboxes from (setuid bubblewrap, ``newuidmap``); and an agent needs the home directory and the
network. What is there is safe for any agent: no core dumps (they would hold the token), and a
command that the kernel ends for want of memory does not take the worker with it.
"""

from agentconnect.service.place import Service

WATCHDOG_S = 120
STOP_S = 45  # all budgets of a stop fit in it (design.md §3)
START_S = 300  # an agent may be fetched at its first start

_TEMPLATE = """\
# Written by "agent-connect service install"; a re-run replaces it. Holds no token.
[Unit]
Description=agent-connect worker{instance}
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
Environment={config}
Environment={path}
ExecStart=/bin/sh {launcher}
Restart=always
RestartSec=10
WatchdogSec={watchdog}
TimeoutStartSec={start}
TimeoutStopSec={stop}
KillMode=mixed
SyslogIdentifier={identifier}
LimitCORE=0
OOMPolicy=continue

[Install]
WantedBy=default.target
"""


def unit(service: Service) -> str:
    """The unit file."""
    return _TEMPLATE.format(
        instance="" if service.instance == "default" else f" ({service.instance})",
        config=quoted(f"AGENT_CONNECT_CONFIG={service.config}"),
        path=quoted(f"PATH={service.path}"),
        launcher=quoted(str(service.launcher)).replace("$", "$$"),
        identifier=service.unit.removesuffix(".service"),
        watchdog=WATCHDOG_S,
        start=START_S,
        stop=STOP_S,
    )


def quoted(text: str) -> str:
    """One word of a unit file: blanks, quotes and backslashes kept, ``%`` no specifier."""
    for plain, written in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%")):
        text = text.replace(plain, written)
    return f'"{text}"'
