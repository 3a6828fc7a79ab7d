"""A worker as a service manager starts it: next to no environment, all settings in its file."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.worker import Worker

DEAD_RELAY = "http://127.0.0.1:9/relay|secret-of-this-test"
FAKE_AGENT = Path(__file__).parents[2] / "support" / "fake_agent.py"


def bare(home: Path, settings: Mapping[str, str]) -> Worker:
    """As a service starts it: ``env -i HOME=… PATH=/usr/bin:/bin``, all settings in the file."""
    folder = home / ".agent-connect"
    folder.mkdir(exist_ok=True)
    config = folder / "config.env"
    config.write_text("".join(f'{name}="{value}"\n' for name, value in settings.items()))
    config.chmod(0o600)
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    if path := os.environ.get("PYTHONPATH"):
        env["PYTHONPATH"] = path
    log = home / "worker.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "agentconnect"],
            env=env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    return Worker(process, folder / "workspace", log)
