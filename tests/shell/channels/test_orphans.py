"""A channel worker does not outlive its daemon, however that ended."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

_DAEMON = """
import trio
from tests.shell.channels.rig import hook, managed

async def main():
    async with managed({"main": {"ops": hook(1)}}) as rig:
        print(rig.children[0].pid, flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


def test_a_daemon_that_is_killed_takes_its_worker_along(repo_root: Path) -> None:
    """No credentials stay in a process that nobody knows of."""
    with subprocess.Popen(
        [sys.executable, "-c", _DAEMON], cwd=repo_root, stdout=subprocess.PIPE, text=True
    ) as daemon:
        assert daemon.stdout is not None
        worker = int(daemon.stdout.readline())
        daemon.send_signal(signal.SIGKILL)
        daemon.wait(60)
    gone_by = time.monotonic() + 60
    while _runs(worker) and time.monotonic() < gone_by:
        time.sleep(0.02)
    try:
        assert not _runs(worker)
    finally:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
