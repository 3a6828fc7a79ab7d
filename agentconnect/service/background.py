"""The worker without a service manager: a process of its own, its output in a file (§17.4, "else").

It gets the environment that the unit would give it, so that it finds what a service would find.
"""

import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from agentconnect.core.status import State, Verdict, judge
from agentconnect.service.manager import last_line
from agentconnect.service.place import Service

WAIT_S = 20.0
_LOOK_S = 0.1
_KEPT = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")


def environment(service: Service, ours: Mapping[str, str]) -> dict[str, str]:
    """What a user's manager would pass, and the unit's own two variables."""
    kept = {name: ours[name] for name in _KEPT if name in ours}
    return {**kept, "AGENT_CONNECT_CONFIG": str(service.config), "PATH": service.path}


def start(
    service: Service, ours: Mapping[str, str], status_file: Path, say: Callable[[str], None]
) -> int:
    """Start it detached and say what came of it; the exit code. Raises: OSError."""
    with service.log.open("ab") as log:
        service.log.chmod(0o600)
        process = subprocess.Popen(
            ["/bin/sh", str(service.launcher)],
            env=environment(service, ours),
            cwd=service.home,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until and process.poll() is None:
        if _serves(status_file, process.pid):
            break
        time.sleep(_LOOK_S)
    if process.poll() is not None:
        why = last_line(service.log.read_text("utf-8", "replace"))
        say(f"the worker ended with exit code {process.returncode}: {why}")
        return 1
    how = "serves" if _serves(status_file, process.pid) else "is starting"
    process.returncode = 0  # it is nobody's child from here on
    say(f"the worker {how} in the background, pid {process.pid}; log: {service.log}")
    say("it does not come back after a crash, a logout or a restart of the machine")
    return 0


def stop(service: Service, ours: Mapping[str, str]) -> None:
    """End a worker that the launcher started, if there is one."""
    if service.launcher.is_file():
        words = ["/bin/sh", str(service.launcher), "stop"]
        subprocess.run(words, env=environment(service, ours), check=False)


def _serves(status_file: Path, pid: int) -> bool:
    try:
        found = judge(status_file.read_bytes(), time.time())
    except OSError:
        return False
    if found.status is None or found.status.pid != pid:
        return False
    return found.verdict is Verdict.FRESH and found.state == State.SERVING
